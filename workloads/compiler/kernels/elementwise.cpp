#include "workloads/compiler/kernels/elementwise_kernel.h"
#include "workloads/compiler/kernels/expression_graph.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

LoweredKernel lower_elementwise(const hlo::Module& module, const hlo::Computation& computation,
                                const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Computation fused = computation_of(module, computation, instruction);
  const ExpressionGraph graph(module, fused, instruction.name);
  ElementwiseKernel kernel(graph, instruction.operands.size(), target);
  LoweredKernel lowered;
  lowered.kernel = kernel.emit();
  lowered.vmem_bytes = kernel.vmem_bytes();
  return lowered;
}

}  // namespace tpu::compiler
