// Other orders and extents of the axes of an ExpressionGraph.

#include <algorithm>
#include <cstring>
#include <numeric>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"

namespace tpu::compiler {

namespace {

/// The dimension of an array that runs along an axis; none: the array's rank.
std::size_t dimension_along(const std::vector<int>& axes, int axis) {
  return static_cast<std::size_t>(std::find(axes.begin(), axes.end(), axis) - axes.begin());
}

void join_dimensions(hlo::Shape& shape, std::size_t outer, std::size_t inner) {
  shape.dimensions[outer] *= shape.dimensions[inner];
  shape.dimensions.erase(shape.dimensions.begin() + static_cast<std::ptrdiff_t>(inner));
  std::vector<std::int64_t>& order = shape.layout.minor_to_major;
  const auto joined = static_cast<std::int64_t>(inner);
  order.erase(std::remove(order.begin(), order.end(), joined), order.end());
  for (std::int64_t& dimension : order) dimension -= dimension > joined ? 1 : 0;
}

}  // namespace

/// Whether both axes can be one for an array: it has none, or they follow each other above its
/// tiles. An operand may have the outer one alone: it is the same for all of the inner one.
bool ExpressionGraph::joins(const hlo::Shape& shape, const std::vector<int>& axes, int outer,
                            int inner) const {
  const std::size_t first = dimension_along(axes, outer), second = dimension_along(axes, inner);
  if (first == axes.size() && second == axes.size()) return true;
  if (first == axes.size() || second == axes.size()) return false;
  if (shape.dimensions[first] != space_.extent(outer)) return false;
  if (shape.dimensions[second] != space_.extent(inner)) return false;
  const std::vector<std::int64_t>& order = shape.layout.minor_to_major;
  if (order.empty()) return true;  // Nothing stands in memory.
  const auto place = std::find(order.begin(), order.end(), static_cast<std::int64_t>(second));
  return place - order.begin() >= 2 && place + 1 != order.end() &&
         *(place + 1) == static_cast<std::int64_t>(first);
}

/// Each axis has another number.
void ExpressionGraph::renumber(const std::vector<int>& numbers) {
  const auto change = [&](int& axis) {
    if (axis != kNoAxis) axis = numbers[static_cast<std::size_t>(axis)];
  };
  for (ExpressionNode& node : nodes_) {
    for (int& axis : node.axes) change(axis);
    for (int& axis : node.reduced_axes) change(axis);
    change(node.axis);
  }
  for (int& axis : space_axes_) change(axis);
}

bool ExpressionGraph::join_outermost_axes() {
  int outer = 0;
  while (outer < space_.row_axis() && space_.extent(outer) == 1) ++outer;
  const int inner = outer + 1;
  if (space_.linear || inner >= space_.row_axis()) return false;
  const auto is_reduced = [](const ExpressionNode& node, int axis) {
    const std::vector<int>& reduced = node.reduced_axes;
    return std::find(reduced.begin(), reduced.end(), axis) != reduced.end();
  };
  for (const ExpressionNode& node : nodes_) {
    const bool is_same = node.opcode == hlo::HloOpcode::kParameter &&
                         dimension_along(node.axes, inner) == node.axes.size();
    if (!is_same && !joins(node.shape, node.axes, outer, inner)) return false;
    if (is_reduced(node, outer) != is_reduced(node, inner)) return false;
    const bool is_plain = node.part == ArrayPart{} && node.shift.empty();
    if (!is_plain || node.axis == outer || node.axis == inner) return false;
  }
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    if (!joins(root_shapes_[i], axes_of_root(i), outer, inner)) return false;
    if (!(root_parts_[i] == ArrayPart{})) return false;
  }
  if (!joins(space_shape_, space_axes_, outer, inner)) return false;

