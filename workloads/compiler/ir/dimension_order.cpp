#include "workloads/compiler/ir/dimension_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"

namespace tpu::compiler {

namespace {

std::int64_t extent(const hlo::Shape& shape, std::int64_t d) {
  return shape.dimensions[static_cast<std::size_t>(d)];
}

DimensionOrder long_dimensions(const hlo::Shape& shape) {
  DimensionOrder dimensions;
  for (std::int64_t d = 0; d < shape.rank(); ++d) {
    if (extent(shape, d) != 1) dimensions.push_back(d);
  }
  return dimensions;
}

/// Extents of the two minor dimensions.
struct Minor {
  std::int64_t rows = 1, lanes = 1;
};

Minor minor_of(const hlo::Shape& shape, const DimensionOrder& order) {
  return {extent(shape, order[order.size() - 2]), extent(shape, order.back())};
}

/// Elements that a reshape keeps together: a dimension of one side that the other has whole or as
/// one part of a larger one, or several dimensions whose extents do not nest.
struct ReshapePart {
  std::int64_t extent = 1;
  std::int64_t from = -1, to = -1;  ///< The first of the dimensions of each side that hold it.
};

/// The parts of a reshape, in row-major order.
std::vector<ReshapePart> parts_of(const hlo::Shape& from, const hlo::Shape& to) {
  std::vector<ReshapePart> parts;
  for (const ReshapeSegment& segment : segments_of_reshape(from, to)) {
    if (segment.to.size() == 1) {
      for (std::int64_t d : segment.from) parts.push_back({extent(from, d), d, segment.to[0]});
    } else if (segment.from.size() == 1) {
      for (std::int64_t d : segment.to) parts.push_back({extent(to, d), segment.from[0], d});
    } else {
      ReshapePart whole{1, segment.from[0], segment.to[0]};
      for (std::int64_t d : segment.from) whole.extent *= extent(from, d);
      parts.push_back(whole);
    }
  }
  return parts;
}

/// Numbers of parts in the order in which one side holds them; `side` says which.
std::vector<std::size_t> places_of(const std::vector<ReshapePart>& parts,
                                   const DimensionOrder& order, std::int64_t ReshapePart::*side) {
  std::vector<std::size_t> places;
  for (std::int64_t d : order) {
    for (std::size_t part = 0; part < parts.size(); ++part) {
      if (parts[part].*side == d) places.push_back(part);
    }
  }
  return places;
}

/// Whether the part follows the one before it in that order.
bool follows(std::size_t part, const std::vector<std::size_t>& places) {
  const auto place = std::find(places.begin(), places.end(), part);
  return place != places.begin() && *std::prev(place) + 1 == part;
}

/// The reshaped array with one dimension for all parts that follow each other on both sides.
hlo::Shape shape_of_parts(const hlo::Shape& from, const DimensionOrder& from_order,
                          const hlo::Shape& to, const DimensionOrder& to_order) {
  const std::vector<ReshapePart> parts = parts_of(from, to);
  const std::vector<std::size_t> before = places_of(parts, from_order, &ReshapePart::from);
  const std::vector<std::size_t> behind = places_of(parts, to_order, &ReshapePart::to);
  std::vector<std::int64_t> extents;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (part > 0 && follows(part, before) && follows(part, behind)) {
      extents.back() *= parts[part].extent;
    } else {
      extents.push_back(parts[part].extent);
    }
  }
  return hlo::array_shape(from.type, std::move(extents));
}

/// Parts of a reshape whose order is tried in every way.
constexpr std::size_t kMostSegments = 5;

}  // namespace

std::vector<ReshapeSegment> segments_of_reshape(const hlo::Shape& from, const hlo::Shape& to) {
  const DimensionOrder sources = long_dimensions(from), targets = long_dimensions(to);
  std::vector<ReshapeSegment> segments;
  std::size_t i = 0, j = 0;
  while (i < sources.size() && j < targets.size()) {
    ReshapeSegment segment{{sources[i]}, {targets[j]}};
    std::int64_t left = extent(from, sources[i++]), right = extent(to, targets[j++]);
    while (left != right) {
      if (left < right) {
        if (i == sources.size()) return {};
        segment.from.push_back(sources[i]);
        left *= extent(from, sources[i++]);
      } else {
        if (j == targets.size()) return {};
        segment.to.push_back(targets[j]);
        right *= extent(to, targets[j++]);
      }
    }
    segments.push_back(std::move(segment));
  }
  return i == sources.size() && j == targets.size() ? segments : std::vector<ReshapeSegment>{};
}

