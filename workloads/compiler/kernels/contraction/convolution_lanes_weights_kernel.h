#pragma once

#include "workloads/compiler/kernels/contraction/convolution_problem.h"
#include "workloads/compiler/kernels/contraction/matmul_epilogue.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

/// The kernel of a weight gradient whose batch lies in the lanes.
LoweredKernel convolution_lanes_weights_kernel(const ConvolutionProblem& problem,
                                               const MatmulEpilogue& epilogue,
                                               const Target& target);

}  // namespace tpu::compiler
