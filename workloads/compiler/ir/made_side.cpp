#include "workloads/compiler/ir/made_side.h"

#include <set>

namespace tpu::compiler {

using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::InstructionId;

InstructionId made_for_side(const Computation& computation, const HloInstruction& side,
                            const std::function<bool(InstructionId)>& is_inside) {
  if (side.opcode != hlo::HloOpcode::kConvert || side.shape.type != ElementType::kBf16) {
    return side.id;
  }
  const HloInstruction& rounded = computation.at(side.operands[0]);
  if (rounded.shape.type != ElementType::kF32 || !is_inside(rounded.id)) return side.id;
  std::set<InstructionId> seen{rounded.id};
  std::vector<InstructionId> work{rounded.id};
  while (!work.empty()) {
    const HloInstruction& value = computation.at(work.back());
    work.pop_back();
    if (!is_inside(value.id)) {
      const bool is_array = value.shape.dimensions == side.shape.dimensions;
      if (is_array && value.shape.type == ElementType::kBf16) return side.id;
      continue;
    }
    for (InstructionId operand : value.operands) {
      if (seen.insert(operand).second) work.push_back(operand);
    }
  }
  return rounded.id;
}

}  // namespace tpu::compiler
