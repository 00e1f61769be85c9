#pragma once

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

/// Functions of fp32 values on the vector unit, made of the transcendental unit's instructions and
/// corrections the way XLA's listings make them: e^x = 2^(x log2 e), ln x = log2 x ln 2, and a
/// Newton step after vrcp and vrsqrt that infinite operands and results pass by (vweird). Listings
/// of programs in bf16 have no such step behind a vrcp, nor in a square root: `is_short`, a value
/// of which eight bits count.
VReg emit_exponential(KernelBuilder& builder, VectorOperand x);
/// tanh(x / 2) (e^x + 1): no cancellation near 0.
VReg emit_exponential_minus_one(KernelBuilder& builder, VReg x);
VReg emit_log(KernelBuilder& builder, VectorOperand x);
/// ln(u) x / (u - 1) with u = 1 + x, which undoes the rounding of u; x where u is 1.
VReg emit_log_plus_one(KernelBuilder& builder, VReg x);
VReg emit_reciprocal(KernelBuilder& builder, VReg x, bool is_short = false);
VReg emit_divide(KernelBuilder& builder, VectorOperand a, VectorOperand b);
/// A quotient by a value whose reciprocal is known.
VReg emit_quotient(KernelBuilder& builder, VectorOperand a, VReg inverse);
VReg emit_rsqrt(KernelBuilder& builder, VReg x);
VReg emit_sqrt(KernelBuilder& builder, VReg x, bool is_short = false);
VReg emit_tanh(KernelBuilder& builder, VectorOperand x);
VReg emit_logistic(KernelBuilder& builder, VectorOperand x, bool is_short = false);
/// Quotient of polynomials in x^2, argument limited to |x| <= 4.
VReg emit_erf(KernelBuilder& builder, VReg x);
/// base^exponent for positive bases.
VReg emit_power(KernelBuilder& builder, VectorOperand base, VectorOperand exponent);
/// base^exponent for all: 1 where the exponent is 0; of negative bases a number where the exponent
/// is a whole one.
VReg emit_signed_power(KernelBuilder& builder, VReg base, VReg exponent);
/// Largest integer not above x (floor) or smallest not below it.
VReg emit_floor(KernelBuilder& builder, VReg x);
VReg emit_ceil(KernelBuilder& builder, VReg x);
/// a * b modulo 2^32, from products of 12-bit digits, which fp32 holds exactly.
VReg emit_multiply_s32(KernelBuilder& builder, VReg a, VReg b);

}  // namespace tpu::compiler
