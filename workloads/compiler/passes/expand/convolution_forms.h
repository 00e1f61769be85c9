#pragma once

#include "workloads/compiler/passes/expand/convolution_kernels.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: convolutions that no kernel takes (groups, one or three spatial dimensions, a stride and a
/// base dilation at once, images whose rows do not fit VMEM ...) are written in terms of others, of
/// dots and of products (`convolution_steps.h`). Windows that do not overlap, over pixels of few
/// features, and their gradients become dots even where a kernel would take them: their pixels move
/// once. So do those that make one feature of each pixel. Few images have their pixels in the rows
/// of tiles, as convolutions of three spatial dimensions, or are cut into strips, where that takes
/// less (`image_form_choice.h`), lines of few examples likewise, and lines of few features are cut
/// into strips that fill the lanes. The strides of inputs with few features become features
/// (`window_features.h`). Kernels that are reversed in space (gradients of images) are read
/// backwards where they stand.
///
/// Needs: no calls; layouts not assigned yet. Leaves: convolutions that kernels take in the layouts
/// that assign_layouts will choose; those of zero elements and of other types than f32 and bf16 as
/// they are.
void rewrite_convolutions(hlo::Module& module, ConvolutionKernels& kernels);
/// The same by itself: no earlier pass has asked its kernels.
void rewrite_convolutions(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
