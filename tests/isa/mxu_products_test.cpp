#include "isa/mxu_products.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "isa/instruction.h"
#include "isa/meaning.h"

namespace tpu::isa::mxu_products_test {
namespace {

constexpr std::size_t kOperands = std::size_t{kSublanes} * kLanes;
constexpr std::size_t kWeights = std::size_t{kLanes} * kLanes;

/// A bf16 number of any sign with an exponent (biased, 0 for denormals) of a range.
float random_number(std::mt19937& random, std::uint32_t least, std::uint32_t most) {
  const std::uint32_t exponent = least + random() % (most - least + 1);
  const std::uint32_t mantissa = random() % 128, sign = random() % 2;
  return as_float(sign << 31 | exponent << 23 | mantissa << 16);
}

std::vector<float> random_numbers(std::mt19937& random, std::size_t count, std::uint32_t least,
                                  std::uint32_t most) {
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    number = random() % 8 == 0 ? 0.0F : random_number(random, least, most);
  }
  return numbers;
}

/// Each product rounded, then each sum, in the order of k.
std::vector<float> rounded_twice(const std::vector<float>& operand,
                                 const std::vector<float>& weights, std::vector<float> sums) {
  for (int row = 0; row < kSublanes; ++row) {
    for (int column = 0; column < kLanes; ++column) {
      for (int k = 0; k < kLanes; ++k) {
        volatile const float product = operand[kLanes * row + k] * weights[kLanes * k + column];
        volatile const float sum = sums[kLanes * row + column] + product;
        sums[kLanes * row + column] = sum;
      }
    }
  }
  return sums;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Whether fused multiply-adds are what runs here: 1 + 2^-12 squared needs 25 bits.
bool adds_are_fused() {
  std::vector<float> operand(kOperands, 0), weights(kWeights, 0), sums(kOperands, 0);
  operand[0] = weights[0] = 1.0F + 1.0F / 4096;
  sums[0] = -1.0F;
  multiply_exact_products(operand.data(), weights.data(), sums.data());
  return sums[0] == 1.0F / 2048 + 1.0F / 16777216;
}

/// Operands and weights whose largest exponents, or smallest ones, add up to a number.
struct Case {
  std::vector<float> operand, weights, sums;
  bool exact = false;

  Case(std::mt19937& random, std::uint32_t least_a, std::uint32_t most_a, std::uint32_t least_b,
       std::uint32_t most_b, std::uint32_t least_sum, std::uint32_t most_sum)
      : operand(random_numbers(random, kOperands, least_a, most_a)),
        weights(random_numbers(random, kWeights, least_b, most_b)),
        sums(random_numbers(random, kOperands, least_sum, most_sum)) {
    exact = products_are_exact(magnitudes_of(operand.data(), kOperands),
                               magnitudes_of(weights.data(), kWeights));
  }
  bool fused_is_rounded_twice() const {
    std::vector<float> fused = sums;
    multiply_exact_products(operand.data(), weights.data(), fused.data());
    return same_bits(fused, rounded_twice(operand, weights, sums));
  }
};

TEST(MxuProducts, EightRowsAreRoundedAfterEachProductAndEachSum) {
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    std::vector<float> operand(kOperands), weights(kWeights), sums(kOperands);
    // Numbers of 24 bits, infinities and NaN among them: what is not bf16 is multiplied as well.
    for (auto* numbers : {&operand, &weights, &sums}) {
      for (float& number : *numbers) {
        number = as_float(static_cast<std::uint32_t>(random()) & (i == 0 ? ~0U : 0xbfffffffU));
        if (number != number) number = 0.5F;
      }
    }
    std::vector<float> result = sums;
    multiply_eight_rows(operand.data(), weights.data(), result.data());
    const std::vector<float> expected = rounded_twice(operand, weights, sums);
    for (std::size_t n = 0; n < kOperands; ++n) {
      if (expected[n] != expected[n]) {
        ASSERT_NE(result[n], result[n]) << n;
      } else {
        ASSERT_EQ(as_bits(result[n]), as_bits(expected[n])) << n;
      }
    }
  }
}

TEST(MxuProducts, ExactOnesGiveTheSameBitsFused) {
  std::mt19937 random(2);
  int exact = 0;
  for (int i = 0; i < 200; ++i) {
    const std::uint32_t a = random() % 255, b = random() % 255, s = random() % 255;
    const Case one(random, a - random() % (a + 1), a, b - random() % (b + 1), b, 0, s);
    if (!one.exact) continue;
    ++exact;
    ASSERT_TRUE(one.fused_is_rounded_twice()) << "program " << i;
  }
  EXPECT_GE(exact, 50);
}

/// The least significant bit of numbers with exponents e and f is worth 2^(e + f - 268), that of
/// fp32 2^-149.
TEST(MxuProducts, ProductsMayBeAsSmallAsFp32Holds) {
  std::mt19937 random(3);
  bool differs = false;
  for (std::uint32_t a = 1; a < 118; ++a) {
    const Case smallest(random, a, a, 119 - a, 119 - a, 0, 3);
    ASSERT_TRUE(smallest.exact) << a;
    ASSERT_TRUE(smallest.fused_is_rounded_twice()) << a;
    const Case smaller(random, a, a, 118 - a, 118 - a, 0, 3);
    ASSERT_FALSE(smaller.exact) << a;
    differs = differs || !smaller.fused_is_rounded_twice();
  }
  EXPECT_EQ(differs, adds_are_fused());
}

/// Numbers with exponents e and f are below 2^(e - 126) and 2^(f - 126), fp32 below 2^128.
TEST(MxuProducts, ProductsMayBeAsLargeAsFp32Holds) {
  std::mt19937 random(4);
  bool differs = false;
  for (std::uint32_t a = 126; a < 255; ++a) {
    const Case largest(random, a, a, 380 - a, 380 - a, 250, 254);
    ASSERT_TRUE(largest.exact) << a;
    ASSERT_TRUE(largest.fused_is_rounded_twice()) << a;
    if (a == 126) continue;  // 381 less 126 is an infinity.
    Case larger(random, a, a, 381 - a, 381 - a, 250, 254);
    ASSERT_FALSE(larger.exact) << a;
    // The first product is beyond fp32, its sum is not.
    larger.operand[0] = as_float(a << 23 | 0x7f0000U);
    larger.weights[0] = as_float((381 - a) << 23 | 0x7f0000U);
    larger.sums[0] = as_float(0xff7f0000U);
    differs = differs || !larger.fused_is_rounded_twice();
  }
  EXPECT_EQ(differs, adds_are_fused());
}

TEST(MxuProducts, NumbersLongerThanBf16InfinitiesAndNanAreNotExact) {
  constexpr float kSmall = 1.0F / 64;  // Its products with what is less than infinity are fp32.
  std::vector<float> operand(kOperands, kSmall), weights(kWeights, kSmall);
  const auto exact = [&] {
    return products_are_exact(magnitudes_of(operand.data(), kOperands),
                              magnitudes_of(weights.data(), kWeights));
  };
  EXPECT_TRUE(exact());
  for (const std::uint32_t bits : {0x3f800001U, 0x3f808000U, 0x7f800000U, 0xff800000U, 0x7fc00000U,
                                   0xffc00000U, 0x00010000U}) {
    for (std::vector<float>* numbers : {&operand, &weights}) {
      for (const std::size_t place : {std::size_t{0}, numbers->size() - 1}) {
        (*numbers)[place] = as_float(bits);
        // A denormal times 2^-6 has its last bit at 2^-139.
        EXPECT_EQ(exact(), bits == 0x00010000U) << std::hex << bits << " at " << place;
        (*numbers)[place] = kSmall;
      }
    }
  }
  std::fill(weights.begin(), weights.end(), -0.0F);
  EXPECT_TRUE(exact());
}

}  // namespace
}  // namespace tpu::isa::mxu_products_test