  const auto join = [&](hlo::Shape& shape, const std::vector<int>& axes) {
    const std::size_t first = dimension_along(axes, outer), second = dimension_along(axes, inner);
    if (first < axes.size() && second < axes.size()) join_dimensions(shape, first, second);
  };
  const auto drop = [&](std::vector<int>& axes) {
    axes.erase(std::remove(axes.begin(), axes.end(), inner), axes.end());
  };
  for (std::size_t i = 0; i < roots_.size(); ++i) join(root_shapes_[i], axes_of_root(i));
  join(space_shape_, space_axes_);
  drop(space_axes_);
  for (ExpressionNode& node : nodes_) {
    join(node.shape, node.axes);
    drop(node.axes);
    drop(node.reduced_axes);
  }
  std::vector<int> numbers;
  for (int axis = 0; axis < space_.rank(); ++axis)
    numbers.push_back(axis < inner ? axis : axis - 1);
  renumber(numbers);
  space_.extents[static_cast<std::size_t>(outer)] *= space_.extent(inner);
  space_.extents.erase(space_.extents.begin() + inner);
  return true;
}

/// Whether an array in memory covers the space, or is a part of one.
bool ExpressionGraph::stands_everywhere() const {
  for (const ExpressionNode& node : nodes_) {
    const bool stands_in_memory = node.opcode == hlo::HloOpcode::kParameter;
    if (stands_in_memory && (is_full(node) || !(node.part == ArrayPart{}))) return true;
  }
  return std::any_of(root_shapes_.begin(), root_shapes_.end(), [this](const hlo::Shape& shape) {
    return shape.dimensions == space_shape_.dimensions;
  });
}

bool ExpressionGraph::move_outermost(int axis) {
  if (space_.linear || axis >= space_.row_axis() || space_.extent(axis) == 1) return false;
  if (stands_everywhere()) return false;
  std::vector<int> numbers;
  for (int i = 0; i < space_.rank(); ++i) numbers.push_back(i < axis ? i + 1 : i == axis ? 0 : i);
  renumber(numbers);
  const auto begin = space_.extents.begin();
  std::rotate(begin, begin + axis, begin + axis + 1);
  std::vector<std::int64_t>& order = space_shape_.layout.minor_to_major;
  const auto place = order.end() - 1 - axis;  // Major to minor from the end.
  std::rotate(place, place + 1, order.end());
  return true;
}

namespace {

/// Whose tiles stand one behind the other along the lanes: there is one tile of rows.
bool has_one_row_tile(const hlo::Shape& shape) {
  const std::vector<std::int64_t>& order = shape.layout.minor_to_major;
  return order.size() < 2 || shape.dimensions[static_cast<std::size_t>(order[1])] <= 8;
}

/// Dimension `lanes` becomes two, tiles and lanes of each; tiles come above the rows.
void split_dimension(hlo::Shape& shape, std::size_t lanes) {
  std::int64_t& extent = shape.dimensions[lanes];
  const std::int64_t tiles = ceil_divide(extent, std::int64_t{isa::kLanes});
  extent = isa::kLanes;
  shape.dimensions.insert(shape.dimensions.begin() + static_cast<std::ptrdiff_t>(lanes), tiles);
  std::vector<std::int64_t> order = shape.layout.minor_to_major;
  if (order.empty()) return;
  const auto split = static_cast<std::int64_t>(lanes);
  for (std::int64_t& dimension : order) dimension += dimension >= split ? 1 : 0;
  order.insert(order.begin() + (order.size() < 2 ? 1 : 2), split);
  shape.layout = tiled_layout(shape.type, order);  // A vector has other tiles.
}

/// Eight rows of so many lanes.
hlo::Shape tiled_row(hlo::ElementType type, std::int64_t lanes) {
  hlo::Shape shape = hlo::array_shape(type, {isa::kSublanes, lanes});
  shape.layout = tiled_layout(type, {1, 0});
  return shape;
}

}  // namespace

