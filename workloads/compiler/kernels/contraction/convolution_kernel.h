#pragma once

#include "workloads/compiler/kernels/contraction/convolution_problem.h"
#include "workloads/compiler/kernels/contraction/convolution_tiling.h"
#include "workloads/compiler/kernels/contraction/matmul_epilogue.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

/// The kernel of a forward convolution or an input gradient with the given cut.
LoweredKernel convolution_kernel(const ConvolutionProblem& problem, const ConvolutionTiling& tiling,
                                 const MatmulEpilogue& epilogue, const Target& target);

}  // namespace tpu::compiler
