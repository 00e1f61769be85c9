#pragma once

#include "workloads/compiler/passes/expand/convolution_kernels.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: convolutions of few features over large images (a filter of one colour, a blur of each of
/// three, a learnt kernel of 3 x 3, gradients of their images) become stencils: sums of products of
/// shifted images, which elementwise kernels read where they stand (`streamed_shifts.h`). The
/// matrix unit would have a feature in a row or lane of its own and the others empty.
///
/// The result is a plane for each feature, and so is what elementwise operations and sums over
/// features make of it. Positions of the window along all spatial dimensions but the last are
/// summed first, so that a sum is turned in its lanes and not each of its terms. Weights that no
/// parameter changes are numbers, and those of 0 have no term.
///
/// Operands are rounded to bf16 as the matrix unit would, but where the convolution asks for
/// precision or is depthwise, which the vector unit computes in f32 in any form.
///
/// Left out: strides, dilated images, gradients of kernels.
///
/// Needs: layouts not assigned yet. After fold_window_padding, before rewrite_precise_products.
/// Leaves: no such convolution that is expected to take longer than the stencil.
void write_stencils(hlo::Module& module, ConvolutionKernels& kernels);

}  // namespace tpu::compiler
