#include "workloads/compiler/passes/layout/orders_in_step.h"

#include <algorithm>

#include "workloads/compiler/ir/array_part.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

bool chooses_order(const HloInstruction& instruction) {
  switch (instruction.opcode) {
    case HloOpcode::kParameter:
    case HloOpcode::kConstant:
    case HloOpcode::kReshape:
    case HloOpcode::kTranspose:
    case HloOpcode::kDot:
    case HloOpcode::kReduce:
    case HloOpcode::kBroadcast:
    case HloOpcode::kIota:
    case HloOpcode::kCopy:
    case HloOpcode::kSlice:
    case HloOpcode::kPad:
    case HloOpcode::kReverse:
    case HloOpcode::kConcatenate:
    case HloOpcode::kDynamicSlice:
    case HloOpcode::kDynamicUpdateSlice:
      return true;
    default:
      return hlo::is_elementwise(instruction.opcode) || moves_blocks(instruction);
  }
}

std::vector<InstructionId> operands_in_step(const Computation& computation,
                                            const HloInstruction& instruction) {
  switch (instruction.opcode) {
    case HloOpcode::kSlice:
    case HloOpcode::kPad:
    case HloOpcode::kReverse:
    case HloOpcode::kReduceWindow:
    case HloOpcode::kCopy:
    case HloOpcode::kDynamicSlice:
      return {instruction.operands[0]};
    case HloOpcode::kGather:
      if (!moves_blocks(instruction)) return {};
      return {instruction.operands[0]};
    case HloOpcode::kScatter:
      if (!moves_blocks(instruction)) return {};
      return {instruction.operands[0], instruction.operands[2]};
    case HloOpcode::kDynamicUpdateSlice:
    case HloOpcode::kSelectAndScatter:
      return {instruction.operands[0], instruction.operands[1]};
    case HloOpcode::kConcatenate:
      return instruction.operands;
    case HloOpcode::kAllReduce:
      if (instruction.shape.is_tuple()) return {};
      return instruction.operands;
    default:
      break;
  }
  if (!hlo::is_elementwise(instruction.opcode)) return {};
  std::vector<InstructionId> same;
  for (InstructionId operand : instruction.operands) {
    if (computation.at(operand).shape.rank() == instruction.shape.rank()) same.push_back(operand);
  }
  return same;
}

DimensionOrder order_of_part(const DimensionOrder& whole, const std::vector<std::int64_t>& kept) {
  DimensionOrder part;
  for (std::int64_t d : whole) {
    const auto place = std::find(kept.begin(), kept.end(), d);
    if (place != kept.end()) part.push_back(place - kept.begin());
  }
  return part;
}

bool moves_rows(const HloInstruction& instruction) {
  return (instruction.opcode == HloOpcode::kGather || instruction.opcode == HloOpcode::kScatter) &&
         !instruction.shape.is_tuple() && !moves_blocks(instruction);
}

}  // namespace tpu::compiler
