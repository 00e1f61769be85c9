#pragma once

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

/// An argument less a multiple of pi / 2, between -pi / 4 and pi / 4, and the number of the
/// quadrant (low two bits count).
struct ReducedAngle {
  VReg rest, quadrant;
};

/// Payne and Hanek's reduction in integers: the 24 bits of the significand times those 84 bits of
/// 2 / pi that neither are multiples of four quadrants nor too small to count. Relative to the rest
/// the error is below 1e-6 for all finite arguments; infinities and NaN give some finite number.
/// M. H. Payne, R. N. Hanek, "Radian reduction for trigonometric functions", SIGNUM 1983.
ReducedAngle emit_reduced_angle(KernelBuilder& builder, VReg x);

}  // namespace tpu::compiler
