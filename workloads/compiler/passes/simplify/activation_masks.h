#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: the gradient of a leaky rectifier, select(x > 0, x, c x) with c > 0, asks where x was
/// positive, and so does the result say. Where a product, pooling or the like has the result stand
/// in HBM, and x is a product with vectors added or multiplied that nothing else reads, comparisons
/// behind the result read the result (simplify has them read a plain one). And where a value stands
/// there as bf16 alone, its comparisons with zero read that. So the product's kernel writes one
/// array, not x or a mask beside it.
///
/// Needs: a verified module without call and fusion in the entry, behind narrow_dot_operands;
/// layouts not assigned yet.
/// Leaves: the same values, but where a number other than zero is so small that it becomes zero as
/// bf16 or times c (below 2^-126).
void read_masks_from_activations(hlo::Module& module);

}  // namespace tpu::compiler
