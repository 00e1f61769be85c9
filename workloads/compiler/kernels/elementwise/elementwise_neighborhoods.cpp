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

/// The first of the units that the elements of one stand in along an axis of units, and how far
/// the last one goes beyond where the next one begins.
struct Reach {
  std::int64_t first = 0, beyond = 0;
};

Reach reach_of(std::int64_t shift, std::int64_t step, bool is_in_tiles) {
  if (!is_in_tiles) return {shift, 1 - step};
  constexpr std::int64_t kRows = isa::kSublanes;
  const std::int64_t above = shift & (kRows - 1);
  return {(shift - above) / kRows, (above + (kRows - 1) * step) / kRows + 1 - step};
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
    return each.operand == input.operand && each.shape.dimensions == node.shape.dimensions &&
           each.steps == input.access.step;
  });
  input.neighborhood = static_cast<int>(known - all.begin());
  if (known == all.end()) {
    all.emplace_back();
    all.back().operand = input.operand;
    all.back().shape = node.shape;
    all.back().steps = input.access.step;
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
      if (std::any_of(around.steps.begin(), around.steps.end(),
                      [](std::int64_t step) { return step != 1; })) {
        continue;
      }
      input.access = shifted_access(
          around.shape, std::vector<std::int64_t>(static_cast<std::size_t>(space_.rank())));
      input.neighborhood = static_cast<int>(i);
    }
  }
}

/// Whether blocks may have some indices of an axis above the lanes: arrays have as many of it and
/// of those outside of it as the space, but of the outermost one, and of the axis itself as many
/// times more as its step says; and what wraps does so inside of what blocks have whole, or along
/// the outermost axis.
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
      const std::int64_t step = input.access.step_along(outer);
      if ((outer != outermost && wraps) || (outer != axis && step != 1)) return false;
      if (outer > outermost &&
          count(extents[d], outer) != step * count(space_.extent(outer), outer)) {
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
  for (std::size_t number = 0; number < plan_.neighborhoods.size(); ++number) {
    Neighborhood& around = plan_.neighborhoods[number];
    std::vector<ElementwisePlan::Input*> inputs;
    for (ElementwisePlan::Input& input : plan_.inputs) {
      if (input.neighborhood == static_cast<int>(number)) inputs.push_back(&input);
    }
    find_reach(around, inputs);
    if (around.wraps && around.halo() >= around.units) {
      return refuse(around.shape, "expected elements that stand less than the array away");
    }
  }
  return std::nullopt;
}

/// Where only every few units of an array are read, and all that read it read the same: the array
/// has those alone.
void ElementwisePlanner::leave_out_units(Neighborhood& around,
                                         const std::vector<ElementwisePlan::Input*>& inputs) const {
  if (around.step == 1 || plan_.unit_axis == space_.row_axis()) return;
  const auto axis = static_cast<std::size_t>(plan_.unit_axis);
  const auto phase_of = [&](const ElementwisePlan::Input* input) {
    return ((input->access.shift[axis] % around.step) + around.step) % around.step;
  };
  const std::int64_t phase = phase_of(inputs.front());
  const std::int64_t distance = around.step * around.unit_granules();
  if (distance > std::int64_t{kLargestStride}) return;
  for (const ElementwisePlan::Input* input : inputs) {
    if (phase_of(input) != phase) return;
  }
  for (ElementwisePlan::Input* input : inputs) {
    input->access.shift[axis] = (input->access.shift[axis] - phase) / around.step;
  }
  around.pitch = around.step;
  around.phase = phase;
  around.units = ceil_divide(around.units - phase, around.pitch);
  around.step = 1;
}

/// The units of an array, and how far its readers reach.
void ElementwisePlanner::find_reach(Neighborhood& around,
                                    const std::vector<ElementwisePlan::Input*>& inputs) const {
  const ArrayAccess& any = inputs.front()->access;
  around.tiles = tiles_of(any, plan_.unit_axis);
  around.step = any.step_along(plan_.unit_axis);
  const std::vector<std::int64_t> extents = physical_extents(around.shape);
  std::int64_t tiles = any.x_tiles * any.y_tiles;
  for (std::size_t d = 0; d + 2 < extents.size(); ++d) tiles *= extents[d];
  around.units = tiles / around.tiles;
  leave_out_units(around, inputs);
  for (ElementwisePlan::Input* input : inputs) {
    std::int64_t away = 0, beyond = 0;
    for (int outer = 0; outer <= plan_.unit_axis; ++outer) {
      const auto d = static_cast<std::size_t>(outer);
      std::int64_t& shift = input->access.shift[d];
      if (!input->access.wraps.empty() && input->access.wraps[d]) {
        shift = nearer(shift, extents[d]);
        around.wraps = true;
      }
      const bool is_unit = outer == plan_.unit_axis;
      const Reach reach = reach_of(shift, is_unit ? around.step : 1, outer == space_.row_axis());
      away += reach.first * plan_.units_along(outer) * (is_unit ? 1 : around.step);
      if (is_unit) beyond = reach.beyond;
    }
    input->units_away = away;
    const bool is_first = input == inputs.front();
    around.first = is_first ? away : std::min(around.first, away);
    around.last = is_first ? away + beyond : std::max(around.last, away + beyond);
  }
  around.last = std::max(around.last, around.first);
}

}  // namespace tpu::compiler
