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
  for (int most_tiles = kMostTiles;; most_tiles /= 2) {
    ElementwiseKernel kernel(graph, instruction.operands.size(), target, most_tiles);
    std::optional<isa::Kernel> made = kernel.emit(most_tiles == 1);
    if (!made) continue;
    LoweredKernel lowered;
    lowered.kernel = std::move(*made);
    lowered.vmem_bytes = kernel.vmem_bytes();
    return lowered;
  }
}

}  // namespace tpu::compiler
