#include "workloads/compiler/kernels/contraction/dot_kernel.h"

#include <optional>
#include <utility>

#include "workloads/compiler/kernels/contraction/dot_emitter.h"

namespace tpu::compiler {

LoweredKernel dot_kernel(const DotProblem& problem, const DotTiling& tiling,
                         const MatmulEpilogue& epilogue, const Target& target) {
  const auto emit = [&](std::uint32_t unroll, bool may_spill) {
    KernelBuilder builder(epilogue.kernel_name, target);
    DotKernel(builder, problem, tiling, epilogue, unroll).emit();
    return lowered_kernel(builder, may_spill);
  };
  // Expressions that need more registers than there are get less code that overlaps.
  if (tiling.finished_tiles > 0 || tiling.turns_beside) {
    std::optional<LoweredKernel> overlapping = emit(kMostEpilogueTiles, false);
    if (overlapping) return std::move(*overlapping);
    return dot_kernel(problem, find_dot_tiling(problem, target, false).value(), epilogue, target);
  }
  for (std::uint32_t unroll = kMostEpilogueTiles;; unroll /= 2) {
    std::optional<LoweredKernel> lowered = emit(unroll, unroll == 1);
    if (lowered) return std::move(*lowered);
  }
}

}  // namespace tpu::compiler
