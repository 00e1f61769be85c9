#pragma once

#include "workloads/compiler/kernels/contraction/dot_tiling.h"
#include "workloads/compiler/kernels/contraction/matmul_epilogue.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

/// The product of an epilogue, with what the search asks of the expression behind it.
DotProblem problem_of(const MatmulEpilogue& epilogue, bool stands_in_vmem = false);

/// The kernel for a dot with the given cut. Operands: left, right, those of the epilogue, result,
/// at the places that the epilogue says.
LoweredKernel dot_kernel(const DotProblem& problem, const DotTiling& tiling,
                         const MatmulEpilogue& epilogue, const Target& target);

}  // namespace tpu::compiler
