#include "workloads/compiler/kernels/elementwise/transcendental.h"

#include <array>
#include <limits>

#include "workloads/compiler/kernels/elementwise/float_bits.h"

namespace tpu::compiler {

namespace {

using isa::Opcode;

constexpr float kLog2E = 1.44269504F;
constexpr float kLn2 = 0.693147181F;

/// c[0] x^(n-1) + ... + c[n-1].
template <std::size_t Count>
VReg polynomial(KernelBuilder& builder, VReg x, const std::array<float, Count>& coefficients) {
  VReg sum = builder.add(builder.mul(x, coefficients[0]), coefficients[1]);
  for (std::size_t i = 2; i < Count; ++i) {
    sum = builder.add(builder.mul(sum, x), coefficients[i]);
  }
  return sum;
}

}  // namespace

VReg emit_exponential(KernelBuilder& builder, VectorOperand x) {
  return builder.transcendental(Opcode::kVpow2F32, builder.mul(x, kLog2E));
}

VReg emit_exponential_minus_one(KernelBuilder& builder, VReg x) {
  const VReg half = emit_tanh(builder, builder.mul(x, 0.5F));
  return builder.mul(half, builder.add(emit_exponential(builder, x), 1.0F));
}

VReg emit_log(KernelBuilder& builder, VectorOperand x) {
  return builder.mul(builder.transcendental(Opcode::kVlog2F32, x), kLn2);
}

VReg emit_log_plus_one(KernelBuilder& builder, VReg x) {
  const VReg u = builder.add(x, 1.0F);
  const VReg rounded = builder.sub(u, 1.0F);
  const VReg ratio = emit_divide(builder, x, rounded);
  const VReg large = builder.mul(emit_log(builder, u), ratio);
  const MReg infinite =
      builder.vector_compare(Opcode::kVcmpEqF32, x, std::numeric_limits<float>::infinity());
  const VReg finite = builder.select(infinite, x, large);
  const MReg tiny = builder.vector_compare(Opcode::kVcmpEqF32, u, 1.0F);
  return builder.select(tiny, x, finite);
}

VReg emit_reciprocal(KernelBuilder& builder, VReg x, bool is_short) {
  const VReg y = builder.transcendental(Opcode::kVrcpF32, x);
  if (is_short) return y;
  const VReg error = builder.sub(1.0F, builder.mul(x, y));
  const VReg better = builder.add(y, builder.mul(y, error));
  const MReg special = builder.mask(Opcode::kVmor, builder.weird(x), builder.weird(y));
  return builder.select(special, y, better);
}

VReg emit_divide(KernelBuilder& builder, VectorOperand a, VectorOperand b) {
  const VReg divisor = b.reg ? b.reg : builder.vector(Opcode::kVmov, b);
  return emit_quotient(builder, a, emit_reciprocal(builder, divisor));
}

VReg emit_quotient(KernelBuilder& builder, VectorOperand a, VReg inverse) {
  if (!a.reg && a.immediate == float_bits(1.0F)) return inverse;
  return builder.mul(a, inverse);
}

VReg emit_rsqrt(KernelBuilder& builder, VReg x) {
  const VReg y = builder.transcendental(Opcode::kVrsqrtF32, x);
  const VReg half = builder.mul(builder.mul(x, y), builder.mul(y, 0.5F));
  const VReg better = builder.mul(y, builder.sub(1.5F, half));
  const MReg special = builder.mask(Opcode::kVmor, builder.weird(x), builder.weird(y));
  return builder.select(special, y, better);
}

VReg emit_sqrt(KernelBuilder& builder, VReg x, bool is_short) {
  const VReg inverse =
      is_short ? builder.transcendental(Opcode::kVrsqrtF32, x) : emit_rsqrt(builder, x);
  const VReg root = builder.mul(x, inverse);
  const MReg zero = builder.vector_compare(Opcode::kVcmpEqF32, x, 0.0F);
  const MReg infinite =
      builder.vector_compare(Opcode::kVcmpEqF32, x, std::numeric_limits<float>::infinity());
  const MReg special = builder.mask(Opcode::kVmor, infinite, zero);
  return builder.select(special, x, root);
}

VReg emit_tanh(KernelBuilder& builder, VectorOperand x) {
  return builder.transcendental(Opcode::kVtanhF32, x);
}

VReg emit_logistic(KernelBuilder& builder, VectorOperand x, bool is_short) {
  const VReg e = builder.transcendental(Opcode::kVpow2F32, builder.mul(x, -kLog2E));
  return emit_reciprocal(builder, builder.add(e, 1.0F), is_short);
}

VReg emit_erf(KernelBuilder& builder, VReg x) {
  constexpr std::array<float, 6> kNumerator{2.1237322e-06F, 0.00028619796F, 0.0036580483F,
                                            0.05243302F,    0.18741608F,    1.1283791F};
  constexpr std::array<float, 6> kDenominator{3.8918573e-05F, 0.001143296F, 0.014752088F,
                                              0.112945676F,   0.4994258F,   1.0F};
  const VReg square = builder.min(builder.mul(x, x), 16.0F);
  const VReg numerator = builder.mul(x, polynomial(builder, square, kNumerator));
  const VReg denominator = polynomial(builder, square, kDenominator);
  const VReg quotient = emit_divide(builder, numerator, denominator);
  return builder.max(builder.min(quotient, 1.0F), -1.0F);
}

VReg emit_power(KernelBuilder& builder, VectorOperand base, VectorOperand exponent) {
  const VReg logarithm = builder.transcendental(Opcode::kVlog2F32, base);
  return builder.transcendental(Opcode::kVpow2F32, builder.mul(logarithm, exponent));
}

VReg emit_signed_power(KernelBuilder& builder, VReg base, VReg exponent) {
  constexpr std::uint32_t kNotANumber = 0x7fc00000;
  const VReg base_size = builder.and_(base, kMagnitude);
  const MReg is_unit = builder.vector_compare(Opcode::kVcmpEqF32, base_size, 1.0F);
  // 1 whatever the exponent, infinite or no number: 0 inf is none.
  const VReg size = builder.select(is_unit, 1.0F, emit_power(builder, base_size, exponent));
  const VReg whole = builder.truncate_to_s32(exponent);
  const MReg is_whole = builder.vector_compare(
      Opcode::kVcmpEqF32, builder.vector(Opcode::kVcvtS32F32, whole), exponent);
  // Odd exponents keep the sign; large ones are even.
  const VReg odd = builder.and_(builder.shift_left(whole, 31), kSignBit);
  const MReg is_large =
      builder.vector_compare(Opcode::kVcmpGeF32, builder.and_(exponent, kMagnitude), 16777216.0F);
  const VReg sign = builder.select(is_large, 0, odd);
  const MReg has_sign = builder.mask(Opcode::kVmor, is_whole, is_large);
  // Only finite numbers below zero have no root.
  const VReg other = builder.select(builder.weird(base), size, kNotANumber);
  const VReg signed_size =
      builder.select(has_sign, builder.vector(Opcode::kVxorU32, size, sign), other);
  const MReg is_negative = builder.vector_compare(Opcode::kVcmpLtF32, base, 0.0F);
  const MReg is_one = builder.vector_compare(Opcode::kVcmpEqF32, exponent, 0.0F);
  return builder.select(is_one, 1.0F, builder.select(is_negative, signed_size, size));
}

VReg emit_floor(KernelBuilder& builder, VReg x) {
  const VReg whole = builder.vector(Opcode::kVcvtS32F32, builder.truncate_to_s32(x));
  const MReg above = builder.vector_compare(Opcode::kVcmpGtF32, whole, x);
  const VReg below = builder.select(above, builder.sub(whole, 1.0F), whole);
  const MReg exact =
      builder.vector_compare(Opcode::kVcmpLtF32, builder.and_(x, kMagnitude), 8388608.0F);
  return builder.select(exact, below, x);
}

VReg emit_ceil(KernelBuilder& builder, VReg x) {
  const VReg negated = builder.vector(Opcode::kVxorU32, x, kSignBit);
  return builder.vector(Opcode::kVxorU32, emit_floor(builder, negated), kSignBit);
}

VReg emit_multiply_s32(KernelBuilder& builder, VReg a, VReg b) {
  const auto digits = [&](VReg x) {
    std::array<VReg, 3> parts;
    for (std::size_t i = 0; i < 3; ++i) {
      VReg digit = i == 0 ? x : builder.shift_right(x, static_cast<int>(12 * i));
      if (i < 2) digit = builder.and_(digit, 0xfffU);
      parts[i] = builder.vector(Opcode::kVcvtS32F32, digit);
    }
    return parts;
  };
  const std::array<VReg, 3> left = digits(a);
  const std::array<VReg, 3> right = digits(b);
  const auto product = [&](std::size_t i, std::size_t j) {
    return builder.truncate_to_s32(builder.mul(left[i], right[j]));
  };
  const auto sum = [&](VReg x, VReg y) { return builder.vector(Opcode::kVaddS32, x, y); };
  const VReg high = sum(sum(product(0, 2), product(1, 1)), product(2, 0));
  const VReg middle = sum(product(0, 1), product(1, 0));
  const VReg upper = sum(builder.shift_left(high, 24), builder.shift_left(middle, 12));
  return sum(product(0, 0), upper);
}

}  // namespace tpu::compiler
