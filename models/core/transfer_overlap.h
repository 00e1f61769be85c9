#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "models/machine.h"

namespace tpu {

/// How long what an op sends to other cores was under way while the core executed something else:
/// what of a collective hides behind the kernels beside it. Of transfers of one op that overlap
/// each cycle counts once.
class TransferOverlap {
 public:
  /// The core, which may be ahead of the machine's time, executes an op from `now` on.
  void runs(std::uint32_t op, std::uint64_t now);
  /// A transfer begins, and belongs to the op that is returned.
  std::uint32_t begin(std::uint64_t now);
  /// It has arrived.
  void end(std::uint32_t op, std::uint64_t now);

  /// What was counted before belongs to a step of the warm-up.
  void begin_account(std::uint64_t now);
  /// The run ends: adds what was counted to what the ops did.
  void add_to(OpResults& ops, std::uint64_t run_end);

 private:
  struct Stretch {
    std::uint64_t begin = 0;
    std::uint32_t op = OpResult::kNoOp;
  };
  /// Of an op, transfers that are under way.
  struct UnderWay {
    std::uint32_t transfers = 0;
    std::uint64_t since = 0;  ///< Cycles before are counted.
  };
  void count(std::uint32_t op, std::uint64_t begin, std::uint64_t end);
  void forget();

  std::vector<Stretch> stretches_{{}};  ///< Since the first transfer under way began, or the last.
  std::map<std::uint32_t, UnderWay> under_way_;
  std::map<std::uint32_t, std::map<std::uint32_t, std::uint64_t>> beside_;
};

}  // namespace tpu
