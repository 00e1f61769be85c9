#include <optional>
#include <utility>

#include "workloads/compiler/kernels/elementwise/elementwise_kernel.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

LoweredKernel lower_elementwise(const hlo::Module& module, const hlo::Computation& computation,
                                const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Computation fused = computation_of(module, computation, instruction);
  const ExpressionGraph graph(module, fused, instruction.name);
  // Expressions that need more registers than there are get less code that overlaps.
  PlanLimits limits;
  for (bool may_spill = false;;) {
    KernelBuilder builder(graph.kernel_name(), target);
    ElementwiseKernel kernel(builder, graph, instruction.operands.size(), limits);
    kernel.emit();
    std::optional<isa::Kernel> made = may_spill ? builder.finish() : builder.try_finish();
    if (made) return {std::move(*made), builder.vmem_bytes()};
    const std::optional<std::uint32_t> block = builder.crowded_block();
    may_spill = !limits.reduce(block ? kernel.pass_of(*block) : std::nullopt);
  }
}

}  // namespace tpu::compiler
