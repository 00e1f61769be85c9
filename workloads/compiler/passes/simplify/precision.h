#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: an f32 array that dots or convolutions (products, below) read is written as bf16 for them,
/// with the reshapes, transposes, slices, pads and concatenations in between. The MXU rounds its
/// operands to bf16 in any case, to the nearest even as a conversion does: the values are the same,
/// the bytes half.
///
/// An array has a narrow form where elementwise operations or a product make it (their kernel
/// rounds on the way out) and where nothing but products, reductions and comparisons with zero
/// reads it, or two products do: then writing the narrow form beside the wide one moves no more
/// bytes. Nor does it where a concatenation that becomes narrow reads it. A parameter has one where
/// two kernels or more move it on its way, one behind the other, and nothing else reads it.
///
/// Needs: a verified module without call and fusion in the entry, dots in canonical form; layouts
/// not assigned yet.
/// Leaves: the same values.
void narrow_dot_operands(hlo::Module& module);

}  // namespace tpu::compiler