/// Whether the array has no lanes of the space, or whole ones in the lanes of one tile of rows.
bool ExpressionGraph::has_parts_of_lanes(const hlo::Shape& shape,
                                         const std::vector<int>& axes) const {
  const std::size_t lanes = dimension_along(axes, space_.lane_axis());
  if (lanes == axes.size() || shape.dimensions[lanes] == 1) return true;
  const std::vector<std::int64_t>& order = shape.layout.minor_to_major;
  if (order.empty()) return shape.rank() < 2;
  return shape.dimensions[lanes] == space_.lanes() &&
         order.front() == static_cast<std::int64_t>(lanes) && has_one_row_tile(shape);
}

/// The number of a lane: 128 times its tile's, and its place there.
int ExpressionGraph::position_in_parts(const ExpressionNode& iota, int part_axis) {
  const hlo::ElementType type = iota.shape.type;
  ExpressionNode tile = iota, lane = iota;
  tile.axis = part_axis;
  lane.axis = space_.lane_axis();
  const int in_tile = add(std::move(lane)), of_tile = add(std::move(tile));
  const int many = add_operation(hlo::HloOpcode::kConstant, type, {});
  const float lanes = isa::kLanes;
  std::uint32_t word = 7;  // A shift.
  if (is_floating(type)) std::memcpy(&word, &lanes, sizeof word);
  nodes_.back().bits = word;
  const int first =
      add_operation(is_floating(type) ? hlo::HloOpcode::kMultiply : hlo::HloOpcode::kShiftLeft,
                    type, {of_tile, many});
  return add_operation(hlo::HloOpcode::kAdd, type, {first, in_tile});
}

/// The last tile has padding behind the last lane.
int ExpressionGraph::without_padding(int value, std::int64_t lanes, int part_axis,
                                     hlo::HloOpcode reducer) {
  const hlo::ElementType type = nodes_[static_cast<std::size_t>(value)].shape.type;
  const int is_whole = position_test(part_axis, hlo::ComparisonDirection::kLt, lanes / isa::kLanes);
  const int is_lane =
      position_test(space_.lane_axis(), hlo::ComparisonDirection::kLt, lanes % isa::kLanes);
  const int is_own =
      add_operation(hlo::HloOpcode::kOr, hlo::ElementType::kPred, {is_whole, is_lane});
  const int nothing = add_operation(hlo::HloOpcode::kConstant, type, {});
  nodes_.back().bits = identity_bits(reducer, !is_floating(type));
  return add_operation(hlo::HloOpcode::kSelect, type, {is_own, value, nothing});
}

