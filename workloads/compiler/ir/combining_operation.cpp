#include "workloads/compiler/ir/combining_operation.h"

namespace tpu::compiler {

hlo::HloOpcode combining_operation(const hlo::Computation& body) {
  const hlo::HloInstruction& root = body.at(body.root);
  const bool combines = body.instructions.size() == 3 && root.operands.size() == 2 &&
                        root.operands[0] != root.operands[1] && hlo::is_elementwise(root.opcode);
  return combines ? root.opcode : hlo::HloOpcode::kCount;
}

hlo::HloOpcode scatter_operation(const hlo::Computation& combiner) {
  const hlo::HloInstruction& root = combiner.at(combiner.root);
  if (root.opcode == hlo::HloOpcode::kParameter) {
    return root.parameter_number == 1 ? root.opcode : hlo::HloOpcode::kCount;
  }
  switch (combining_operation(combiner)) {
    case hlo::HloOpcode::kAdd:
    case hlo::HloOpcode::kMultiply:
    case hlo::HloOpcode::kMaximum:
    case hlo::HloOpcode::kMinimum:
    case hlo::HloOpcode::kAnd:
    case hlo::HloOpcode::kOr:
      return root.opcode;
    default:
      return hlo::HloOpcode::kCount;
  }
}

const hlo::HloInstruction* uniform_start(const hlo::Computation& computation,
                                         const hlo::HloInstruction& scatter) {
  if (scatter.opcode != hlo::HloOpcode::kScatter || scatter.shape.is_tuple()) return nullptr;
  const hlo::HloInstruction& start = computation.at(scatter.operands.at(0));
  if (start.opcode != hlo::HloOpcode::kBroadcast) return nullptr;
  const hlo::HloInstruction& value = computation.at(start.operands.at(0));
  const bool is_scalar_constant =
      value.opcode == hlo::HloOpcode::kConstant && value.shape.rank() == 0;
  return is_scalar_constant ? &value : nullptr;
}

}  // namespace tpu::compiler
