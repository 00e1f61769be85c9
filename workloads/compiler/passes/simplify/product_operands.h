#pragma once

#include "workloads/compiler/passes/expand/convolution_kernels.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: a dot or a convolution reads an f32 parameter where it would read the parameter rounded to
/// bf16. The matrix unit rounds its operands in the same way, so the products are the same.
///
/// Reading f32 moves twice the bytes of bf16, a kernel that rounds one and a half times those of
/// f32: the parameter itself is read where no more than two products use the rounded one, as a
/// forward pass and the gradient of its input or kernel do, also behind a reshape that adds
/// dimensions of extent 1. Convolutions have to find room for f32: their kernels are asked what
/// they take.
///
/// Needs: a verified module without call and fusion in the entry.
/// Leaves: products whose sides may be of different floating types.
void read_parameters_unrounded(hlo::Module& module, ConvolutionKernels& kernels);

}  // namespace tpu::compiler
