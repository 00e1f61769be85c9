#include "workloads/compiler/kernels/elementwise/elementwise_leaf.h"

#include <algorithm>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"

namespace tpu::compiler {

namespace {

using Step = ArrayAccess::Step;
using Kind = ArrayAccess::Kind;

[[noreturn]] void refuse(const IterationSpace& space, const hlo::Shape& shape,
                         const std::string& what) {
  std::string extents;
  for (std::int64_t extent : space.extents) {
    extents += (extents.empty() ? "" : ",") + std::to_string(extent);
  }
  throw WorkloadError(what + ": no kernel reads or writes " + hlo::to_string(shape) +
                      " in a space of physical extents [" + extents +
                      "]: expected the same dimension order and the same minor dimensions, or a "
                      "broadcast; insert a copy to another layout");
}

/// The two minor dimensions' steps.
void find_minor_steps(const IterationSpace& space, const std::vector<int>& axes,
                      ArrayAccess& access, const std::string& what) {
  const auto step_of = [&](int axis, bool is_x) {
    const int same = is_x ? space.lane_axis() : space.row_axis();
    if (axis == same) return Step::kSame;
    if (axis == kNoAxis) {
      return space.extents[static_cast<std::size_t>(same)] == 1 ? Step::kSame : Step::kNone;
    }
    if (is_x && axis == space.row_axis()) return Step::kRows;
    if (axis == space.lane_axis() || axis == space.row_axis()) refuse(space, access.shape, what);
    return Step::kMajor;
  };
  access.x_axis = axes.empty() ? kNoAxis : axes.back();
  access.x = step_of(access.x_axis, true);
  access.x_tiles = axes.empty() ? 1 : ceil_divide(physical_extents(access.shape).back(), 128);
  if (axes.size() >= 2) {
    access.y_axis = axes[axes.size() - 2];
    access.y = step_of(access.y_axis, false);
    access.y_tiles = ceil_divide(physical_extents(access.shape)[axes.size() - 2], 8);
  } else {
    access.y = Step::kNone;
  }
}

bool is_in_order(const std::vector<int>& axes, const IterationSpace& space) {
  int last = -1;
  for (int axis : axes) {
    if (axis == kNoAxis) continue;
    if (axis <= last) return false;
    last = axis;
  }
  for (int axis = 0; axis < space.rank(); ++axis) {
    const bool has = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (!has && space.extents[static_cast<std::size_t>(axis)] != 1) return false;
  }
  return true;
}

}  // namespace

std::int64_t ArrayAccess::tile_rows() const {
  return shape.type == hlo::ElementType::kBf16 ? 4 : 8;
}

std::int64_t ArrayAccess::rows() const {
  if (linear) return 8 * std::max<std::int64_t>(1, ceil_divide(x_tiles, 8));
  std::int64_t tiles = x_tiles * y_tiles;
  const std::vector<std::int64_t> extents = physical_extents(shape);
  for (std::size_t i = 0; i + 2 < extents.size(); ++i) tiles *= extents[i];
  return ceil_divide(tiles * tile_rows(), 8) * 8;
}

bool ArrayAccess::needs_rows() const { return x == Step::kRows || (y == Step::kSame && !linear); }

std::vector<int> ArrayAccess::major_axes() const {
  std::vector<int> axes;
  for (const MajorTerm& term : majors) axes.push_back(term.axis);
  if (x == Step::kMajor) axes.push_back(x_axis);
  if (y == Step::kMajor) axes.push_back(y_axis);
  return axes;
}

ArrayAccess shifted_access(const hlo::Shape& shape, const std::vector<std::int64_t>& shift) {
  ArrayAccess access;
  access.kind = Kind::kShifted;
  access.shape = shape;
  access.shift = shift;
  const std::vector<std::int64_t> extents = physical_extents(shape);
  access.x_tiles = ceil_divide(extents.back(), 128);
  if (extents.size() < 2) return access;
  access.y_tiles = ceil_divide(extents[extents.size() - 2], 8);
  std::int64_t tiles = access.x_tiles * access.y_tiles;
  for (std::size_t axis = extents.size() - 2; axis-- > 0;) {
    access.majors.push_back({static_cast<int>(axis), tiles});
    tiles *= extents[axis];
  }
  return access;
}

ArrayAccess access_to_element(const hlo::Shape& tile, int row, int lane) {
  ArrayAccess access;
  access.kind = Kind::kColumn;
  access.shape = tile;
  access.x = access.y = Step::kNone;
  access.row = row;
  access.lane = lane;
  return access;
}

ArrayAccess access_in_rows(const hlo::Shape& tiles) {
  ArrayAccess access;
  access.shape = tiles;
  access.y = Step::kNone;
  access.x_tiles = ceil_divide(tiles.dimensions.back(), 128);
  return access;
}

ArrayAccess find_access(const IterationSpace& space, const hlo::Shape& shape,
                        const std::vector<int>& logical_axes, const std::string& what) {
  ArrayAccess access;
  access.shape = shape;
  access.linear = shape.rank() < 2;
  std::vector<int> axes;
  for (std::int64_t dimension : major_to_minor(shape)) {
    const int axis = logical_axes[static_cast<std::size_t>(dimension)];
    const bool is_unit = shape.dimensions[static_cast<std::size_t>(dimension)] == 1;
    axes.push_back(is_unit ? kNoAxis : axis);
  }
  if (space.linear) {
    if (!access.linear) refuse(space, shape, what);
    const bool is_stream = (!axes.empty() && axes.front() != kNoAxis) || space.extents.empty() ||
                           space.extents.front() == 1;
    access.kind = is_stream ? Kind::kStream : Kind::kColumn;
    access.x = is_stream ? Step::kSame : Step::kNone;
    access.y = Step::kNone;
    access.x_tiles = axes.empty() ? 1 : ceil_divide(shape.dimensions.front(), 128);
    return access;
  }
  find_minor_steps(space, axes, access, what);
  std::int64_t tiles = access.x_tiles * access.y_tiles;
  const std::vector<std::int64_t> extents = physical_extents(shape);
  for (std::size_t i = axes.size(); i-- > 2;) {
    const int axis = axes[i - 2];
    if (axis == space.lane_axis() || (axis != kNoAxis && axis == space.row_axis())) {
      refuse(space, shape, what);
    }
    if (axis != kNoAxis && extents[i - 2] > 1) access.majors.push_back({axis, tiles});
    tiles *= extents[i - 2];
  }
  if (access.x == Step::kSame && access.y == Step::kSame) {
    access.kind = is_in_order(axes, space) ? Kind::kStream : Kind::kTile;
  } else {
    access.kind = access.x == Step::kSame ? Kind::kRow : Kind::kColumn;
  }
  return access;
}

}  // namespace tpu::compiler
