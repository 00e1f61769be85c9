#pragma once

#include <optional>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The result of an elementwise operation on one element of each operand, in the arithmetic of its
/// type: floats rounded, integers wrapped; predicates are 0 and 1. Types that kernels do not hold
/// (f64, f16, integers of 64 bits) are computed in double precision. `from` is the type of the
/// first operand. None where the operation is not known here, or its value not defined.
std::optional<double> scalar_result(const hlo::HloInstruction& instruction, hlo::ElementType from,
                                    const std::vector<double>& operands);

}  // namespace tpu::compiler
