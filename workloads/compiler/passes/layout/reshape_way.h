#pragma once

#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Arrays by whose way one array of elements may become another that holds them in the same logical
/// order, however both lie: matrices whose rows are those of some dimensions of either, the
/// elements one behind the other, each row a matrix by itself; and, for each place between two
/// dimensions of either, what is before it and what is behind it as one dimension or as they are,
/// with what is behind it outside: lanes and rows that are few go out of the tiles so.
std::vector<hlo::Shape> shapes_between(const hlo::Shape& from, const hlo::Shape& to);

}  // namespace tpu::compiler
