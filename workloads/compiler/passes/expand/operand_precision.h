#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: dots and convolutions of f32 arrays that ask for more than the MXU's bf16 operands
/// (operand_precision, or an algorithm) take them in parts (operand_parts.h): at `high` two and the
/// three products that count, at `highest` (and of f32 algorithms) three parts and six products.
/// Where operands ask for different precisions the higher one counts. A product is one kernel as
/// before, which makes the parts: behind the pass operand_precision says of each operand how many
/// it has, by what is known of it. Arrays of bf16 are one part, and so is what no parameter changes
/// if it has no more. Depthwise convolutions stay: the vector unit computes them in f32.
///
/// Needs: a module without call and fusion in the entry.
/// Leaves: no algorithm that asks for more than bf16 operands.
void rewrite_precise_products(hlo::Module& module);

/// Whether a dot or convolution asks for more than bf16 operands.
bool asks_for_precision(const hlo::HloInstruction& product);

}  // namespace tpu::compiler
