#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/kernels/elementwise/elementwise_plan.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// How much code of a member overlaps; less where values found no register.
struct MemberLimits {
  PlanLimits elementwise;
  std::uint32_t epilogue_tiles = 8;  ///< Behind a product in one straight piece of code.
};

/// A kernel of a sequence: what reads and writes arrays that stand in VMEM, whole.
class SequenceMember {
 public:
  /// An array that it reads.
  struct Input {
    int operand = 0;  ///< Of the instruction.
    hlo::Shape shape;
    ArrayPart part;                 ///< What it reads of the operand.
    std::int64_t row_granules = 0;  ///< Of a part: of each row tile.
    std::uint64_t rows = 0;         ///< VMEM rows that have to be there.
  };
  /// A result.
  struct Output {
    std::int64_t leaf = 0;
    hlo::Shape shape;
    std::uint64_t rows = 0;
  };

  virtual ~SequenceMember() = default;
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }

  /// Writes the code. `regions`: of the inputs, then of the outputs.
  virtual void emit(const std::vector<VmemRegion>& regions) = 0;
  /// Whether a scalar among its results stands in all lanes of its row; `inputs`: all that it reads
  /// is such a scalar.
  virtual bool makes_everywhere(std::size_t output, bool inputs) const = 0;
  /// This input, a scalar, will stand in all lanes of its row.
  virtual void set_everywhere(std::size_t input) = 0;
  /// Sets less code that overlaps, where the block of the code, if any, is this member's: false
  /// where it is not, or there is no less.
  virtual bool reduce(std::optional<std::uint32_t> block, MemberLimits& limits) const = 0;

 protected:
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

/// The member that an instruction of a sequence is: a product, with what stands behind it, a copy
/// to another order, or an elementwise kernel. The module outlives it.
std::unique_ptr<SequenceMember> make_sequence_member(KernelBuilder& builder,
                                                     const hlo::Module& module,
                                                     const hlo::Computation& sequence,
                                                     const hlo::HloInstruction& instruction,
                                                     const MemberLimits& limits);

}  // namespace tpu::compiler
