#pragma once

#include "workloads/compiler/passes/convolution_kernels.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: gives every array of every computation a layout by the convention of `ir/array_layout.h`.
///
/// Needs: a verified module. Layouts that are there already are replaced.
/// Leaves: operands and results of elementwise operations, reductions' inputs, windows, slices,
/// pads, concatenations and broadcasts in the same order wherever both sides have the same rank;
/// transposes and reshapes in between stay (pass `simplify` turns those that move nothing into
/// bitcasts).
void assign_layouts(hlo::Module& module, ConvolutionKernels& kernels);
/// The same by itself: no earlier pass has asked its kernels.
void assign_layouts(hlo::Module& module, const Target& target = {});

}  // namespace tpu::compiler
