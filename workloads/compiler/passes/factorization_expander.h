#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: factorizations of matrices and solutions of triangular systems as loops over columns:
/// `cholesky`, `triangular-solve`, and the custom calls of JAX for TPU whose meaning is fixed,
/// "LuDecomposition" (partial pivoting: factors, pivots, permutation), "Qr" (Householder vectors
/// and their factors) and "ProductOfElementaryHouseholderReflectors". Each iteration works on whole
/// matrices in f32 on the vector unit, with what is outside of its part masked: n iterations of a
/// few kernels, however many matrices there are.
///
/// Needs: whole modules, f32. Leaves: while loops; others (complex ones) are refused later.
void expand_factorizations(hlo::Module& module);

}  // namespace tpu::compiler
