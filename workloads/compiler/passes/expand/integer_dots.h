#pragma once

#include <utility>

#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/scheduled_module.h"

namespace tpu::compiler {

/// Dots and convolutions of integers by the matrix units, which round operands to bf16 and add in
/// fp32: integers of eight bits are exact there, sums of their products up to 2^24, so that long
/// contractions are made in parts.

/// The s32 product of operands whose elements lie in -255 to 255; `product`, a dot or a
/// convolution, says the dimensions.
GraphEditor::Id byte_product(GraphEditor& edit, const hlo::HloInstruction& product,
                             std::pair<GraphEditor::Id, GraphEditor::Id> operands);

/// Pass: dots and convolutions of s32 and u32 as ten of their bytes, modulo 2^32 as HLO defines
/// them.
///
/// Needs: a simplified entry without calls; layouts not assigned yet. Leaves: those of floating
/// values; refusals of those with more than 258 elements beside the longest contracted dimension.
void rewrite_integer_dots(hlo::Module& module, Refusals& refusals);

}  // namespace tpu::compiler
