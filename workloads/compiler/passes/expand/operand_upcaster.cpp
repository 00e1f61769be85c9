#include "workloads/compiler/passes/expand/operand_upcaster.h"

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
  rewrite_everywhere(module, is_mixed, [](GraphEditor& edit, const HloInstruction& given) {
    HloInstruction product = given;
    for (hlo::InstructionId& operand : product.operands) {
      operand = edit.convert(operand, product.shape.type);
    }
    product.name += ".upcast";
    edit.finish(edit.append_instruction(std::move(product)));
  });
}

}  // namespace tpu::compiler