DimensionOrder row_major(std::int64_t rank) {
  DimensionOrder order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

DimensionOrder order_with_minor(std::int64_t rank, std::int64_t rows, std::int64_t lanes) {
  DimensionOrder order;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d != rows && d != lanes) order.push_back(d);
  }
  order.push_back(rows);
  order.push_back(lanes);
  return order;
}

std::int64_t place_in(const std::vector<std::int64_t>& list, std::int64_t dimension) {
  return std::find(list.begin(), list.end(), dimension) - list.begin();
}

hlo::Shape in_order(hlo::Shape shape, const DimensionOrder& order) {
  shape.layout = tiled_layout(shape.type, {order.rbegin(), order.rend()});
  return shape;
}

std::vector<std::int64_t> long_extents(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> left;
  std::copy_if(extents.begin(), extents.end(), std::back_inserter(left),
               [](std::int64_t extent) { return extent != 1; });
  return left;
}

DimensionOrder without_units(const hlo::Shape& shape, const DimensionOrder& order) {
  DimensionOrder left;
  std::copy_if(order.begin(), order.end(), std::back_inserter(left),
               [&shape](std::int64_t d) { return extent(shape, d) != 1; });
  return left;
}

std::vector<ReshapeOrders> orders_of_reshape(const hlo::Shape& from, const hlo::Shape& to) {
  if (from.rank() < 2 || to.rank() < 2) return {};
  const std::vector<ReshapeSegment> segments = segments_of_reshape(from, to);
  if (segments.empty() || segments.size() > kMostSegments) return {};
  std::vector<std::size_t> places(segments.size());
  std::iota(places.begin(), places.end(), 0);
  std::vector<ReshapeOrders> found;
  do {
    DimensionOrder order;
    for (std::int64_t d = 0; d < from.rank(); ++d) {
      if (extent(from, d) == 1) order.push_back(d);
    }
    for (std::size_t place : places) {
      const DimensionOrder& part = segments[place].from;
      order.insert(order.end(), part.begin(), part.end());
    }
    std::optional<DimensionOrder> behind = order_of_same_elements(from, order, to);
    if (!behind || minor_of(from, order).lanes != minor_of(to, *behind).lanes) continue;
    const bool moves_rows = !order_behind_reshape(from, order, to);
    found.push_back({std::move(order), *std::move(behind), moves_rows});
  } while (std::next_permutation(places.begin(), places.end()));
  return found;
}

std::optional<DimensionOrder> order_of_same_elements(const hlo::Shape& from,
                                                     const DimensionOrder& order,
                                                     const hlo::Shape& to) {
  if (from.rank() < 2 || to.rank() < 2) return std::nullopt;
  const std::vector<ReshapeSegment> segments = segments_of_reshape(from, to);
  const DimensionOrder sources = without_units(from, order);
  if (segments.empty() && !sources.empty()) return std::nullopt;
  DimensionOrder result;
  for (std::int64_t d = 0; d < to.rank(); ++d) {
    if (extent(to, d) == 1) result.push_back(d);
  }
  for (std::size_t i = 0; i < sources.size();) {
    const auto segment = std::find_if(
        segments.begin(), segments.end(),
        [&](const ReshapeSegment& candidate) { return candidate.from.front() == sources[i]; });
    if (segment == segments.end() || i + segment->from.size() > sources.size() ||
        !std::equal(segment->from.begin(), segment->from.end(),
                    sources.begin() + static_cast<std::ptrdiff_t>(i))) {
      return std::nullopt;
    }
    result.insert(result.end(), segment->to.begin(), segment->to.end());
    i += segment->from.size();
  }
  return result;
}

