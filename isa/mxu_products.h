#pragma once

#include <cstddef>
#include <cstdint>

namespace tpu::isa {

/// Eight rows of operands times 128x128 weights, added to eight rows of results: each product is
/// rounded to fp32, then added and rounded again, in the order of k. All arrays lie row by row.
void multiply_eight_rows(const float* operand, const float* weights, float* result);

/// How large, how small and how long the numbers of an array are.
struct Magnitudes {
  std::uint32_t largest = 0;  ///< Bits of the largest one without its sign; of NaN more than all.
  /// Bits of the smallest one that is not 0, less 1; there is none: all ones.
  std::uint32_t smallest = ~std::uint32_t{0};
  std::uint32_t bits = 0;  ///< That any of them has.
};
Magnitudes magnitudes_of(const float* numbers, std::size_t count);

/// Whether each product of two numbers of such magnitudes is an fp32 number. That of two bf16
/// numbers has 16 significant bits, so it is unless it is too large, or its last bit too small.
bool products_are_exact(const Magnitudes& a, const Magnitudes& b);

/// The same bits as multiply_eight_rows() where products_are_exact(), in fused multiply-adds: where
/// rounding the product changes nothing, a sum that is rounded once is the same one. Half the
/// instructions; where the processor has none, multiply_eight_rows().
void multiply_exact_products(const float* operand, const float* weights, float* result);

}  // namespace tpu::isa
