#include "workloads/compiler/kernels/dot_kernel.h"

#include "workloads/compiler/kernels/dot_emitter.h"

namespace tpu::compiler {

LoweredKernel dot_kernel(const DotProblem& problem, const DotTiling& tiling,
                         const MatmulEpilogue& epilogue, const Target& target) {
  return DotKernel(problem, tiling, epilogue, target).emit();
}

}  // namespace tpu::compiler
