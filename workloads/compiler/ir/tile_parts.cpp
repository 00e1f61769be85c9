#include "workloads/compiler/ir/tile_parts.h"

#include <algorithm>

#include "isa/instruction.h"
#include "workloads/compiler/ir/array_layout.h"

namespace tpu::compiler {

using hlo::Shape;

namespace {

/// Dimensions [begin, end) of a list that one dimension of an array is, split as they are.
struct DimensionRun {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool holds(std::int64_t d) const { return begin <= d && d < end; }
};

/// The dimensions of two arrays of the same elements, split until both have the same.
struct CommonDimensions {
  std::vector<std::int64_t> extents;
  std::vector<DimensionRun> of_one, of_other;
};

std::optional<CommonDimensions> common_dimensions(const std::vector<std::int64_t>& one,
                                                  const std::vector<std::int64_t>& other) {
  CommonDimensions common;
  std::size_t i = 0, k = 0;
  std::int64_t left = 1, left_of_other = 1;
  DimensionRun run, other_run;
  while (i < one.size() && k < other.size()) {
    if (run.size() == 0) left = one[i];
    if (other_run.size() == 0) left_of_other = other[k];
    const std::int64_t taken = std::min(left, left_of_other);
    if (taken == 0 || left % taken != 0 || left_of_other % taken != 0) return std::nullopt;
    if (taken == 1 && left != left_of_other) return std::nullopt;  // A dimension of 1 stays one.
    common.extents.push_back(taken);
    ++run.end, ++other_run.end;
    left /= taken;
    left_of_other /= taken;
    if (left == 1) {
      common.of_one.push_back(run);
      run.begin = run.end;
      ++i;
    }
    if (left_of_other == 1) {
      common.of_other.push_back(other_run);
      other_run.begin = other_run.end;
      ++k;
    }
  }
  if (i < one.size() || k < other.size()) return std::nullopt;
  return common;
}

/// The array without dimensions of 1 outside of its tiles.
Shape without_outer_units(const Shape& shape) {
  const std::vector<std::int64_t> order = major_to_minor(shape);
  const auto stays = [&](std::int64_t d) {
    return shape.dimensions[static_cast<std::size_t>(d)] != 1 || d == order.back() ||
           d == order[order.size() - 2];
  };
  std::vector<std::int64_t> place(order.size());
  Shape left = shape;
  left.dimensions.clear();
  for (std::int64_t d = 0; d < shape.rank(); ++d) {
    place[static_cast<std::size_t>(d)] = left.rank();
    if (stays(d)) left.dimensions.push_back(shape.dimensions[static_cast<std::size_t>(d)]);
  }
  DimensionOrder left_order;
  for (std::int64_t d : order) {
    if (stays(d)) left_order.push_back(place[static_cast<std::size_t>(d)]);
  }
  return in_order(left, left_order);
}

/// Physical dimensions of an array, from major to minor, as common ones.
std::vector<std::int64_t> common_order(const DimensionOrder& order,
                                       const std::vector<DimensionRun>& runs) {
  std::vector<std::int64_t> found;
  for (std::int64_t d : order) {
    const DimensionRun& run = runs[static_cast<std::size_t>(d)];
    for (std::int64_t part = run.begin; part < run.end; ++part) found.push_back(part);
  }
  return found;
}

/// An array and another one whose dimensions are as common ones, and how both lie.
class TileSplit {
 public:
  TileSplit(const Shape& whole, std::vector<DimensionRun> runs, const Shape& parts,
            const std::vector<DimensionRun>& split, const std::vector<std::int64_t>& extents)
      : runs_(std::move(runs)), extents_(extents), whole_order_(major_to_minor(whole)) {
    const std::vector<std::int64_t> order = major_to_minor(parts);
    order_ = common_order(order, split);
    const auto size = [&](std::int64_t d) { return split[static_cast<std::size_t>(d)].size(); };
    splits_tiles_ = size(order.back()) > 1 || size(order[order.size() - 2]) > 1;
  }

  std::optional<TileParts> find() const {
    if (splits_tiles_) return std::nullopt;
    const std::int64_t lanes = whole_order_.back(), rows = whole_order_[whole_order_.size() - 2];
    if (run(lanes).size() > 1) return find(lanes, false);
    return run(rows).size() == 2 ? find(rows, true) : std::nullopt;
  }

 private:
  const DimensionRun& run(std::int64_t d) const { return runs_[static_cast<std::size_t>(d)]; }
  std::int64_t extent(std::int64_t d) const { return extents_[static_cast<std::size_t>(d)]; }

  std::optional<TileParts> find(std::int64_t split, bool of_rows) const {
    TileParts found;
    found.of_rows = of_rows;
    const auto last = order_.end() - (of_rows ? 2 : 1);
    const DimensionRun& parts = run(split);
    if (!parts.holds(*last)) return std::nullopt;
    found.woven = *last == parts.begin && parts.size() == 2;
    if (of_rows ? !found.woven : !found.woven && *last != parts.end - 1) return std::nullopt;
    found.extent = extent(*last);
    for (std::int64_t d = parts.begin; d < parts.end; ++d) {
      if (d == *last) continue;
      const auto place = std::find(order_.begin(), order_.end(), d);
      if (order_.end() - place <= 2) return std::nullopt;
      found.dimensions.push_back({static_cast<std::size_t>(place - order_.begin()), extent(d)});
      found.count *= extent(d);
    }
    if (found.count == 1 || !others_stay(split, *last)) return std::nullopt;
    if (found.woven && found.count > kMostWovenParts) return std::nullopt;
    if (found.dimensions.size() > 1 && found.count > kMostPartsApart) return std::nullopt;
    return found;
  }

