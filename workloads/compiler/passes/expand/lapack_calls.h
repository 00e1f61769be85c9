#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: calls of LAPACK in f32, which JAX writes where it lowers a program for the CPU (what
/// `jax.jit(f).lower(x)` does on a machine without a TPU), become the operations that it writes for
/// a TPU: `lapack_spotrf_ffi` a cholesky, `lapack_strsm_ffi` a triangular-solve,
/// `lapack_sgetrf_ffi`, `lapack_sgeqrf_ffi`, `lapack_sorgqr_ffi` and `lapack_ssyevd_ffi` the
/// custom-calls "LuDecomposition", "Qr", "ProductOfElementaryHouseholderReflectors" and "Eigh".
/// What LAPACK counts otherwise is counted so: pivots begin at 1, `info` is 1 where a matrix is not
/// positive definite and else 0.
///
/// Needs: a verified module. Leaves: other calls of LAPACK (singular values, those in f64 and of
/// complex numbers), which are refused later.
void legalize_lapack_calls(hlo::Module& module);

/// Whether an instruction calls LAPACK, a library of the CPU.
bool is_cpu_library_call(const hlo::HloInstruction& instruction);

}  // namespace tpu::compiler
