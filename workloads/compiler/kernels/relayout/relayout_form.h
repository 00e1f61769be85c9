#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What cuts and pads one array, with the result's dimensions of extent 1 where the operand has
/// them.
hlo::HloInstruction in_order_of_operand(const hlo::Computation& computation,
                                        const hlo::HloInstruction& instruction);

/// Whether it is a transpose, or a copy or reshape to another order of the same dimensions.
bool moves_dimensions(const hlo::Computation& computation, const hlo::HloInstruction& instruction);

/// Of such an operation: dimension i of the result, as arrays lie, is dimension permutation[i] of
/// the operand. None where there are fewer than two.
std::optional<std::vector<std::size_t>> permutation_of(const hlo::Computation& computation,
                                                       const hlo::HloInstruction& instruction);

/// Whether elements follow each other in the same order in both arrays, as a reshape needs.
bool lie_in_same_order(const hlo::Shape& operand, const hlo::Shape& result);

}  // namespace tpu::compiler
