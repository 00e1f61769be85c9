#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: eigenvalues and eigenvectors of symmetric matrices ("Eigh", the custom call of JAX for
/// TPU) as Jacobi rotations on the vector unit, in f32: by a kernel of their own for up to 128 rows
/// (`ir/rotations.h`), else, and where so many matrices fill the lanes, as a loop. Each step turns
/// all n / 2 pairs of rows (i, i + n / 2) and their columns at once, so that the elements where
/// they meet become zero, and then moves rows and columns so that others are pairs: after n - 1
/// steps each has met each, and all stand where they stood. 3 + log2(n) such sweeps; Jacobi's
/// method converges quadratically. Eigenvalues come in ascending order; the sign of an eigenvector
/// is anybody's. Source: Brent and Luk, 1985.
///
/// Needs: whole modules, f32. Leaves: while loops and the custom calls of kernels.
void expand_eigenvalues(hlo::Module& module);

}  // namespace tpu::compiler
