#include "workloads/compiler/kernels/elementwise/integer_arithmetic.h"

#include "workloads/compiler/kernels/elementwise/float_bits.h"
#include "workloads/compiler/kernels/elementwise/transcendental.h"

namespace tpu::compiler {

namespace {

using isa::Opcode;

constexpr float kTwoTo31 = 2147483648.0F, kTwoTo32 = 4294967296.0F;

VReg add_integers(KernelBuilder& builder, VReg a, VectorOperand b) {
  return builder.vector(Opcode::kVaddS32, a, b);
}
VReg subtract(KernelBuilder& builder, VReg a, VReg b) {
  return builder.vector(Opcode::kVsubS32, a, b);
}
VReg negate(KernelBuilder& builder, VReg a) { return builder.vector(Opcode::kVsubS32, 0, a); }

}  // namespace

MReg emit_less_u32(KernelBuilder& builder, VReg a, VReg b) {
  return builder.vector_compare(Opcode::kVcmpLtS32, builder.vector(Opcode::kVxorU32, a, kSignBit),
                                builder.vector(Opcode::kVxorU32, b, kSignBit));
}

VReg emit_u32_to_float(KernelBuilder& builder, VReg a) {
  const VReg converted = builder.vector(Opcode::kVcvtS32F32, a);
  const MReg is_large = builder.vector_compare(Opcode::kVcmpLtS32, a, 0);
  return builder.select(is_large, builder.add(converted, kTwoTo32), converted);
}

VReg emit_float_to_u32(KernelBuilder& builder, VReg x) {
  const MReg is_large = builder.vector_compare(Opcode::kVcmpGeF32, x, kTwoTo31);
  const VReg upper =
      builder.vector(Opcode::kVxorU32, builder.truncate_to_s32(builder.sub(x, kTwoTo31)), kSignBit);
  const VReg value = builder.select(is_large, upper, builder.truncate_to_s32(x));
  const MReg is_beyond = builder.vector_compare(Opcode::kVcmpGeF32, x, kTwoTo32);
  const MReg is_positive = builder.vector_compare(Opcode::kVcmpGtF32, x, 0.0F);
  return builder.select(is_positive, builder.select(is_beyond, 0xffffffffU, value), 0U);
}

Division emit_divide_u32(KernelBuilder& builder, VReg a, VReg b) {
  // A little less than 1 / b, so that no estimate exceeds the quotient.
  const VReg inverse =
      builder.mul(emit_reciprocal(builder, emit_u32_to_float(builder, b)), 1.0F - 1.0F / (1 << 20));
  VReg quotient, rest = a;
  for (int step = 0; step < 2; ++step) {
    const VReg estimate =
        emit_float_to_u32(builder, builder.mul(emit_u32_to_float(builder, rest), inverse));
    quotient = step == 0 ? estimate : add_integers(builder, quotient, estimate);
    rest = subtract(builder, rest, emit_multiply_s32(builder, estimate, b));
  }
  for (int step = 0; step < 2; ++step) {
    const MReg is_done = emit_less_u32(builder, rest, b);
    quotient = builder.select(is_done, quotient, add_integers(builder, quotient, 1));
    rest = builder.select(is_done, rest, subtract(builder, rest, b));
  }
  const MReg by_zero = builder.vector_compare(Opcode::kVcmpEqS32, b, 0);
  return {builder.select(by_zero, 0xffffffffU, quotient), builder.select(by_zero, a, rest)};
}

Division emit_divide_s32(KernelBuilder& builder, VReg a, VReg b) {
  const MReg a_negative = builder.vector_compare(Opcode::kVcmpLtS32, a, 0);
  const MReg b_negative = builder.vector_compare(Opcode::kVcmpLtS32, b, 0);
  const Division sizes = emit_divide_u32(builder, builder.select(a_negative, negate(builder, a), a),
                                         builder.select(b_negative, negate(builder, b), b));
  const VReg signs = builder.vector(Opcode::kVxorU32, a, b);
  const MReg differ = builder.vector_compare(Opcode::kVcmpLtS32, signs, 0);
  const MReg by_zero = builder.vector_compare(Opcode::kVcmpEqS32, b, 0);
  const VReg quotient = builder.select(differ, negate(builder, sizes.quotient), sizes.quotient);
  const VReg remainder =
      builder.select(a_negative, negate(builder, sizes.remainder), sizes.remainder);
  return {builder.select(by_zero, 0xffffffffU, quotient), remainder};
}

VReg emit_population_count(KernelBuilder& builder, VReg a) {
  const auto pairs = [&](VReg x, int shift, std::uint32_t mask) {
    return add_integers(builder, builder.and_(x, mask),
                        builder.and_(builder.shift_right(x, shift), mask));
  };
  VReg count = pairs(a, 1, 0x55555555U);
  count = pairs(count, 2, 0x33333333U);
  count = pairs(count, 4, 0x0f0f0f0fU);
  count = pairs(count, 8, 0x00ff00ffU);
  return pairs(count, 16, 0x0000ffffU);
}

}  // namespace tpu::compiler
