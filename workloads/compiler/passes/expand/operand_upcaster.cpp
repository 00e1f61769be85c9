#include "workloads/compiler/passes/expand/operand_upcaster.h"

#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

bool is_integer(const hlo::Shape& shape) {
  return shape.type >= ElementType::kS8 && shape.type <= ElementType::kU64;
}

bool is_mixed(const hlo::Computation& code, const HloInstruction& product) {
  if (product.opcode != HloOpcode::kDot && product.opcode != HloOpcode::kConvolution) return false;
  return is_integer(code.at(product.operands[0]).shape) !=
         is_integer(code.at(product.operands[1]).shape);
}

}  // namespace

void upcast_operands(hlo::Module& module) {
  for (hlo::ComputationId id = 0; id < static_cast<hlo::ComputationId>(module.computations.size());
       ++id) {
    GraphEditor edit(module, id);
    const std::size_t count = module.computation(id).instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      HloInstruction product = module.computation(id).instructions[i];
      if (!is_mixed(module.computation(id), product)) continue;
      edit.stand_for(product.id);
      for (hlo::InstructionId& operand : product.operands) {
        operand = edit.convert(operand, product.shape.type);
      }
      product.name += ".upcast";
      edit.finish(edit.append_instruction(std::move(product)));
    }
    hlo::Computation& code = module.computations[static_cast<std::size_t>(id)];
    if (code.instructions.size() > count) tidy(code);
  }
}

}  // namespace tpu::compiler
