#pragma once

#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Orders in which the arrays of a dot are matrices that lie side by side.
struct DotOrders {
  DimensionOrder lhs, rhs, result;
};

/// For a dot whose arrays are none as they lie: one operand in an order that suits the others, or,
/// where there are several matrices, the result; the smallest one that does (a larger one where
/// that makes a quarter of the products), and of its orders those first that leave its lanes what
/// they are. Else, with several matrices, both operands as the result lies. Else all arrays in
/// theirs, batch dimensions, free ones, contracted ones.
DotOrders orders_of_matrices(const hlo::HloInstruction& dot, const hlo::Shape& lhs,
                             const hlo::Shape& rhs, const hlo::Shape& result);

}  // namespace tpu::compiler
