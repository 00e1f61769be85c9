#pragma once

#include <cstddef>
#include <cstdint>

#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/ir/operand_parts.h"

namespace tpu::compiler {

/// A product of f32 arrays at a higher precision than the MXUs', in the kernel: each tile is
/// multiplied once for each pair of parts of its sides, one lot after the other, and all add to the
/// same sums. The vector unit makes a part when it is pushed: what stands in VMEM is the array. So
/// `highest` takes six times the passes of the MXUs and no more memory.
///
/// Only the last lot, whose product is the largest, has infinities: the others would make NaN of
/// them.
class MatmulParts {
 public:
  MatmulParts(KernelBuilder& builder, const OperandParts& parts)
      : builder_(builder), pairs_(parts) {}

  std::uint32_t lots() const { return static_cast<std::uint32_t>(pairs_.size()); }
  /// The part that a lot takes of eight rows of the left (0) or right (1) side. The MXU rounds it.
  VReg take(std::size_t side, std::uint32_t lot, VReg rows);
  /// Instructions that it takes, in the mean over the lots.
  static double instructions(std::size_t side, const PartPairs& pairs);

 private:
  VReg rest(VReg value);

  KernelBuilder& builder_;
  PartPairs pairs_;
};

}  // namespace tpu::compiler
