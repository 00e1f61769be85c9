#pragma once

#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/graph/small_floats.h"

namespace tpu::compiler {

/// f32 values rounded to those that a shorter type has: nearest, ties to even, with subnormal
/// numbers; beyond the largest one infinite where the type has infinities, else NaN.
GraphEditor::Id rounded_to_format(GraphEditor& edit, GraphEditor::Id value,
                                  const hlo::FloatFormat& format);

/// The bits of f32 numbers that f16 holds, as it has them, in u32; and the numbers of such bits.
GraphEditor::Id bits_of_half(GraphEditor& edit, GraphEditor::Id value);
GraphEditor::Id half_of_bits(GraphEditor& edit, GraphEditor::Id bits);

}  // namespace tpu::compiler