namespace {

/// Rows and lanes of an array are split so that every tile stays one: rows in eights, lanes in
/// whole tiles, which then stand above the rows. The order of the split array, given that of the
/// whole one; none for other reshapes.
std::optional<DimensionOrder> order_of_split_tiles(const hlo::Shape& whole,
                                                   const DimensionOrder& order,
                                                   const hlo::Shape& split) {
  if (order.size() < 2) return std::nullopt;
  const std::vector<ReshapeSegment> segments = segments_of_reshape(whole, split);
  const auto parts_of_dimension = [&](std::int64_t d) -> DimensionOrder {
    for (const ReshapeSegment& segment : segments) {
      if (segment.from == DimensionOrder{d}) return segment.to;
    }
    return {};
  };
  DimensionOrder rows = parts_of_dimension(order[order.size() - 2]);
  DimensionOrder lanes = parts_of_dimension(order.back());
  if (rows.empty() || lanes.size() < 2) return std::nullopt;
  if (extent(split, rows.back()) != isa::kSublanes) return std::nullopt;
  if (extent(split, lanes.back()) % isa::kLanes != 0) return std::nullopt;
  DimensionOrder result;
  for (std::int64_t d = 0; d < split.rank(); ++d) {
    if (extent(split, d) == 1) result.push_back(d);
  }
  for (std::size_t i = 0; i + 2 < order.size(); ++i) {
    if (extent(whole, order[i]) == 1) continue;
    const DimensionOrder outer = parts_of_dimension(order[i]);
    if (outer.empty()) return std::nullopt;
    result.insert(result.end(), outer.begin(), outer.end());
  }
  result.insert(result.end(), rows.begin(), rows.end() - 1);
  result.insert(result.end(), lanes.begin(), lanes.end() - 1);
  result.push_back(rows.back());
  result.push_back(lanes.back());
  return result;
}

/// The same of the whole array, given that of the split one.
std::optional<DimensionOrder> order_of_joined_tiles(const hlo::Shape& split,
                                                    const DimensionOrder& order,
                                                    const hlo::Shape& whole) {
  if (order.size() < 4) return std::nullopt;
  std::int64_t rows = -1, lanes = -1;
  std::vector<std::pair<std::int64_t, std::int64_t>> outer;  // By the place of their first part.
  for (const ReshapeSegment& segment : segments_of_reshape(whole, split)) {
    if (segment.from.size() != 1) return std::nullopt;
    const std::int64_t last = segment.to.back();
    if (last == order.back()) {
      lanes = segment.from[0];
    } else if (last == order[order.size() - 2]) {
      rows = segment.from[0];
    } else {
      outer.emplace_back(place_in(order, segment.to.front()), segment.from[0]);
    }
  }
  if (rows < 0 || lanes < 0) return std::nullopt;
  std::sort(outer.begin(), outer.end());
  DimensionOrder result;
  for (std::int64_t d = 0; d < whole.rank(); ++d) {
    if (extent(whole, d) == 1) result.push_back(d);
  }
  for (const auto& [place, d] : outer) result.push_back(d);
  result.push_back(rows);
  result.push_back(lanes);
  const auto there = order_of_split_tiles(whole, result, split);
  if (!there || without_units(split, *there) != without_units(split, order)) return std::nullopt;
  return result;
}

}  // namespace

std::optional<DimensionOrder> order_behind_tiles(const hlo::Shape& from,
                                                 const DimensionOrder& order,
                                                 const hlo::Shape& to) {
  if (from.rank() < 2 || to.rank() < 2) return std::nullopt;
  if (auto split = order_of_split_tiles(from, order, to)) return split;
  return order_of_joined_tiles(from, order, to);
}

std::optional<DimensionOrder> order_behind_reshape(const hlo::Shape& from,
                                                   const DimensionOrder& order,
                                                   const hlo::Shape& to) {
  std::optional<DimensionOrder> result = order_of_same_elements(from, order, to);
  if (!result) return order_behind_tiles(from, order, to);
  // A dimension of extent 1 among the two minor ones of the operand must still be there.
  const Minor before = minor_of(from, order), after = minor_of(to, *result);
  if (before.lanes != after.lanes) return order_behind_tiles(from, order, to);
  const bool same_rows = before.rows == after.rows;
  if (!same_rows && (before.rows % 8 != 0 || after.rows % 8 != 0)) return std::nullopt;
  return result;
}

std::optional<ReshapeCopy> copy_of_reshape(const hlo::Shape& from, const DimensionOrder& from_order,
                                           const hlo::Shape& to, const DimensionOrder& to_order) {
  const auto in_shape = [&](const hlo::Shape& shape) -> std::optional<ReshapeCopy> {
    const std::optional<DimensionOrder> before = order_behind_reshape(from, from_order, shape);
    if (!before) return std::nullopt;
    const std::optional<DimensionOrder> behind = order_behind_reshape(to, to_order, shape);
    if (!behind) return std::nullopt;
    return ReshapeCopy{shape, *before, *behind};
  };
  if (std::optional<ReshapeCopy> copy = in_shape(from)) return copy;
  if (std::optional<ReshapeCopy> copy = in_shape(to)) return copy;
  return in_shape(shape_of_parts(from, from_order, to, to_order));
}

DimensionOrder order_behind_transpose(const DimensionOrder& order,
                                      const std::vector<std::int64_t>& permutation) {
  DimensionOrder result;
  for (std::int64_t d : order) {
    result.push_back(std::find(permutation.begin(), permutation.end(), d) - permutation.begin());
  }
  return result;
}

