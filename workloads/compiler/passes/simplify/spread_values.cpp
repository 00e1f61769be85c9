#include "workloads/compiler/passes/simplify/spread_values.h"

#include <map>

#include "sim/base/contains.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

bool gather(const hlo::Computation& computation, InstructionId id, SpreadValue& found) {
  if (contains(found.operations, id) || contains(found.leaves, id)) return true;
  const HloInstruction& value = computation.at(id);
  if (value.opcode == HloOpcode::kBroadcast || value.opcode == HloOpcode::kIota) {
    found.leaves.push_back(id);
    return true;
  }
  if (!hlo::is_elementwise(value.opcode) || found.operations.size() > kMostOperations) return false;
  for (const InstructionId operand : value.operands) {
    if (computation.at(operand).shape.dimensions != value.shape.dimensions ||
        !gather(computation, operand, found)) {
      return false;
    }
  }
  found.operations.push_back(id);
  return true;
}

}  // namespace

std::optional<SpreadValue> spread_value(const hlo::Computation& computation, InstructionId id) {
  SpreadValue found;
  if (!gather(computation, id, found) || found.operations.empty()) {
    return std::nullopt;
  }
  return found;
}

InstructionId make_again(GraphEditor& edit, const hlo::Computation& computation,
                         const SpreadValue& value, const GraphEditor::Extents& extents,
                         const std::function<InstructionId(InstructionId leaf)>& make_leaf) {
  std::map<InstructionId, InstructionId> made;
  for (const InstructionId leaf : value.leaves) made[leaf] = make_leaf(leaf);
  for (const InstructionId id : value.operations) {
    const HloInstruction operation = computation.at(id);
    std::vector<InstructionId> operands;
    for (const InstructionId operand : operation.operands) operands.push_back(made.at(operand));
    made[id] = edit.apply_again(operation, operands, extents);
  }
  return made.at(value.operations.back());
}

}  // namespace tpu::compiler
