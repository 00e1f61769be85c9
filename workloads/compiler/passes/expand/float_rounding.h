#pragma once

#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/graph/small_floats.h"

namespace tpu::compiler {

/// f32 values rounded to those that a shorter type has: nearest, ties to even, with subnormal
/// numbers; beyond the largest one infinite where the type has infinities, else NaN.
GraphEditor::Id rounded_to_format(GraphEditor& edit, GraphEditor::Id value,
                                  const hlo::FloatFormat& format);

/// The same for f16.
GraphEditor::Id rounded_to_half(GraphEditor& edit, GraphEditor::Id value);

/// The bits of f32 numbers that a shorter type holds, as it has them, in u32; and the numbers of
/// such bits. Bits above those of the type are not read.
GraphEditor::Id bits_in_format(GraphEditor& edit, GraphEditor::Id value,
                               const hlo::FloatFormat& format);
GraphEditor::Id number_in_format(GraphEditor& edit, GraphEditor::Id bits,
                                 const hlo::FloatFormat& format);

}  // namespace tpu::compiler
