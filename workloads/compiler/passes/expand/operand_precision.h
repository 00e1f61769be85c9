#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: dots and convolutions of f32 arrays that ask for more than the MXU's bf16 operands
/// (operand_precision, or an algorithm) become sums of products of parts: an array is the sum of
/// its rounding to bf16, of what that leaves rounded to bf16, and so on. `high` takes two parts and
/// the three products that count, `highest` (and f32 algorithms) three parts and six products.
/// Parts of what no parameter changes are constants; those that are all 0 are left out. Of small
/// dots, and of those whose sums would wait for the HBM, all products are one, whose operands are
/// the parts one behind the other along a contracted dimension. Depthwise convolutions stay: the
/// vector unit computes them in f32. Arrays of bf16 are one part. Where operands ask for different
/// precisions the higher one counts.
///
/// Needs: a module without call and fusion in the entry.
/// Leaves: no dot or convolution that asks for a precision but depthwise ones.
void rewrite_precise_products(hlo::Module& module, const Target& target);

/// Whether a dot or convolution asks for more than bf16 operands.
bool asks_for_precision(const hlo::HloInstruction& product);

}  // namespace tpu::compiler
