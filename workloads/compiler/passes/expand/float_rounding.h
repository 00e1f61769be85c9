#pragma once

#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/graph/small_floats.h"

namespace tpu::compiler {

/// f32 values rounded to those that a shorter type has: nearest, ties to even, with subnormal
/// numbers; beyond the largest one infinite where the type has infinities, else NaN.
GraphEditor::Id rounded_to_format(GraphEditor& edit, GraphEditor::Id value,
                                  const hlo::FloatFormat& format);

}  // namespace tpu::compiler
