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

/// These two as the minor dimensions, the others in logical order outside of them.
DimensionOrder order_with_minor(std::int64_t rank, std::int64_t rows, std::int64_t lanes);

/// Where a dimension, or a label of one, stands in a list: its size where it does not.
std::int64_t place_in(const std::vector<std::int64_t>& list, std::int64_t dimension);

/// The shape with the tiled layout of this order.
hlo::Shape in_order(hlo::Shape shape, const DimensionOrder& order);

/// The extents but those of 1.
std::vector<std::int64_t> long_extents(const std::vector<std::int64_t>& extents);

/// The order without the dimensions of extent 1.
DimensionOrder without_units(const hlo::Shape& shape, const DimensionOrder& order);

/// The order behind a reshape that splits rows in eights and lanes in whole tiles, which stand
/// above the eight rows then, or joins such again: every tile stays one. None for other reshapes.
std::optional<DimensionOrder> order_behind_tiles(const hlo::Shape& from,
                                                 const DimensionOrder& order, const hlo::Shape& to);

/// The order in which the result of a reshape has to lie so that the reshape moves nothing, given
/// the order of its operand; none when there is no such order. Dimensions of extent 1 stand first.
/// The two minor dimensions, which tiles cut, may only be split or merged where whole tiles stay.
std::optional<DimensionOrder> order_behind_reshape(const hlo::Shape& from,
                                                   const DimensionOrder& order,
                                                   const hlo::Shape& to);

/// The order in which the result of a reshape has to lie so that its elements follow each other as
/// those of the operand do in its order; none when there is no such order. Dimensions of extent 1
/// stand first. Tiles may cut the elements otherwise.
std::optional<DimensionOrder> order_of_same_elements(const hlo::Shape& from,
                                                     const DimensionOrder& order,
                                                     const hlo::Shape& to);

/// Neighbouring dimensions of a reshape's operand and those of the result that hold the same
/// elements; none of extent 1.
struct ReshapeSegment {
  std::vector<std::int64_t> from, to;
};
/// The smallest ones, in order.
std::vector<ReshapeSegment> segments_of_reshape(const hlo::Shape& from, const hlo::Shape& to);

/// Orders of a reshape's operand and result in which the elements follow each other alike and have
/// the same lanes: the reshape moves nothing, or rows of lanes.
struct ReshapeOrders {
  DimensionOrder from, to;
  bool moves_rows = false;
};
/// All such pairs that keep neighbouring dimensions that hold the same elements together.
std::vector<ReshapeOrders> orders_of_reshape(const hlo::Shape& from, const hlo::Shape& to);

/// A reshape as one copy: its operand seen in a shape and an order is copied to another order, in
/// which it is the result. Neither view moves anything.
struct ReshapeCopy {
  hlo::Shape shape;
  DimensionOrder from, to;
};
/// The shape is the operand's, the result's, or a third one: [n*s, h*d] becomes [n, s, h, d] with s
/// in the lanes by transposing the matrices of [n, s, h*d]. None when there is no such shape.
std::optional<ReshapeCopy> copy_of_reshape(const hlo::Shape& from, const DimensionOrder& from_order,
                                           const hlo::Shape& to, const DimensionOrder& to_order);

/// The same for a transpose: result dimension i is operand dimension permutation[i]. There always
/// is one.
DimensionOrder order_behind_transpose(const DimensionOrder& order,
                                      const std::vector<std::int64_t>& permutation);
/// The order of a transpose's operand, given that of its result.
DimensionOrder order_before_transpose(const DimensionOrder& order,
                                      const std::vector<std::int64_t>& permutation);

/// The order in which the kernel of a pooling window finds its image: the dimensions over which the
/// window moves first, in their order. Beside a single one stands a dimension of extent 1, where
/// there is one, for it would fill no tile: in front, so that a row of windows is everything and
/// one block, or behind, row after row, where that is too much for VMEM. Reductions of windows
/// whose rows are too long take the dimensions the other way.
DimensionOrder order_of_windows(const hlo::HloInstruction& pooling, const hlo::Shape& image,
                                const hlo::Shape& windows, std::uint64_t vmem_bytes);

/// Whether an order has the dimensions of a window in their own order: the first of equal elements
/// is the first in it, too.
bool has_rows_first(const std::vector<hlo::WindowDimension>& window, const DimensionOrder& order);

/// Whether a dimension of eight or fewer stands outside of the rows and kernels would move less of
/// the array with it as the rows.
bool leaves_fewer_rows(const hlo::Shape& shape, const DimensionOrder& order);

/// True when the orders differ in the places of dimensions of extent 1 only.
bool same_order(const hlo::Shape& shape, const DimensionOrder& a, const DimensionOrder& b);

}  // namespace tpu::compiler
