#pragma once

#include "workloads/compiler/kernels/contraction/convolution_problem.h"
#include "workloads/compiler/kernels/contraction/matmul_epilogue.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

/// The kernel of a depthwise convolution, its input gradient or its weight gradient.
LoweredKernel convolution_depthwise_kernel(const ConvolutionProblem& problem,
                                           const MatmulEpilogue& epilogue, const Target& target);

/// Whether a cut of the problem fits VMEM.
bool fits_depthwise(const ConvolutionProblem& problem, const Target& target);

}  // namespace tpu::compiler
