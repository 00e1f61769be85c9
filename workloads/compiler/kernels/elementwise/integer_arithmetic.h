#pragma once

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

/// Arithmetic on 32-bit integers that the vector unit has no instruction for. All exact.

/// Quotient and remainder, truncated; by zero all ones and the dividend, as XLA defines it. Two
/// estimates in fp32 that never exceed the quotient, then at most two corrections by one.
struct Division {
  VReg quotient, remainder;
};
Division emit_divide_u32(KernelBuilder& builder, VReg a, VReg b);
Division emit_divide_s32(KernelBuilder& builder, VReg a, VReg b);
/// Mask: a < b as unsigned numbers.
MReg emit_less_u32(KernelBuilder& builder, VReg a, VReg b);
/// fp32 from unsigned, rounded twice (off by at most one unit in the last place).
VReg emit_u32_to_float(KernelBuilder& builder, VReg a);
/// Truncates; negative numbers and NaN give 0, what is too large all ones.
VReg emit_float_to_u32(KernelBuilder& builder, VReg x);
/// Number of bits that are set.
VReg emit_population_count(KernelBuilder& builder, VReg a);

}  // namespace tpu::compiler
