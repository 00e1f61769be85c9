// Other orders and extents of the axes of an ExpressionGraph.

#include <algorithm>

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
  const auto axes_of_root = [&](std::size_t i) -> const std::vector<int>& {
    const bool is_full = root_shapes_[i].dimensions == space_shape_.dimensions;
    return is_full ? space_axes_ : node(roots_[i]).axes;
  };
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    if (!joins(root_shapes_[i], axes_of_root(i), outer, inner)) return false;
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

bool ExpressionGraph::move_outermost(int axis) {
  if (space_.linear || axis >= space_.row_axis() || space_.extent(axis) == 1) return false;
  for (const ExpressionNode& node : nodes_) {
    const bool stands_in_memory = node.opcode == hlo::HloOpcode::kParameter;
    if (stands_in_memory && (is_full(node) || !(node.part == ArrayPart{}))) return false;
  }
  for (const hlo::Shape& shape : root_shapes_) {
    if (shape.dimensions == space_shape_.dimensions) return false;
  }
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

}  // namespace tpu::compiler
