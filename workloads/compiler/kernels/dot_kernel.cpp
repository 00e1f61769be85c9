#include "workloads/compiler/kernels/dot_kernel.h"

#include "sim/base/error.h"
#include "workloads/compiler/kernels/dot_emitter.h"

namespace tpu::compiler {

LoweredKernel dot_kernel(const DotProblem& problem, const DotTiling& tiling,
                         const MatmulEpilogue& epilogue, const Target& target) {
  // Expressions that need more registers than there are get less code that overlaps.
  if (tiling.finished_tiles > 0) {
    try {
      return DotKernel(problem, tiling, epilogue, target, kMostEpilogueTiles).emit();
    } catch (const SimulatorBug&) {
      return dot_kernel(problem, find_dot_tiling(problem, target, false), epilogue, target);
    }
  }
  for (std::uint32_t unroll = kMostEpilogueTiles;; unroll /= 2) {
    try {
      return DotKernel(problem, tiling, epilogue, target, unroll).emit();
    } catch (const SimulatorBug&) {
      if (unroll == 1) throw;
    }
  }
}

}  // namespace tpu::compiler
