#pragma once

#include "workloads/compiler/kernels/contraction/convolution_lanes_tiling.h"
#include "workloads/compiler/kernels/contraction/matmul_epilogue.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

/// The kernel of a forward convolution or an input gradient whose batch lies in the lanes.
LoweredKernel convolution_lanes_kernel(const ConvolutionProblem& problem,
                                       const MatmulEpilogue& epilogue, const Target& target);

}  // namespace tpu::compiler