bool ExpressionGraph::split_lanes() {
  if (space_.linear || space_.lanes() <= isa::kLanes) return false;
  const bool is_covered = stands_everywhere();
  if (is_covered && space_.rows() > 8) return false;
  // Of a single row tile nothing says how far the next one is.
  const bool is_one_tile = space_.majors() * space_.row_tiles() == 1;
  for (const ExpressionNode& node : nodes_) {
    const bool is_range = node.part.is_one_range() || is_one_tile;
    const bool is_plain = is_range && node.part.lanes == 0 && node.shift.empty();
    if (!is_plain || node.opcode == hlo::HloOpcode::kSlice) return false;
    const bool stands_in_memory = node.opcode == hlo::HloOpcode::kParameter;
    if (stands_in_memory && !has_parts_of_lanes(node.shape, node.axes)) return false;
  }
  std::vector<std::vector<int>> root_axes;
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    root_axes.push_back(axes_of_root(i));
    if (!has_parts_of_lanes(root_shapes_[i], root_axes.back())) return false;
    if (!(root_parts_[i] == ArrayPart{})) return false;
  }
  const std::int64_t lanes = space_.lanes();
  const int lane_axis = space_.lane_axis(), part = is_covered ? space_.row_axis() : 0;
  const auto behind = [part](int axis) { return axis == kNoAxis || axis < part ? axis : axis + 1; };
  const auto split = [&](hlo::Shape& shape, std::vector<int>& axes) {
    const std::size_t dimension = dimension_along(axes, lane_axis);
    const bool has_parts = dimension < axes.size() && shape.dimensions[dimension] > 1;
    if (has_parts) split_dimension(shape, dimension);
    for (int& axis : axes) axis = behind(axis);
    if (has_parts) axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(dimension), part);
  };
  for (std::size_t i = 0; i < roots_.size(); ++i) split(root_shapes_[i], root_axes[i]);
  split(space_shape_, space_axes_);
  if (!is_covered) {
    std::vector<std::int64_t>& order = space_shape_.layout.minor_to_major;
    std::rotate(order.begin() + 2, order.begin() + 3, order.end());
  }
  space_.extents.back() = isa::kLanes;
  space_.extents.insert(space_.extents.begin() + part,
                        ceil_divide(lanes, std::int64_t{isa::kLanes}));

  std::vector<ExpressionNode> nodes = std::move(nodes_);
  nodes_.clear();
  std::vector<int> made;
  for (ExpressionNode& node : nodes) {
    for (int& operand : node.operands) operand = made[static_cast<std::size_t>(operand)];
    split(node.shape, node.axes);
    node.part.run = node.part.pitch = 0;
    const bool is_of_lanes = node.opcode == hlo::HloOpcode::kIota && node.axis == lane_axis;
    node.axis = behind(node.axis);
    const bool reduces_lanes = std::find(node.reduced_axes.begin(), node.reduced_axes.end(),
                                         lane_axis) != node.reduced_axes.end();
    for (int& axis : node.reduced_axes) axis = behind(axis);
    if (reduces_lanes) node.reduced_axes.push_back(part);
    if (reduces_lanes && lanes % isa::kLanes != 0) {
      node.operands.front() = without_padding(node.operands.front(), lanes, part, node.reducer);
    }
    made.push_back(is_of_lanes ? position_in_parts(node, part) : add(std::move(node)));
  }
  for (int& root : roots_) root = made[static_cast<std::size_t>(root)];
  return true;
}

/// Whether multiples of `unit` along the axis are one range of a smaller array: nothing else is
/// outside of them, and they are whole tiles.
bool ExpressionGraph::has_ranges(const hlo::Shape& shape, const std::vector<int>& axes, int axis,
                                 std::int64_t unit) const {
  const std::size_t along = dimension_along(axes, axis);
  if (along == axes.size() || shape.dimensions[along] == 1) return true;
  if (shape.dimensions[along] != space_.extent(axis)) return false;
  const std::vector<std::int64_t>& order = shape.layout.minor_to_major;
  if (order.empty()) return shape.rank() < 2;  // Nothing stands in memory.
  const auto place = std::find(order.begin(), order.end(), static_cast<std::int64_t>(along));
  if (place == order.begin()) {
    if (!has_one_row_tile(shape)) return false;
    if (unit % (order.size() < 2 ? isa::kSublanes * isa::kLanes : isa::kLanes) != 0) return false;
  }
  const auto outside = std::max(place + 1, order.size() < 2 ? order.end() : order.begin() + 2);
  return std::all_of(outside, order.end(), [&](std::int64_t dimension) {
    return shape.dimensions[static_cast<std::size_t>(dimension)] == 1;
  });
}

