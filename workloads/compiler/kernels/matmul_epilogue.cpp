#include "workloads/compiler/kernels/matmul_epilogue.h"

#include "sim/base/error.h"

namespace tpu::compiler {

MatmulEpilogue matmul_epilogue(const hlo::Module&, const hlo::Computation& computation,
                               const hlo::HloInstruction& instruction) {
  MatmulEpilogue epilogue;
  epilogue.kernel_name = instruction.name;
  if (instruction.opcode == hlo::HloOpcode::kFusion) {
    throw WorkloadError(instruction.name + ": no kernel for an expression behind a product yet");
  }
  epilogue.product = &instruction;
  epilogue.lhs_shape = computation.at(instruction.operands[0]).shape;
  epilogue.rhs_shape = computation.at(instruction.operands[1]).shape;
  epilogue.out_shape = instruction.shape;
  return epilogue;
}

}  // namespace tpu::compiler
