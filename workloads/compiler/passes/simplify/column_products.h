#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: dots whose dimensions are a few elements but for long ones of one kind (points times a
/// matrix of 3 x 3, its gradient, a covariance; colours of pictures), of which the matrix unit
/// would use a corner, become products and sums of columns: vectors along the long dimension, or
/// planes along several. Where the long dimensions are free, the columns of the result are put
/// beside each other; where they are contracted, each element is a sum. Columns of what a dot made
/// so are not cut out of it, nor of what few elementwise operations make of it.
///
/// Operands are rounded to bf16 where the dot leaves them so, as the matrix unit would: the
/// products are the same, exact in f32, and so is the order in which short dimensions are added.
///
/// Needs: layouts not assigned yet. Before rewrite_precise_products and multiply_small_matrices.
/// Leaves: no such dot where the target's vector unit takes fewer cycles.
void multiply_columns(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
