#include "workloads/compiler/kernels/elementwise/angle_reduction.h"

#include <array>

#include "workloads/compiler/kernels/elementwise/float_bits.h"

namespace tpu::compiler {

namespace {

using isa::Opcode;

constexpr std::uint32_t kDigitMask = 0xfffU;
constexpr std::size_t kDigits = 7;

/// 2 / pi in binary, the first word in front of the point.
constexpr std::array<std::uint32_t, 8> kTwoOverPi{
    0, 0xa2f9836eU, 0x4e441529U, 0xfc2757d1U, 0xf534ddc0U, 0xdb629599U, 0x3c439041U, 0xfe5163abU};

VReg sum(KernelBuilder& builder, VReg a, VectorOperand b) {
  return builder.vector(Opcode::kVaddS32, a, b);
}

VReg to_float(KernelBuilder& builder, VReg integer) {
  return builder.vector(Opcode::kVcvtS32F32, integer);
}

/// The 96 bits of 2 / pi from a place on that counts from the first word's highest bit.
std::array<VReg, 3> bits_from(KernelBuilder& builder, VReg place) {
  std::array<MReg, 4> is_beyond;
  for (std::size_t i = 0; i < is_beyond.size(); ++i) {
    is_beyond[i] =
        builder.vector_compare(Opcode::kVcmpGeS32, place, static_cast<std::uint32_t>(32 * (i + 1)));
  }
  std::array<VReg, 4> words;
  for (std::size_t j = 0; j < words.size(); ++j) {
    VReg word = builder.select(is_beyond[0], kTwoOverPi[j + 1], kTwoOverPi[j]);
    for (std::size_t i = 1; i < is_beyond.size(); ++i) {
      word = builder.select(is_beyond[i], kTwoOverPi[j + i + 1], word);
    }
    words[j] = word;
  }
  const VReg left = builder.and_(place, 31U);
  const VReg right = builder.vector(Opcode::kVsubS32, 32, left);
  std::array<VReg, 3> bits;
  for (std::size_t j = 0; j < bits.size(); ++j) {
    bits[j] =
        builder.or_(builder.shift_left(words[j], left), builder.shift_right(words[j + 1], right));
  }
  return bits;
}

/// Digits of 12 bits, the highest first, as fp32.
std::array<VReg, kDigits> digits_of(KernelBuilder& builder, const std::array<VReg, 3>& words) {
  std::array<VReg, kDigits> digits;
  for (std::size_t i = 0; i < kDigits; ++i) {
    const std::size_t word = 12 * i / 32;
    const int end = static_cast<int>(12 * i % 32) + 12;
    VReg digit = end > 32 ? builder.or_(builder.shift_left(words[word], end - 32),
                                        builder.shift_right(words[word + 1], 64 - end))
                          : builder.shift_right(words[word], 32 - end);
    if (end != 12) digit = builder.and_(digit, kDigitMask);
    digits[i] = to_float(builder, digit);
  }
  return digits;
}

/// Column i of the product has the unit 2^(2 - 12 i) quadrants; column 0 counts whole turns and is
/// left out. Digits but for the first column's, which keeps what it carries.
std::array<VReg, kDigits> columns_of(KernelBuilder& builder, VReg significand,
                                     const std::array<VReg, kDigits>& digits) {
  const VReg high = to_float(builder, builder.shift_right(significand, 12));
  const VReg low = to_float(builder, builder.and_(significand, kDigitMask));
  std::array<VReg, kDigits> columns;
  VReg carry;
  for (std::size_t i = kDigits - 1; i > 0; --i) {
    VReg column = sum(builder, builder.truncate_to_s32(builder.mul(high, digits[i])),
                      builder.truncate_to_s32(builder.mul(low, digits[i - 1])));
    if (carry) column = sum(builder, column, carry);
    carry = builder.shift_right(column, 12);
    columns[i] = i == 1 ? column : builder.and_(column, kDigitMask);
  }
  return columns;
}

}  // namespace

ReducedAngle emit_reduced_angle(KernelBuilder& builder, VReg x) {
  constexpr float kHalfPi = 1.57079633F, kQuarterPi = 0.785398163F;
  // Bit `place` of the table is worth two quadrants when the significand counts as an integer.
  const VReg place = sum(builder, builder.vector(Opcode::kVf32ES32, x), 7);
  const VReg significand = builder.vector(Opcode::kVf32SS32, x);
  const auto columns =
      columns_of(builder, significand, digits_of(builder, bits_from(builder, place)));
  // Units of 2^-30 and 2^-62 quadrants.
  const VReg upper = sum(
      builder, sum(builder, builder.shift_left(columns[1], 20), builder.shift_left(columns[2], 8)),
      builder.shift_right(columns[3], 4));
  const VReg lower = builder.or_(
      builder.or_(builder.shift_left(columns[3], 28), builder.shift_left(columns[4], 16)),
      builder.shift_left(columns[5], 4));
  const VReg quadrant = builder.shift_right(sum(builder, upper, 1U << 29), 30);
  const VReg rest = builder.vector(Opcode::kVsubS32, upper, builder.shift_left(quadrant, 30));
  // The lower word is unsigned: its upper 31 bits convert.
  const VReg fine = builder.mul(to_float(builder, builder.shift_right(lower, 1)), 0x1p-31F);
  const VReg angle =
      builder.mul(builder.mul(builder.add(to_float(builder, rest), fine), 0x1p-30F), kHalfPi);
  // The angle of -x is -angle, so are its quadrants.
  const VReg sign = builder.and_(x, ~kMagnitude);
  const MReg is_small =
      builder.vector_compare(Opcode::kVcmpLtF32, builder.and_(x, kMagnitude), kQuarterPi);
  const MReg is_negative = builder.vector_compare(Opcode::kVcmpLtS32, x, 0);
  const VReg turned =
      builder.select(is_negative, builder.vector(Opcode::kVsubS32, 0, quadrant), quadrant);
  return {builder.select(is_small, x, builder.vector(Opcode::kVxorU32, angle, sign)),
          builder.select(is_small, 0U, turned)};
}

}  // namespace tpu::compiler
