#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "isa/instruction.h"

namespace tpu::compiler {

/// Which registers of one file hold what when, over the cycles of a block.
///
/// A value written in cycle t and last read in cycle u takes its register from t + 1 to u: reads of
/// a bundle precede its writes, so that the next value may be written in cycle u. A value whose
/// last read is not known yet is open: it takes the register from t + 1 on.
class RegisterTimeline {
 public:
  /// `pool`: one bit per register that the block may use.
  explicit RegisterTimeline(std::uint32_t pool);

  /// A register that was taken, with what release() needs.
  struct Taken {
    std::uint8_t reg = isa::kNoRegister;
    std::int32_t written = 0;
    std::int32_t last_read = kOpen;
    std::int32_t busy_before = 0;
  };
  static constexpr std::int32_t kOpen = -1;

  /// Takes a register over cycles [written + 1, last_read], or from written + 1 on when last_read
  /// is kOpen; of those that are free, the one that became busy last, which keeps others whole for
  /// open values. Nothing when all are taken.
  std::optional<Taken> take(std::int32_t written, std::int32_t last_read);
  /// An open value has been read for the last time.
  void close(std::uint8_t reg, std::int32_t last_read);
  /// Undoes a take; several are undone in reverse order.
  void release(const Taken& taken);

 private:
  struct Register {
    std::int32_t last_busy = 0;
    std::int32_t open_from = -1;
  };
  std::uint32_t free_between(std::int32_t written, std::int32_t last_read) const;
  std::uint32_t free_from(std::int32_t written) const;
  void occupy(std::uint8_t reg, std::int32_t from, std::int32_t to);

  std::uint32_t pool_;
  std::uint32_t open_ = 0;
  std::array<Register, 32> registers_;
  std::vector<std::uint32_t> busy_;  ///< Per cycle, a bit per register.
};

}  // namespace tpu::compiler
