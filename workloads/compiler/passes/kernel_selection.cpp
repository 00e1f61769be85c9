#include "workloads/compiler/passes/kernel_selection.h"

#include <algorithm>
#include <string>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/all_reduce.h"
#include "workloads/compiler/kernels/elementwise.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/passes/layouts.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

/// Around what a fusion is made: dot or convolution, else the fusion itself.
HloOpcode heart_of(const hlo::Module& module, const HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kFusion) return instruction.opcode;
  for (const HloInstruction& inner : module.computation(instruction.called[0]).instructions) {
    if (inner.opcode == HloOpcode::kDot || inner.opcode == HloOpcode::kConvolution) {
      return inner.opcode;
    }
  }
  return HloOpcode::kFusion;
}

[[noreturn]] void refuse(const Computation& entry, const HloInstruction& instruction) {
  std::string operands;
  for (hlo::InstructionId operand : instruction.operands) {
    operands += (operands.empty() ? "" : ", ") + to_string(entry.at(operand).shape);
  }
  throw WorkloadError(std::string(hlo::to_string(instruction.opcode)) + "(" + operands + ") -> " +
                      to_string(instruction.shape));
}

}  // namespace

isa::Kernel make_kernel(const hlo::Module& module, const HloInstruction& instruction,
                        const Target& target) {
  const Computation& entry = module.entry_computation();
  switch (heart_of(module, instruction)) {
    case HloOpcode::kDot:
      return lower_dot(module, entry, instruction, target).kernel;
    case HloOpcode::kConvolution:
      return lower_convolution(module, entry, instruction, target).kernel;
    case HloOpcode::kAllReduce:
      return all_reduce_kernel(all_reduce_shape(granules(instruction.shape), target), target);
    case HloOpcode::kFusion:
    case HloOpcode::kReduce:
      return emit_elementwise(module, entry, instruction, target);
    default:
      refuse(entry, instruction);
  }
}

}  // namespace tpu::compiler
