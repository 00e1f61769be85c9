#pragma once

#include <optional>

#include "workloads/compiler/kernels/contraction/convolution_problem.h"
#include "workloads/compiler/kernels/contraction/matmul_epilogue.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

/// The kernel of a depthwise convolution, its input gradient or its weight gradient.
LoweredKernel convolution_depthwise_kernel(const ConvolutionProblem& problem,
                                           const MatmulEpilogue& epilogue, const Target& target);

/// What it is expected to take; absent where no cut of the problem fits VMEM.
std::optional<double> depthwise_cycles(const ConvolutionProblem& problem, const Target& target);

}  // namespace tpu::compiler
