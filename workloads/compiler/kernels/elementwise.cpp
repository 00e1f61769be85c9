#include <optional>
#include <utility>

#include "workloads/compiler/kernels/elementwise_kernel.h"
#include "workloads/compiler/kernels/expression_graph.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

LoweredKernel lower_elementwise(const hlo::Module& module, const hlo::Computation& computation,
                                const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Computation fused = computation_of(module, computation, instruction);
  const ExpressionGraph graph(module, fused, instruction.name);
  // Expressions that need more registers than there are get less code that overlaps.
  for (PlanLimits limits;; limits.most_tiles /= 2) {
    KernelBuilder builder(graph.kernel_name(), target);
    ElementwiseKernel(builder, graph, instruction.operands.size(), limits).emit();
    std::optional<isa::Kernel> made =
        limits.most_tiles == 1 ? builder.finish() : builder.try_finish();
    if (made) return {std::move(*made), builder.vmem_bytes()};
  }
}

}  // namespace tpu::compiler
