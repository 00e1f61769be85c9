#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: a dot with a small matrix along a short dimension that is a part of a longer one (blocks
/// of 8 x 8 pixels, heads, pairs, groups that share their weights) contracts the longer one, in the
/// order of the array that was split, with a matrix whose blocks are the small one: 0 between
/// different parts. So nothing is split, and tiles stay full. The gradient of such a matrix is the
/// sum of the blocks on the diagonal of the product of the whole arrays.
///
/// The blocks of the matrix are made by products with matrices of 0 and 1. Where the long dimension
/// is not the last one it is contracted a tile or so at a time. An infinity or NaN of the array
/// reaches the parts of its row that share the matrix.
///
/// Left out: matrices of several dimensions a side, a matrix for each part, sides of which two
/// dimensions are contracted, arrays that are split where they come from.
///
/// Needs: a module without call and fusion in the entry; layouts not assigned yet. Before
/// rewrite_precise_products, behind the passes that make such products on the vector unit.
/// Leaves: the same values, but for the order of sums, where the estimate of what is moved and
/// multiplied is less.
void multiply_in_blocks(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
