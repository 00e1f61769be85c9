#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Dimensions of an array from major to minor: the physical order.
using DimensionOrder = std::vector<std::int64_t>;

/// 0, 1, ... rank - 1.
DimensionOrder row_major(std::int64_t rank);

/// The order in which the result of a reshape has to lie so that the reshape moves nothing, given
/// the order of its operand; none when there is no such order. Dimensions of extent 1 stand first.
/// The two minor dimensions, which tiles cut, may only be split or merged where whole tiles stay.
std::optional<DimensionOrder> order_behind_reshape(const hlo::Shape& from,
                                                   const DimensionOrder& order,
                                                   const hlo::Shape& to);

/// An order of a reshape's operand from which, and the order of its result to which, the reshape
/// moves nothing.
struct ReshapeOrders {
  DimensionOrder from, to;
};
/// All such pairs that keep neighbouring dimensions that hold the same elements together.
std::vector<ReshapeOrders> orders_of_reshape(const hlo::Shape& from, const hlo::Shape& to);

/// The same for a transpose: result dimension i is operand dimension permutation[i]. There always
/// is one.
DimensionOrder order_behind_transpose(const DimensionOrder& order,
                                      const std::vector<std::int64_t>& permutation);
/// The order of a transpose's operand, given that of its result.
DimensionOrder order_before_transpose(const DimensionOrder& order,
                                      const std::vector<std::int64_t>& permutation);

/// True when the orders differ in the places of dimensions of extent 1 only.
bool same_order(const hlo::Shape& shape, const DimensionOrder& a, const DimensionOrder& b);

}  // namespace tpu::compiler
