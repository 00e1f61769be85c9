#pragma once

#include <cstdint>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The largest number that an element of each array of unsigned integers can have, as far as its
/// operations say (a counter below its extent, sums, products and shifts of such): the largest of
/// the type where they do not, and for arrays of other types.
std::vector<std::uint64_t> largest_values(const hlo::Computation& computation);

}  // namespace tpu::compiler
