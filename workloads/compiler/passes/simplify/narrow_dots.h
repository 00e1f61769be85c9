#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: dots of one large array with several narrow ones, which together fit the lanes of a tile,
/// become one dot whose result is cut, so that the array is read once. Sums of dots that contract
/// few features each become one dot that contracts them all, so that no partial sum is written.
///
/// Needs: a verified module in canonical forms; layouts not assigned yet.
/// Leaves: the same values, but for the order of sums.
void join_narrow_dots(hlo::Module& module);

}  // namespace tpu::compiler