DimensionOrder order_before_transpose(const DimensionOrder& order,
                                      const std::vector<std::int64_t>& permutation) {
  DimensionOrder result;
  for (std::int64_t d : order) result.push_back(permutation[static_cast<std::size_t>(d)]);
  return result;
}

bool has_rows_first(const std::vector<hlo::WindowDimension>& window, const DimensionOrder& order) {
  DimensionOrder windows;
  for (const std::int64_t d : order) {
    if (window[static_cast<std::size_t>(d)].size > 1) windows.push_back(d);
  }
  return std::is_sorted(windows.begin(), windows.end());
}

DimensionOrder order_of_windows(const hlo::HloInstruction& pooling, const hlo::Shape& image,
                                const hlo::Shape& windows, std::uint64_t vmem_bytes) {
  DimensionOrder order;
  for (std::size_t d = 0; d < pooling.window.size(); ++d) {
    if (!is_trivial(pooling.window[d])) order.push_back(static_cast<std::int64_t>(d));
  }
  // Columns of the image and of the windows stand in VMEM, as many rows as a window needs and the
  // next one adds, a tile of each pixel, and of several rows a combined one; of a gradient the sums
  // and results.
  const bool scatters = pooling.opcode == hlo::HloOpcode::kSelectAndScatter;
  const auto fit = [&](std::int64_t rows_of_window, std::int64_t columns) {
    const auto along = static_cast<std::size_t>(columns);
    const hlo::WindowDimension& w = pooling.window[along];
    const std::int64_t tiles = (scatters ? 3 : 1) * rows_of_window *
                                   (image.dimensions[along] * w.base_dilation + 2 * w.size) +
                               2 * windows.dimensions[along];
    return 4096 * tiles <= static_cast<std::int64_t>(vmem_bytes / 16 * 15);
  };
  if (order.size() == 1) {
    for (std::int64_t d = 0; d + 1 < image.rank(); ++d) {
      if (d == order[0] || image.dimensions[static_cast<std::size_t>(d)] != 1) continue;
      order.insert(fit(2, order[0]) ? order.begin() : order.end(), d);
      break;
    }
  } else if (order.size() == 2) {
    const auto rows_of_window = [&](std::int64_t d) {
      const hlo::WindowDimension& w = pooling.window[static_cast<std::size_t>(d)];
      return (w.size - 1) * w.window_dilation + 1 + w.stride + (scatters ? 0 : 1);
    };
    // A gradient finds the first of equal elements row by row.
    if (!scatters && !fit(rows_of_window(order[0]), order[1]) &&
        fit(rows_of_window(order[1]), order[0])) {
      std::swap(order[0], order[1]);
    }
  }
  const std::size_t windowed = order.size();
  for (std::int64_t d = 0; d < image.rank(); ++d) {
    if (std::find(order.begin(), order.end(), d) == order.end()) order.push_back(d);
  }
  // Few features fill few lanes; where other dimensions fill more, such as the images of the batch,
  // they stand there.
  const auto moved = [&](const DimensionOrder& tiled) {
    return moved_granules(in_order(image, tiled));
  };
  DimensionOrder best = order;
  for (std::size_t lanes = order.size(); lanes-- > windowed;) {
    for (std::size_t rows = order.size(); rows-- > windowed;) {
      if (rows == lanes) continue;
      DimensionOrder tiled = order;
      for (const std::size_t at : {rows, lanes}) {
        tiled.erase(std::find(tiled.begin(), tiled.end(), order[at]));
        tiled.push_back(order[at]);
      }
      if (moved(tiled) < moved(best)) best = tiled;
    }
  }
  return 2 * moved(best) <= moved(order) ? best : order;
}

bool leaves_fewer_rows(const hlo::Shape& shape, const DimensionOrder& order) {
  constexpr std::int64_t kFewRows = 8;
  const std::int64_t moved = moved_granules(in_order(shape, order));
  for (std::size_t i = 0; i + 2 < order.size(); ++i) {
    if (shape.dimensions[static_cast<std::size_t>(order[i])] > kFewRows) continue;
    DimensionOrder few = order;
    std::swap(few[i], few[order.size() - 2]);
    if (moved_granules(in_order(shape, few)) < moved) return true;
  }
  return false;
}

bool same_order(const hlo::Shape& shape, const DimensionOrder& a, const DimensionOrder& b) {
  if (a == b) return true;
  if (a.size() < 2 || b.size() != a.size() || without_units(shape, a) != without_units(shape, b)) {
    return false;
  }
  const Minor minor_a = minor_of(shape, a), minor_b = minor_of(shape, b);
  return minor_a.rows == minor_b.rows && minor_a.lanes == minor_b.lanes;
}

}  // namespace tpu::compiler