/// Whether each element along the axis is made of those at its place alone.
bool ExpressionGraph::makes_ranges(int axis, std::int64_t unit) const {
  const bool is_lanes = axis == space_.lane_axis();
  for (const ExpressionNode& node : nodes_) {
    const bool is_part = !(node.part == ArrayPart{});
    const bool moves = node.opcode == hlo::HloOpcode::kSlice || !node.shift.empty() ||
                       node.part.lanes > 0 || (is_part && (!is_full(node) || !is_lanes));
    const bool combines = std::find(node.reduced_axes.begin(), node.reduced_axes.end(), axis) !=
                          node.reduced_axes.end();
    const bool counts_rows = !is_lanes && node.axis == axis;
    if (moves || combines || counts_rows || node.in_rows) return false;
    const bool stands_in_memory = node.opcode == hlo::HloOpcode::kParameter;
    if (stands_in_memory && !is_full(node) && !has_ranges(node.shape, node.axes, axis, unit)) {
      return false;
    }
  }
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    if (!(root_parts_[i] == ArrayPart{})) return false;
    if (is_full_root(i)) continue;
    const std::vector<int>& axes = axes_of_root(i);
    const std::size_t along = dimension_along(axes, axis);
    if (along == axes.size() || root_shapes_[i].dimensions[along] != space_.extent(axis)) {
      return false;
    }
    if (!has_ranges(root_shapes_[i], axes, axis, unit)) return false;
  }
  return true;
}

/// What stands in a range of the axis of an array that covers the space.
ArrayPart ExpressionGraph::range_of_stream(hlo::ElementType type, int axis, std::int64_t first,
                                           std::int64_t count) const {
  const auto of_lanes = [&](std::int64_t lanes) {
    return lanes == 0 ? 0 : static_cast<std::int64_t>(granules(tiled_row(type, lanes)));
  };
  const std::int64_t row_tile = of_lanes(space_.lanes());
  ArrayPart part;
  if (axis == space_.lane_axis()) {
    part.granule = of_lanes(first);
    part.run = 1;
    part.pitch = row_tile;
  } else {
    part.granule = first / isa::kSublanes * row_tile;
    part.run = ceil_divide(count, std::int64_t{isa::kSublanes});
    part.pitch = space_.row_tiles() * row_tile;
  }
  return part;
}

bool ExpressionGraph::take_range(int axis, std::int64_t first, std::int64_t count) {
  const std::int64_t whole = space_.extent(axis);
  const std::int64_t unit = std::gcd(first, first + count < whole ? count : first);
  if (space_.linear || space_.rank() < 2 || !makes_ranges(axis, unit)) return false;
  const auto with = [&](hlo::Shape shape, const std::vector<int>& axes, std::int64_t extent) {
    const std::size_t d = dimension_along(axes, axis);
    if (d < axes.size() && shape.dimensions[d] == whole) shape.dimensions[d] = extent;
    return shape;
  };
  const auto before = [&](const hlo::Shape& shape, const std::vector<int>& axes) {
    const bool is_along = with(shape, axes, count).dimensions != shape.dimensions;
    if (first == 0 || !is_along) return std::int64_t{0};
    return static_cast<std::int64_t>(granules(with(shape, axes, first)));
  };
  root_parts_.clear();
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    const std::vector<int>& axes = axes_of_root(i);
    hlo::Shape& shape = root_shapes_[i];
    ArrayPart part;
    part.granule = before(shape, axes);
    if (is_full_root(i) && space_.majors() * space_.row_tiles() > 1) {
      part = range_of_stream(shape.type, axis, first, count);
    }
    root_parts_.push_back(part);
    shape = with(shape, axes, count);
  }
  for (ExpressionNode& node : nodes_) {
    if (node.opcode == hlo::HloOpcode::kIota && node.axis == axis) {
      node.begin = first;
    } else if (node.opcode == hlo::HloOpcode::kParameter && is_full(node)) {
      const ArrayPart part = range_of_stream(node.shape.type, axis, first, count);
      node.part.granule += part.granule;
      if (node.part.is_one_range()) {
        node.part.run = part.run;
        node.part.pitch = part.pitch;
      }
    } else if (node.opcode == hlo::HloOpcode::kParameter) {
      node.begin = before(node.shape, node.axes);
    }
    node.shape = with(node.shape, node.axes, count);
  }
  space_shape_ = with(space_shape_, space_axes_, count);
  space_.extents[static_cast<std::size_t>(axis)] = count;
  return true;
}

}  // namespace tpu::compiler
