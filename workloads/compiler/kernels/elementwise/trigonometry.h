#pragma once

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

/// Functions of fp32 values from polynomials on the vector unit. Errors are absolute, measured
/// against double on dense samples.

/// Below 1e-6 for every finite argument (`angle_reduction.h`).
VReg emit_sine(KernelBuilder& builder, VReg x);
VReg emit_cosine(KernelBuilder& builder, VReg x);
VReg emit_tangent(KernelBuilder& builder, VReg x);
/// Angle of (x, y); below 1e-6.
VReg emit_atan2(KernelBuilder& builder, VReg y, VReg x);
/// Cube root: 2^(log2 x / 3) and a Newton step.
VReg emit_cube_root(KernelBuilder& builder, VReg x);
/// To the nearest integer; halves away from zero, or to the even one.
VReg emit_round(KernelBuilder& builder, VReg x, bool half_to_even);
/// a - b trunc(a / b), exact for all a and b (fmod): a long division of the significands, 12 bits
/// of the quotient a step, as many steps as the widest distance of two exponents needs.
VReg emit_remainder(KernelBuilder& builder, VReg a, VReg b);
/// Rounds to so many bits of exponent and significand, nearest even; what is too small becomes
/// zero, what is too large infinity.
VReg emit_reduced_precision(KernelBuilder& builder, VReg x, int exponent_bits, int mantissa_bits);

}  // namespace tpu::compiler
