#pragma once

/// TPU_CPU_CLONES compiles a function twice, for AVX2 and for the baseline, and picks one when the
/// program starts. Both compute the same bits: no fused multiply-add, no reordering. TPU_INLINE
/// forces small templates into the clones. Sanitised builds have the baseline alone, because the
/// choice runs before the sanitizers are ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TPU_CPU_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define TPU_CPU_CLONES
#endif
#define TPU_INLINE inline __attribute__((always_inline))
