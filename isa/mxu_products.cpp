#include "isa/mxu_products.h"

#include <algorithm>

#include "isa/cpu_clones.h"
#include "isa/instruction.h"
#include "isa/meaning.h"

#if TPU_HAS_WIDE_VECTORS
#include <immintrin.h>
#endif

namespace tpu::isa {
namespace {

constexpr int kExponentBit = 23;
constexpr std::uint32_t kInfinity = 0xff;  ///< Exponent.
constexpr std::uint32_t kSign = 0x80000000;
constexpr std::uint32_t kBelowBf16 = 0xffff;  ///< Bits of fp32 that bf16 has not.

/// `kWidth` neighbouring columns of all eight rows stay in registers while k runs; each sum is
/// added up in the order of k, whatever the width.
template <int kWidth>
TPU_INLINE void multiply_columns(const float* operand, const float* weights, float* result) {
  using Columns __attribute__((vector_size(4 * kWidth), aligned(4), may_alias)) = float;
  for (int column = 0; column < kLanes; column += kWidth) {
    Columns sum[kSublanes];
    for (int row = 0; row < kSublanes; ++row) {
      sum[row] = *reinterpret_cast<const Columns*>(result + kLanes * row + column);
    }
    for (int k = 0; k < kLanes; ++k) {
      const Columns w = *reinterpret_cast<const Columns*>(weights + kLanes * k + column);
      for (int row = 0; row < kSublanes; ++row) sum[row] += operand[kLanes * row + k] * w;
    }
    for (int row = 0; row < kSublanes; ++row) {
      *reinterpret_cast<Columns*>(result + kLanes * row + column) = sum[row];
    }
  }
}

TPU_CPU_CLONES void multiply_eight_columns(const float* operand, const float* weights,
                                           float* result) {
  multiply_columns<8>(operand, weights, result);
}

#if TPU_HAS_WIDE_VECTORS
TPU_WIDE_VECTORS void multiply_sixteen_columns(const float* operand, const float* weights,
                                               float* result) {
  multiply_columns<16>(operand, weights, result);
}
#endif

#if TPU_HAS_WIDE_VECTORS
/// Four rows by sixteen columns stay in registers: eight sums, none of which waits for another.
__attribute__((target("avx2,fma"))) void multiply_fused(const float* operand, const float* weights,
                                                        float* result) {
  constexpr int kRows = 4, kVectors = 2, kWidth = 8;
  for (int column = 0; column < kLanes; column += kVectors * kWidth) {
    for (int first = 0; first < kSublanes; first += kRows) {
      const float* const rows = operand + kLanes * first;
      float* const results = result + kLanes * first + column;
      __m256 sum[kRows][kVectors];
      for (int row = 0; row < kRows; ++row) {
        for (int v = 0; v < kVectors; ++v) {
          sum[row][v] = _mm256_loadu_ps(results + kLanes * row + kWidth * v);
        }
      }
      for (int k = 0; k < kLanes; ++k) {
        const float* const w = weights + kLanes * k + column;
        const __m256 w0 = _mm256_loadu_ps(w), w1 = _mm256_loadu_ps(w + kWidth);
        for (int row = 0; row < kRows; ++row) {
          const __m256 x = _mm256_broadcast_ss(rows + kLanes * row + k);
          sum[row][0] = _mm256_fmadd_ps(x, w0, sum[row][0]);
          sum[row][1] = _mm256_fmadd_ps(x, w1, sum[row][1]);
        }
      }
      for (int row = 0; row < kRows; ++row) {
        for (int v = 0; v < kVectors; ++v) {
          _mm256_storeu_ps(results + kLanes * row + kWidth * v, sum[row][v]);
        }
      }
    }
  }
}
#endif

TPU_CPU_CLONES void find_magnitudes(const float* numbers, std::size_t count, Magnitudes& result) {
  std::uint32_t largest = 0, smallest = ~std::uint32_t{0}, bits = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t number = as_bits(numbers[i]) & ~kSign;
    largest = std::max(largest, number);
    smallest = std::min(smallest, number - 1);
    bits |= number;
  }
  result = {largest, smallest, bits};
}

}  // namespace

void multiply_eight_rows(const float* operand, const float* weights, float* result) {
#if TPU_HAS_WIDE_VECTORS
  static const bool wide = __builtin_cpu_supports("avx512f") != 0;
  if (wide) return multiply_sixteen_columns(operand, weights, result);
#endif
  multiply_eight_columns(operand, weights, result);
}

Magnitudes magnitudes_of(const float* numbers, std::size_t count) {
  Magnitudes result;
  find_magnitudes(numbers, count, result);
  return result;
}

bool products_are_exact(const Magnitudes& a, const Magnitudes& b) {
  const std::uint32_t largest_a = a.largest >> kExponentBit, largest_b = b.largest >> kExponentBit;
  if (largest_a == kInfinity || largest_b == kInfinity) return false;
  if (((a.bits | b.bits) & kBelowBf16) != 0) return false;
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  if (a.smallest == kNone || b.smallest == kNone) return true;  // All products are 0.
  // A number with exponent e is below 2^(e - 126), and its last bit, of eight, is worth
  // 2^(e - 134) or more: products are below 2^128, and multiples of 2^-149.
  const std::uint32_t smallest_a = (a.smallest + 1) >> kExponentBit;
  const std::uint32_t smallest_b = (b.smallest + 1) >> kExponentBit;
  return largest_a + largest_b <= 128 + 2 * 126 && smallest_a + smallest_b + 149 >= 2 * 134;
}

void multiply_exact_products(const float* operand, const float* weights, float* result) {
#if TPU_HAS_WIDE_VECTORS
  // A vector of twice the width does as much without them.
  static const bool fused = __builtin_cpu_supports("fma") != 0 &&
                            __builtin_cpu_supports("avx2") != 0 &&
                            __builtin_cpu_supports("avx512f") == 0;
  if (fused) return multiply_fused(operand, weights, result);
#endif
  multiply_eight_rows(operand, weights, result);
}

}  // namespace tpu::isa
