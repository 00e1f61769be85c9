#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "isa/core_state.h"
#include "isa/program.h"
#include "models/core/followed_kernels.h"
#include "models/core/scalar_unit.h"
#include "models/origin.h"

namespace tpu {

/// With values off and kernels that are followed: which vector registers, masks, queue elements and
/// rows of VMEM of a core are known, and for the others whose data they would be. A register or row
/// is known as a whole or not at all. It follows the slice of a followed kernel bundle by bundle,
/// beside the data path that computes the values. Rows that a store outside of the slice overwrites
/// have that store as their origin; what a kernel that is not followed leaves behind is unknown. A
/// row that the slice reads and nobody knows is wanted for the next run. Rows that have no source
/// to follow (another step left them, or nothing did) are padding where a load takes known ones
/// before them: results that reach control have a note then.
class Knowledge {
 public:
  Knowledge(const FollowedKernels& followed, const isa::CoreShape& shape);

  const FollowedKernels& followed() const { return followed_; }
  bool follows(std::uint32_t kernel) const { return followed_.follows(kernel); }
  /// The core goes from one kernel to another, by a call or a return.
  void enter(std::uint32_t kernel, std::uint32_t from);

  /// A step begins: what registers and VMEM hold is what the machine happens to hold, as at the
  /// start of the run.
  void begin_step();
  /// So many vector instructions of a followed kernel are executed.
  void spend(std::uint32_t kernel, std::uint64_t instructions) {
    spent_ += instructions;
    followed_.spend_instructions(kernel, instructions);
  }
  /// The present step ends.
  void end_step() { followed_.give_back(std::exchange(spent_, 0)); }

  Origin vector(std::uint8_t reg) const { return vectors_[reg]; }
  Origin rows(std::uint32_t first, std::uint32_t count) const;
  void set_rows(std::uint32_t first, std::uint32_t count, Origin origin);
  /// A DMA of a kernel has filled the rows. Those of an opening belong to the kernel that it opens:
  /// kernels that are not followed leave them alone, until that one has returned.
  void note_arrival(std::uint32_t kernel, std::uint32_t first, std::uint32_t count);
  /// All of VMEM becomes unknown.
  void forget_rows(Origin origin);

  /// Works out what a bundle of a followed kernel makes of it; `state` and `scalar` as before the
  /// bundle. Throws UnknownControl where a guard or an address is unknown.
  void prepare(std::uint32_t kernel, std::uint32_t bundle, const isa::CoreState& state,
               const ScalarUnit& scalar);
  /// The bundle writes.
  void commit();

 private:
  struct Row {
    std::uint32_t epoch = 0;  ///< An older one than the present: what the row held is forgotten.
    Origin origin;
  };
  struct OpenedRows {
    std::uint32_t kernel = 0;  ///< That is opened.
    std::uint32_t first = 0, count = 0;
  };
  void leave_to_kernel(Origin origin);
  struct Write {
    char file;
    std::uint8_t reg;
    Origin origin;
  };
  using Queue = std::deque<Origin>;

  void forget_registers(Origin origin);
  bool acts(const isa::Instruction& in, const isa::CoreState& state,
            const ScalarUnit& scalar) const;
  void overwrite(const isa::Instruction& in, Origin origin, const isa::CoreState& state,
                 const ScalarUnit& scalar);
  static Origin address_origin(const isa::Instruction& in, Origin index_address,
                               const ScalarUnit& scalar);
  void note(const isa::Instruction& in, const isa::CoreState& state, const ScalarUnit& scalar);
  Origin operands(const isa::Instruction& in, const ScalarUnit& scalar) const;
  Origin memory(const isa::Instruction& in, const isa::CoreState& state, const ScalarUnit& scalar,
                Origin stored);
  void push(const isa::Instruction& in, Origin origin);
  Queue& queue(const isa::Instruction& in);

  const FollowedKernels& followed_;
  std::array<Origin, isa::kVectorRegisters> vectors_;
  std::array<Origin, isa::kMaskRegisters> masks_;
  std::array<Origin, isa::kMaxUnits> index_addresses_;
  std::array<std::array<Queue, isa::kMaxMxuParts>, isa::kMaxUnits> mxu_results_;
  std::array<Origin, isa::kMaxUnits> latched_;  ///< Operand parts for the next matmul.
  std::array<Origin, isa::kMaxUnits> weights_;  ///< Of all pushes since the kernel began.
  Queue eup_;
  Queue cmem_;
  struct Xlu {
    Queue results;
    Queue transposed;
    Origin pattern;
    Origin collected;
  };
  std::array<Xlu, isa::kMaxUnits> xlus_;
  std::vector<Row> rows_;
  std::uint32_t epoch_ = 0;
  Origin forgotten_;  ///< Of rows of older epochs.
  std::vector<OpenedRows> opened_;
  std::vector<Write> writes_;
  std::uint64_t spent_ = 0;  ///< Vector instructions of the present step.
};

}  // namespace tpu
