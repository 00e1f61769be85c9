#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Part of `expand_factorizations`: factorizations of large matrices in terms of those of blocks
/// and of products of matrices, as LAPACK and XLA's expanders have them. What the loops over
/// columns or the kernel of eliminations take and what the products take, by estimate
/// (`factorization_forms.h`), says how large the blocks are, or that there are none. Products are
/// as precise as f32.
///   - Cholesky: factor and inverse of a block, the rows below it times the inverse, their product
///     with themselves off what is left.
///   - Triangular systems: inverses of all blocks on the diagonal at once; the solution by halves,
///     between which one product takes the first half's share off the second.
///   - LU: by halves of the columns; rows in the order of the first half's pivots, a triangular
///     system, a product.
///   - QR: by halves of the columns; the first half's reflections are I - V T V^T, with T as the
///     solution of a triangular system. The product of reflections is one such.
/// Leaves: factorizations whose loops over columns are the faster form.
void write_in_blocks(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
