#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::hlo {

/// The body of a function of CHLO in terms of HLO, on scalars of f32; nullptr where there is none
/// by that name (`erf_inv`, `asin`, ...).
const Computation* chlo_function(std::string_view name);

/// Writes the function for arrays: `add` takes an instruction whose operands are numbers that it
/// gave, and returns its number. Arguments and result have the shape `extent`, of any type.
InstructionId add_chlo_function(const Computation& function,
                                const std::vector<InstructionId>& arguments, const Shape& extent,
                                const std::function<InstructionId(HloInstruction)>& add);

}  // namespace tpu::hlo
