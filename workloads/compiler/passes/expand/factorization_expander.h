#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: factorizations of matrices and solutions of triangular systems as loops over columns:
/// `cholesky`, `triangular-solve`, and the custom calls of JAX for TPU whose meaning is fixed,
/// "LuDecomposition" (partial pivoting: factors, pivots, permutation), "Qr" (Householder vectors
/// and their factors) and "ProductOfElementaryHouseholderReflectors". Each iteration works on whole
/// matrices in f32 on the vector unit, with what is outside of its part masked: n iterations of a
/// few kernels, however many matrices there are. Factors of Cholesky, LU and QR and inverses of
/// triangles that fit a lane tile are no loops: kernels of their own make them
/// (`ir/elimination.h`), unless so many matrices fill the lanes. Large matrices are blocks and
/// products of matrices
/// (`blocked_factorizations.h`) where the estimate says so. Of so many that the loop's state could
/// not stay in VMEM from one iteration to the next, parts are worked on one after the other, in a
/// loop around it: all go through HBM once, not once for each column.
///
/// Needs: whole modules, f32. Leaves: while loops; others (complex ones) are refused later.
void expand_factorizations(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
