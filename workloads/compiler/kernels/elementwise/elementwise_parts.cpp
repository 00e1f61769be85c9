#include <algorithm>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/kernels/elementwise/elementwise_planner.h"

// Kernels over all of an extent, part by part, or over ranges of it.

namespace tpu::compiler {

namespace {

/// Granules: of fewer, what a part takes beside its work is more than what its fetch does
/// (assumed).
constexpr std::int64_t kWorthParts = 512;
constexpr std::int64_t kMostParts = 16;

/// In parts where the whole would wait for its operands, nothing streams and all of the waiting
/// is for what parts have of their own.
std::optional<ElementwisePlan> in_parts(const ElementwisePlan& whole, const ExpressionGraph& graph,
                                        std::size_t operand_count, const Target& target,
                                        const PlanLimits& limits, std::int64_t extent) {
  const std::int64_t waited = whole.waited_granules();
  if (waited < kWorthParts || whole.has_streams() || whole.keeps_columns()) return std::nullopt;
  for (std::int64_t parts = std::min(kMostParts, extent); parts > 1; --parts) {
    if (extent % parts != 0 || waited / parts < kWorthParts / 2) continue;
    OrRefusal<ElementwisePlan> plan =
        ElementwisePlanner(graph, operand_count, target, limits, extent / parts, 2).run();
    if (!plan || plan->has_streams()) return std::nullopt;
    if (plan->waited_granules() > 2 * waited / parts) return std::nullopt;
    return std::move(plan).value();
  }
  return std::nullopt;
}

}  // namespace

OrRefusal<ElementwisePlan> find_elementwise_plan(const ExpressionGraph& graph,
                                                 std::size_t operand_count, const Target& target,
                                                 const PlanLimits& limits) {
  const int axis = ElementwisePlanner::outermost_axis(graph.space());
  const std::int64_t extent =
      axis == kNoAxis ? 1 : graph.space().extents[static_cast<std::size_t>(axis)];
  OrRefusal<ElementwisePlan> whole =
      ElementwisePlanner(graph, operand_count, target, limits, 0).run();
  if (whole && !limits.whole_arrays) {
    if (auto plan = in_parts(*whole, graph, operand_count, target, limits, extent)) {
      return *std::move(plan);
    }
  }
  if (whole || limits.whole_arrays) return whole;
  // The largest part that fits, twice if it does; arrays that stream again; else what is said of
  // the whole.
  for (const std::int64_t buffers : {2, 1}) {
    for (std::int64_t part = extent / 2; part > 0; --part) {
      if (extent % part != 0) continue;
      OrRefusal<ElementwisePlan> of_part =
          ElementwisePlanner(graph, operand_count, target, limits, part, buffers).run();
      if (of_part) return of_part;
    }
  }
  OrRefusal<ElementwisePlan> again =
      ElementwisePlanner(graph, operand_count, target, limits, 0).repeat_matrices().run();
  return again ? again : whole;
}

OrRefusal<std::vector<ElementwisePlan>> find_elementwise_plans(const ExpressionGraph& graph,
                                                               std::size_t operand_count,
                                                               const Target& target,
                                                               const PlanLimits& limits) {
  OrRefusal<ElementwisePlan> one = find_elementwise_plan(graph, operand_count, target, limits);
  if (one) return std::vector<ElementwisePlan>{std::move(one).value()};
  const int axis = ElementwisePlanner::outermost_axis(graph.space());
  const std::int64_t extent = axis == kNoAxis ? 1 : graph.space().extent(axis);
  if (limits.whole_arrays) return one.refusal();
  // Parts that begin with a tile each, and what is left of the axis as one.
  for (std::int64_t parts = 1; extent / parts >= isa::kSublanes; parts += ceil_divide(parts, 4)) {
    const std::int64_t part = extent / parts / isa::kSublanes * isa::kSublanes;
    const AxisRange range{0, parts * part}, rest{range.count, extent - range.count};
    if (rest.count == 0) continue;
    const auto plan = [&](std::int64_t size, const AxisRange& of) {
      return ElementwisePlanner(graph, operand_count, target, limits, size, 1, of).run();
    };
    OrRefusal<ElementwisePlan> most = plan(part, range), last = plan(rest.count, rest);
    if (most && last) {
      most->ends = last->begins = false;
      return std::vector<ElementwisePlan>{std::move(most).value(), std::move(last).value()};
    }
  }
  return one.refusal();
}

}  // namespace tpu::compiler
