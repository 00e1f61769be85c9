#include "workloads/compiler/kernels/elementwise/float_bits.h"
#include "workloads/compiler/kernels/elementwise/trigonometry.h"

namespace tpu::compiler {

namespace {

using isa::Opcode;

/// Bits of the quotient that one step finds. With its sign and an estimate beside the nearest it
/// has 12, so that its products with 12 bits of the divisor are exact in fp32.
constexpr int kStepBits = 12;
/// Exponents of fp32 differ by at most 276: from 127 to that of the least denormal number.
constexpr int kSteps = 276 / kStepBits;

VReg integer(KernelBuilder& builder, Opcode opcode, VectorOperand a, VectorOperand b) {
  return builder.vector(opcode, a, b);
}
VReg difference(KernelBuilder& builder, VReg a, VReg b) {
  return builder.vector(Opcode::kVsubS32, a, b);
}
VReg float_of_word(KernelBuilder& builder, VReg a) {
  return builder.vector(Opcode::kVcvtS32F32, a);
}

/// A positive number as significand * 2^(exponent - 23), with 24 bits of significand.
struct Parts {
  VReg significand, exponent;
};

Parts parts_of(KernelBuilder& builder, VReg size) {
  constexpr int kLift = 24;
  const MReg is_denormal = builder.vector_compare(Opcode::kVcmpLtS32, size, 0x00800000U);
  const VReg normal = builder.select(is_denormal, builder.mul(size, 0x1p24F), size);
  const VReg exponent = builder.vector(Opcode::kVf32ES32, normal);
  const VReg lowered = integer(builder, Opcode::kVaddS32, exponent, -kLift);
  return {builder.vector(Opcode::kVf32SS32, normal),
          builder.select(is_denormal, lowered, exponent)};
}

/// What is needed of a divisor of 24 bits.
struct Divisor {
  VReg high, low;  ///< Halves of 12 bits, in fp32.
  VReg inverse;
};

/// a 2^shift less the nearest multiple of the divisor or the one beside it; |a| is at most a little
/// more than half of the divisor. `scale` is 2^shift over the divisor.
VReg step(KernelBuilder& builder, VReg a, VectorOperand shift, VReg scale, const Divisor& by) {
  constexpr float kToInteger = 0x1.8p23F;
  const VReg estimate = builder.mul(float_of_word(builder, a), scale);
  const VReg quotient = builder.sub(builder.add(estimate, kToInteger), kToInteger);
  const VReg high = builder.truncate_to_s32(builder.mul(quotient, by.high));
  const VReg low = builder.truncate_to_s32(builder.mul(quotient, by.low));
  return difference(builder,
                    difference(builder, builder.shift_left(a, shift), builder.shift_left(high, 12)),
                    low);
}

}  // namespace

VReg emit_remainder(KernelBuilder& builder, VReg a, VReg b) {
  const VReg size = builder.and_(a, kMagnitude), divisor = builder.and_(b, kMagnitude);
  const Parts dividend = parts_of(builder, size), parts = parts_of(builder, divisor);
  const Divisor by{
      float_of_word(builder, builder.shift_right(parts.significand, 12)),
      float_of_word(builder, builder.and_(parts.significand, 0xfffU)),
      builder.transcendental(Opcode::kVrcpF32, float_of_word(builder, parts.significand))};
  // The first step takes the bits that are no whole number of steps.
  const VReg distance = difference(builder, dividend.exponent, parts.exponent);
  const VReg steps = builder.truncate_to_s32(
      builder.mul(float_of_word(builder, distance), 1.0F / kStepBits + 0x1p-20F));
  const VReg whole = builder.truncate_to_s32(
      builder.mul(float_of_word(builder, steps), static_cast<float>(kStepBits)));
  const VReg first = difference(builder, distance, whole);
  const VReg power = builder.shift_left(integer(builder, Opcode::kVaddS32, first, 127), 23);
  VReg rest = step(builder, dividend.significand, 0U, by.inverse, by);
  rest = step(builder, rest, first, builder.mul(by.inverse, power), by);
  const VReg scale = builder.mul(by.inverse, static_cast<float>(1 << kStepBits));
  for (int i = 1; i <= kSteps; ++i) {
    const MReg is_left = builder.vector_compare(Opcode::kVcmpGeS32, steps, i);
    rest = builder.select(is_left, step(builder, rest, kStepBits, scale, by), rest);
  }
  const MReg is_below = builder.vector_compare(Opcode::kVcmpLtS32, rest, 0);
  rest =
      builder.select(is_below, integer(builder, Opcode::kVaddS32, rest, parts.significand), rest);
  VReg value = builder.vector(Opcode::kVf32F32, rest, parts.exponent);
  value = builder.select(builder.vector_compare(Opcode::kVcmpLtS32, size, divisor), size, value);
  const MReg has_none = builder.mask(
      Opcode::kVmor, builder.vector_compare(Opcode::kVcmpGeS32, size, kInfinity),
      builder.mask(Opcode::kVmor, builder.vector_compare(Opcode::kVcmpGtS32, divisor, kInfinity),
                   builder.vector_compare(Opcode::kVcmpEqS32, divisor, 0)));
  value = builder.select(has_none, kNotANumber, value);
  return builder.or_(value, builder.and_(a, kSignBit));
}

}  // namespace tpu::compiler