  /// Everything else lies in the same order, and no tile is of more than one dimension.
  bool others_stay(std::int64_t split, std::int64_t last) const {
    std::vector<std::int64_t> wanted, others;
    for (std::size_t i = 0; i < whole_order_.size(); ++i) {
      const std::int64_t d = whole_order_[i];
      if (d == split) {
        wanted.push_back(last);
        continue;
      }
      if (run(d).size() > 1 && i + 2 >= whole_order_.size()) return false;
      for (std::int64_t part = run(d).begin; part < run(d).end; ++part) wanted.push_back(part);
    }
    for (std::int64_t d : order_) {
      if (d == last || !run(split).holds(d)) others.push_back(d);
    }
    return others == wanted;
  }

  std::vector<DimensionRun> runs_;  ///< Of the whole.
  const std::vector<std::int64_t>& extents_;
  std::vector<std::int64_t> whole_order_;
  std::vector<std::int64_t> order_;  ///< Of the parts.
  bool splits_tiles_ = false;
};

Shape in_row_major(hlo::ElementType type, const std::vector<std::int64_t>& extents) {
  Shape shape = hlo::array_shape(type, extents);
  shape.layout = row_major_layout(type, shape.rank());
  return shape;
}

/// Rows of one tile and a vector that has an element of each in turns.
std::optional<TileParts> parts_of_vector(const Shape& from, const Shape& to) {
  TileParts found;
  found.joins = to.rank() == 1;
  const Shape& parts = found.joins ? from : to;
  if (from.rank() + to.rank() != 3 || hlo::byte_size(from.type) != 4 ||
      from.element_count() != to.element_count() || major_to_minor(parts).back() != 0) {
    return std::nullopt;
  }
  found.woven = true;
  found.count = parts.dimensions[1];
  found.extent = parts.dimensions[0];
  if (found.count == 1 || found.count > isa::kSublanes || found.extent < isa::kLanes) {
    return std::nullopt;
  }
  found.from = found.joins ? as_it_lies(from) : from;
  found.to = found.joins ? to : as_it_lies(to);
  return found;
}

}  // namespace

std::optional<TileParts> tile_parts(const Shape& from, const Shape& to) {
  if (from.type != to.type || from.rank() == 0 || to.rank() == 0) return std::nullopt;
  if (from.rank() == 1 || to.rank() == 1) return parts_of_vector(from, to);
  const Shape before = without_outer_units(from), behind = without_outer_units(to);
  const auto common = common_dimensions(before.dimensions, behind.dimensions);
  if (!common) return std::nullopt;
  for (const bool joins : {false, true}) {
    const auto& runs = joins ? common->of_other : common->of_one;
    const auto& split = joins ? common->of_one : common->of_other;
    const Shape &whole = joins ? behind : before, &parts = joins ? before : behind;
    std::optional<TileParts> found = TileSplit(whole, runs, parts, split, common->extents).find();
    if (!found) continue;
    found->joins = joins;
    std::vector<std::int64_t> extents;
    for (std::int64_t d : common_order(major_to_minor(parts), split)) {
      extents.push_back(common->extents[static_cast<std::size_t>(d)]);
    }
    (joins ? found->from : found->to) = in_row_major(from.type, extents);
    for (const TileParts::Dimension& d : found->dimensions) extents[d.place] = 1;
    extents[extents.size() - (found->of_rows ? 2 : 1)] = found->count * found->extent;
    (joins ? found->to : found->from) = in_row_major(from.type, extents);
    return found;
  }
  return std::nullopt;
}

std::vector<DimensionOrder> orders_of_parts(const Shape& whole, const Shape& parts) {
  std::vector<DimensionOrder> orders;
  if (whole.rank() < 2 || parts.rank() < 2 || whole.type != parts.type) return orders;
  const auto common = common_dimensions(whole.dimensions, parts.dimensions);
  if (!common) return orders;
  const std::vector<std::int64_t> order = major_to_minor(whole);
  for (const bool of_rows : {false, true}) {
    const std::int64_t in_tiles = order[order.size() - (of_rows ? 2 : 1)];
    const DimensionRun& split = common->of_one[static_cast<std::size_t>(in_tiles)];
    if (split.size() < 2) continue;
    // What stays in the tiles: the minor dimension of the parts of lanes, the major one of rows.
    const std::int64_t stays = of_rows ? split.begin : split.end - 1;
    // The others of the parts stand right outside of the tiles, but for those that are part of a
    // dimension which begins before them.
    std::vector<std::int64_t> wanted;
    for (std::int64_t d : common_order(order, common->of_one)) {
      if (d == stays || !split.holds(d)) wanted.push_back(d);
    }
    for (std::int64_t d = split.begin; d < split.end; ++d) {
      if (d != stays) wanted.insert(wanted.end() - 2, d);
    }
    DimensionOrder found;
    for (std::int64_t d : wanted) {
      for (std::size_t k = 0; k < common->of_other.size(); ++k) {
        if (common->of_other[k].begin == d) found.push_back(static_cast<std::int64_t>(k));
      }
    }
    if (tile_parts(whole, in_order(parts, found))) orders.push_back(found);
  }
  return orders;
}

}  // namespace tpu::compiler
