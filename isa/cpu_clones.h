#pragma once

/// TPU_CPU_CLONES compiles a function twice, for AVX2 and for the baseline, and picks one when the
/// program starts. Both compute the same bits: no fused multiply-add, no reordering. TPU_INLINE
/// forces small templates into the clones. TPU_WIDE_VECTORS compiles a function for vectors of 64
/// bytes (AVX-512), where TPU_HAS_WIDE_VECTORS says that the compiler can; its caller asks the
/// processor. Sanitised builds have the baseline alone, because the
/// choice runs before the sanitizers are ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TPU_CPU_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define TPU_CPU_CLONES
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TPU_HAS_WIDE_VECTORS 1
#define TPU_WIDE_VECTORS __attribute__((target("avx512f")))
#else
#define TPU_HAS_WIDE_VECTORS 0
#endif
#define TPU_INLINE inline __attribute__((always_inline))
