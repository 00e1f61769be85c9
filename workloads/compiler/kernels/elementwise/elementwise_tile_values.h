#pragma once

#include <vector>

#include "workloads/compiler/kernels/elementwise/elementwise_plan.h"

namespace tpu::compiler {

/// Values that several passes of a plan need of each tile and that take longer than a store and the
/// loads that they become (the powers of a softmax, which are added up and divided): the first of
/// the passes keeps them. The plan has its levels, and what it keeps of rows and columns.
std::vector<ElementwisePlan::TileValue> tile_values_of(const ExpressionGraph& graph,
                                                       const ElementwisePlan& plan);

}  // namespace tpu::compiler
