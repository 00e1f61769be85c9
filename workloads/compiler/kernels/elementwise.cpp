#include "workloads/compiler/kernels/elementwise.h"

#include "workloads/compiler/kernels/elementwise_kernel.h"
#include "workloads/compiler/kernels/expression_graph.h"

namespace tpu::compiler {

isa::Kernel emit_elementwise(const hlo::Module& module, const hlo::Computation& computation,
                             const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Computation fused = computation_of(module, computation, instruction);
  const ExpressionGraph graph(module, fused, instruction.name);
  return ElementwiseKernel(graph, instruction.operands.size(), target).emit();
}

}  // namespace tpu::compiler
