#include "workloads/compiler/kernels/dot_kernel.h"

#include <utility>

#include "workloads/compiler/kernels/dot_emitter.h"

namespace tpu::compiler {

LoweredKernel dot_kernel(const DotProblem& problem, const DotTiling& tiling,
                         const MatmulEpilogue& epilogue, const Target& target) {
  // Expressions that need more registers than there are get less code that overlaps.
  if (tiling.finished_tiles > 0 || tiling.turns_beside) {
    auto overlapping = DotKernel(problem, tiling, epilogue, target, kMostEpilogueTiles).emit(false);
    if (overlapping) return std::move(*overlapping);
    return dot_kernel(problem, find_dot_tiling(problem, target, false), epilogue, target);
  }
  for (std::uint32_t unroll = kMostEpilogueTiles;; unroll /= 2) {
    auto lowered = DotKernel(problem, tiling, epilogue, target, unroll).emit(unroll == 1);
    if (lowered) return std::move(*lowered);
  }
}

}  // namespace tpu::compiler
