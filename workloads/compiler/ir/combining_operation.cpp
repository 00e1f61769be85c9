#include "workloads/compiler/ir/combining_operation.h"

namespace tpu::compiler {

hlo::HloOpcode combining_operation(const hlo::Computation& body) {
  const hlo::HloInstruction& root = body.at(body.root);
  const bool combines = body.instructions.size() == 3 && root.operands.size() == 2 &&
                        root.operands[0] != root.operands[1] && hlo::is_elementwise(root.opcode);
  return combines ? root.opcode : hlo::HloOpcode::kCount;
}

}  // namespace tpu::compiler
