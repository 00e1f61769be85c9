#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: zeros that a pad puts around (or between) the pixels of a convolution's input become the
/// padding (or base dilation) of its window, and pixels that a slice or a negative pad cuts off its
/// only result are not computed: layers that pad by an operation of their own, causal convolutions
/// and their gradients need no array of padded pixels. Nor does the gradient of a maximum over
/// windows, which JAX lowers for the CPU as a pad by what is never selected, a select-and-scatter,
/// and a slice of what was there before. Elements of a window that meet nothing but zeros anywhere
/// are cut off it where they are half of it or more, and so is what such a window would have made.
///
/// Needs: a verified module without call and fusion in the entry; layouts not assigned yet.
/// Leaves: the same values.
void fold_window_padding(hlo::Module& module);

/// What a pad adds along a dimension becomes the window's; false for cuts, and for gaps between
/// elements where the window has some already.
bool take_padding(hlo::WindowDimension& window, const hlo::PaddingDimension& padding);

}  // namespace tpu::compiler
