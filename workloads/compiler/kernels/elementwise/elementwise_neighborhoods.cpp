#include <algorithm>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/kernels/elementwise/elementwise_planner.h"

// Arrays of which a kernel reads elements elsewhere, block by block.

namespace tpu::compiler {

using hlo::HloOpcode;
using Neighborhood = ElementwisePlan::Neighborhood;

namespace {

/// Tiles of eight rows, and single indices of axes above them, at each index of an axis.
std::int64_t tiles_of(const ArrayAccess& access, int axis) {
  for (const ArrayAccess::MajorTerm& term : access.majors) {
    if (term.axis == axis) return term.tiles;
  }
  return access.x_tiles;
}

/// The distance of a unit that an element stands in along an axis, at least and at most.
struct Distances {
  std::int64_t first = 0, last = 0;
};

Distances distances_of(std::int64_t shift, bool is_in_tiles) {
  if (!is_in_tiles) return {shift, shift};
  constexpr std::int64_t kRows = isa::kSublanes;
  const std::int64_t above = shift & (kRows - 1), first = (shift - above) / kRows;
  return {first, above > 0 ? first + 1 : first};
}

/// The nearer way to an element of an array that wraps.
std::int64_t nearer(std::int64_t shift, std::int64_t extent) {
  return 2 * shift > extent ? shift - extent : shift;
}

}  // namespace

/// An element elsewhere: of the neighborhood of its array.
std::optional<Refusal> ElementwisePlanner::read_around(const ExpressionNode& node,
                                                       ElementwisePlan::Input input) {
  if (space_.linear || plan_.is_cut()) {
    return refuse(node.shape, "expected the elements at their places");
  }
  auto& all = plan_.neighborhoods;
  const auto known = std::find_if(all.begin(), all.end(), [&](const Neighborhood& each) {
    return each.operand == input.operand && each.shape.dimensions == node.shape.dimensions;
  });
  input.neighborhood = static_cast<int>(known - all.begin());
  if (known == all.end()) {
    all.emplace_back();
    all.back().operand = input.operand;
    all.back().shape = node.shape;
  }
  plan_.inputs.push_back(std::move(input));
  return std::nullopt;
}

/// What is read at its place of an array that is read elsewhere, too, comes once.
void ElementwisePlanner::read_centers_around() {
  for (ElementwisePlan::Input& input : plan_.inputs) {
    const bool is_whole = input.is_stream() && input.part == ArrayPart{} && !input.repeated &&
                          input.begin == 0 && !input.sliced;
    for (std::size_t i = 0; i < plan_.neighborhoods.size() && is_whole; ++i) {
      const Neighborhood& around = plan_.neighborhoods[i];
      if (around.operand != input.operand) continue;
      if (around.shape.dimensions != input.access.shape.dimensions) continue;
      input.access = shifted_access(
          around.shape, std::vector<std::int64_t>(static_cast<std::size_t>(space_.rank())));
      input.neighborhood = static_cast<int>(i);
    }
  }
}

/// Whether blocks may have some indices of an axis above the lanes: arrays have as many of it and
/// of those outside of it as the space, but of the outermost one; and what wraps does so inside of
/// what blocks have whole, or along the outermost axis.
bool ElementwisePlanner::may_divide(int axis) const {
  int outermost = 0;
  while (outermost < space_.row_axis() && space_.extent(outermost) == 1) ++outermost;
  const auto count = [&](std::int64_t extent, int along) {
    return along == space_.row_axis() ? ceil_divide(extent, std::int64_t{isa::kSublanes}) : extent;
  };
  for (const ElementwisePlan::Input& input : plan_.inputs) {
    if (!input.is_in_neighborhood()) continue;
    const std::vector<std::int64_t> extents = physical_extents(input.access.shape);
    for (int outer = 0; outer <= axis; ++outer) {
      const auto d = static_cast<std::size_t>(outer);
      const bool wraps = !input.access.wraps.empty() && input.access.wraps[d];
      if (outer != outermost && wraps) return false;
      if (outer > outermost && count(extents[d], outer) != count(space_.extent(outer), outer)) {
        return false;
      }
    }
  }
  return true;
}

/// What blocks are a multiple of, and how far they reach.
std::optional<Refusal> ElementwisePlanner::choose_units() {
  if (plan_.neighborhoods.empty()) return std::nullopt;
  int axis = space_.row_axis();
  while (axis > 0 && !may_divide(axis)) --axis;
  plan_.unit_axis = axis;
  plan_.unit = axis == space_.row_axis() ? 1 : space_.row_tiles();
  for (int inner = axis + 1; inner < space_.row_axis(); ++inner) plan_.unit *= space_.extent(inner);
  std::vector<bool> is_known(plan_.neighborhoods.size(), false);
  for (ElementwisePlan::Input& input : plan_.inputs) {
    if (!input.is_in_neighborhood()) continue;
    const auto number = static_cast<std::size_t>(input.neighborhood);
    Neighborhood& around = plan_.neighborhoods[number];
    around.tiles = tiles_of(input.access, axis);
    const std::vector<std::int64_t> extents = physical_extents(around.shape);
    std::int64_t tiles = input.access.x_tiles * input.access.y_tiles;
    for (std::size_t d = 0; d + 2 < extents.size(); ++d) tiles *= extents[d];
    around.units = tiles / around.tiles;
    Distances reach;
    for (int outer = 0; outer <= axis; ++outer) {
      const auto d = static_cast<std::size_t>(outer);
      std::int64_t& shift = input.access.shift[d];
      if (!input.access.wraps.empty() && input.access.wraps[d]) {
        shift = nearer(shift, extents[d]);
        around.wraps = true;
      }
      const Distances along = distances_of(shift, outer == space_.row_axis());
      reach.first += along.first * plan_.units_along(outer);
      reach.last += along.last * plan_.units_along(outer);
    }
    around.first = is_known[number] ? std::min(around.first, reach.first) : reach.first;
    around.last = is_known[number] ? std::max(around.last, reach.last) : reach.last;
    is_known[number] = true;
    if (around.wraps && around.halo() >= around.units) {
      return refuse(around.shape, "expected elements that stand less than the array away");
    }
  }
  return std::nullopt;
}

}  // namespace tpu::compiler
