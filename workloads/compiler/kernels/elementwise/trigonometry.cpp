#include "workloads/compiler/kernels/elementwise/trigonometry.h"

#include "workloads/compiler/kernels/elementwise/angle_reduction.h"
#include "workloads/compiler/kernels/elementwise/float_bits.h"
#include "workloads/compiler/kernels/elementwise/transcendental.h"

namespace tpu::compiler {

namespace {

using isa::Opcode;

VReg magnitude(KernelBuilder& builder, VReg x) { return builder.and_(x, kMagnitude); }
VReg sign_bit(KernelBuilder& builder, VReg x) { return builder.and_(x, kSignBit); }
VReg exclusive_or(KernelBuilder& builder, VReg a, VReg b) {
  return builder.vector(Opcode::kVxorU32, a, b);
}

VReg short_sine(KernelBuilder& builder, VReg x, VReg square) {
  VReg sum = builder.add(builder.mul(square, -1.9515295891e-4F), 8.3321608736e-3F);
  sum = builder.add(builder.mul(sum, square), -1.6666654611e-1F);
  return builder.add(builder.mul(builder.mul(sum, square), x), x);
}

VReg short_cosine(KernelBuilder& builder, VReg square) {
  VReg sum = builder.add(builder.mul(square, 2.443315711809948e-5F), -1.388731625493765e-3F);
  sum = builder.add(builder.mul(sum, square), 4.166664568298827e-2F);
  sum = builder.mul(builder.mul(sum, square), square);
  return builder.add(builder.sub(sum, builder.mul(square, 0.5F)), 1.0F);
}

/// The sine of a reduced angle plus so many quadrants; NaN for infinities.
VReg sine_of(KernelBuilder& builder, VReg x, const ReducedAngle& angle, int quadrants) {
  VReg quadrant = angle.quadrant;
  if (quadrants != 0) quadrant = builder.vector(Opcode::kVaddS32, quadrant, quadrants);
  const VReg square = builder.mul(angle.rest, angle.rest);
  const MReg is_odd = builder.vector_compare(Opcode::kVcmpNeS32, builder.and_(quadrant, 1U), 0U);
  const VReg value = builder.select(is_odd, short_cosine(builder, square),
                                    short_sine(builder, angle.rest, square));
  const VReg sign = builder.shift_left(builder.and_(quadrant, 2U), 30);
  return builder.select(builder.is_finite(x), exclusive_or(builder, value, sign), kNotANumber);
}

}  // namespace

VReg emit_sine(KernelBuilder& builder, VReg x) {
  return sine_of(builder, x, emit_reduced_angle(builder, x), 0);
}

VReg emit_cosine(KernelBuilder& builder, VReg x) {
  return sine_of(builder, x, emit_reduced_angle(builder, x), 1);
}

VReg emit_tangent(KernelBuilder& builder, VReg x) {
  const ReducedAngle angle = emit_reduced_angle(builder, x);
  return emit_divide(builder, sine_of(builder, x, angle, 0), sine_of(builder, x, angle, 1));
}

VReg emit_atan2(KernelBuilder& builder, VReg y, VReg x) {
  constexpr float kPi = 3.14159265F, kTanPiOver8 = 0.414213562F;
  const VReg a = magnitude(builder, y), b = magnitude(builder, x);
  const VReg small = builder.min(a, b), large = builder.max(a, b);
  // 0 / 0 and infinity / infinity lie on the axes and the diagonal.
  const MReg is_zero = builder.vector_compare(Opcode::kVcmpEqF32, large, 0.0F);
  const MReg is_diagonal = builder.vector_compare(Opcode::kVcmpEqS32, small, kInfinity);
  VReg ratio = emit_divide(builder, small, large);
  ratio = builder.select(is_zero, 0.0F, builder.select(is_diagonal, 1.0F, ratio));
  const MReg is_steep = builder.vector_compare(Opcode::kVcmpGtF32, ratio, kTanPiOver8);
  const VReg turned = emit_divide(builder, builder.sub(ratio, 1.0F), builder.add(ratio, 1.0F));
  const VReg z = builder.select(is_steep, turned, ratio);
  const VReg square = builder.mul(z, z);
  VReg sum = builder.add(builder.mul(square, 8.05374449538e-2F), -1.38776856032e-1F);
  sum = builder.add(builder.mul(sum, square), 1.99777106478e-1F);
  sum = builder.add(builder.mul(sum, square), -3.33329491539e-1F);
  VReg angle = builder.add(builder.mul(builder.mul(sum, square), z), z);
  angle = builder.add(angle, builder.select(is_steep, kPi / 4, 0.0F));
  const MReg is_high = builder.vector_compare(Opcode::kVcmpGtF32, a, b);
  angle = builder.select(is_high, builder.sub(kPi / 2, angle), angle);
  const MReg is_left = builder.vector_compare(Opcode::kVcmpLtS32, x, 0);
  angle = builder.select(is_left, builder.sub(kPi, angle), angle);
  return builder.or_(angle, sign_bit(builder, y));
}

VReg emit_cube_root(KernelBuilder& builder, VReg x) {
  const VReg a = magnitude(builder, x);
  const VReg third = builder.mul(builder.transcendental(Opcode::kVlog2F32, a), 1.0F / 3);
  const VReg root = builder.transcendental(Opcode::kVpow2F32, third);
  const VReg error = builder.sub(root, emit_divide(builder, a, builder.mul(root, root)));
  const VReg better = builder.sub(root, builder.mul(error, 1.0F / 3));
  const MReg is_zero = builder.vector_compare(Opcode::kVcmpEqF32, a, 0.0F);
  const MReg is_own_root = builder.mask(Opcode::kVmor, builder.weird(x), is_zero);
  const VReg value = builder.select(is_own_root, a, better);
  return builder.or_(value, sign_bit(builder, x));
}

VReg emit_round(KernelBuilder& builder, VReg x, bool half_to_even) {
  const VReg a = magnitude(builder, x);
  const VReg whole = emit_floor(builder, a);
  const VReg rest = builder.sub(a, whole);
  MReg up =
      builder.vector_compare(half_to_even ? Opcode::kVcmpGtF32 : Opcode::kVcmpGeF32, rest, 0.5F);
  if (half_to_even) {
    const MReg is_half = builder.vector_compare(Opcode::kVcmpEqF32, rest, 0.5F);
    const VReg odd = builder.and_(builder.truncate_to_s32(whole), 1U);
    const MReg is_odd = builder.vector_compare(Opcode::kVcmpNeS32, odd, 0U);
    up = builder.mask(Opcode::kVmor, up, builder.mask(Opcode::kVmand, is_half, is_odd));
  }
  const VReg rounded = builder.select(up, builder.add(whole, 1.0F), whole);
  return builder.or_(rounded, sign_bit(builder, x));
}

VReg emit_reduced_precision(KernelBuilder& builder, VReg x, int exponent_bits, int mantissa_bits) {
  VReg value = magnitude(builder, x);
  const int dropped = 23 - mantissa_bits;
  if (dropped > 0) {
    const VReg last = builder.and_(builder.shift_right(value, dropped), 1U);
    const VReg half = builder.vector(Opcode::kVaddS32, last, (1U << (dropped - 1)) - 1);
    value = builder.and_(builder.vector(Opcode::kVaddS32, value, half), ~((1U << dropped) - 1));
  }
  if (exponent_bits < 8) {
    const std::uint32_t bias = (1U << (exponent_bits - 1)) - 1;
    const std::uint32_t least = (127 - bias + 1) << 23;  // Below lie denormals.
    const std::uint32_t beyond = (127 + bias + 1) << 23;
    const MReg is_small = builder.vector_compare(Opcode::kVcmpLtS32, value, least);
    const MReg is_large = builder.vector_compare(Opcode::kVcmpGeS32, value, beyond);
    value = builder.select(is_small, 0U, builder.select(is_large, kInfinity, value));
  }
  const VReg made = builder.or_(value, sign_bit(builder, x));
  const MReg is_special =
      builder.vector_compare(Opcode::kVcmpGeS32, magnitude(builder, x), kInfinity);
  return builder.select(is_special, x, made);
}

}  // namespace tpu::compiler
