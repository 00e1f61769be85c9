#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/elementwise_kernel.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

namespace {

/// The graph, or a form of it that fits: axes joined, or another one outermost.
std::optional<ExpressionGraph> form_that_fits(
    const ExpressionGraph& graph, const std::function<bool(const ExpressionGraph&)>& fits) {
  if (fits(graph)) return graph;
  for (int axis = 0; !graph.space().linear && axis < graph.space().row_axis(); ++axis) {
    ExpressionGraph form = graph;
    if (axis > 0 && !form.move_outermost(axis)) continue;
    if (axis > 0 && fits(form)) return form;
    while (form.join_outermost_axes()) {
      if (fits(form)) return form;
    }
  }
  return std::nullopt;
}

/// Kernels that go through ranges of an axis, one behind the other, at most.
constexpr std::int64_t kMostRanges = 16;

/// The graph, or where VMEM has no room for what stays there, a form of it whose outermost axis has
/// smaller parts; where it has no room for rows of lanes, one with those cut in tiles.
ExpressionGraph fitting_form(ExpressionGraph graph, std::size_t operand_count, const Target& target,
                             bool keeps_sums) {
  graph.combine_rows_in_tiles();
  PlanLimits limits;
  limits.keeps_sums = keeps_sums;
  const auto fits = [&](const ExpressionGraph& form) {
    return static_cast<bool>(find_elementwise_plans(form, operand_count, target, limits));
  };
  if (const auto form = form_that_fits(graph, fits)) return *form;
  ExpressionGraph in_tiles = graph;
  if (in_tiles.split_lanes()) {
    if (const auto form = form_that_fits(in_tiles, fits)) return *form;
  }
  return graph;
}

using Pieces = OrRefusal<std::vector<ElementwisePiece>>;

/// The whole of the lanes, in a form that fits.
Pieces pieces_of_whole(const ExpressionGraph& whole, std::size_t operand_count,
                       const Target& target, const PlanLimits& limits) {
  const ExpressionGraph graph = fitting_form(whole, operand_count, target, limits.keeps_sums);
  auto plans = find_elementwise_plans(graph, operand_count, target, limits);
  if (!plans) return plans.refusal();
  std::vector<ElementwisePiece> pieces;
  for (ElementwisePlan& plan : *plans) pieces.push_back({graph, std::move(plan)});
  return pieces;
}

/// As few ranges of the lanes, or of the rows, as fit: multiples of `unit`. None: no pieces.
std::vector<ElementwisePiece> ranges(const ExpressionGraph& whole, std::size_t operand_count,
                                     const Target& target, const PlanLimits& limits, int axis,
                                     std::int64_t unit) {
  std::vector<ElementwisePiece> pieces;
  const std::int64_t extent = whole.space().extent(axis);
  for (std::int64_t count = 2; count <= kMostRanges; ++count, pieces.clear()) {
    const std::int64_t most = round_up(ceil_divide(extent, count), unit);
    for (std::int64_t first = 0; first < extent; first += most) {
      ExpressionGraph range = whole;
      range.combine_rows_in_tiles();
      if (most >= extent || !range.take_range(axis, first, std::min(most, extent - first))) {
        return {};
      }
      auto plan = find_elementwise_plan(range, operand_count, target, limits);
      if (!plan) break;
      pieces.push_back({std::move(range), std::move(plan).value()});
    }
    if (static_cast<std::int64_t>(pieces.size()) == ceil_divide(extent, most)) return pieces;
  }
  return {};
}

}  // namespace

OrRefusal<std::vector<ElementwisePiece>> find_elementwise_pieces(const ExpressionGraph& whole,
                                                                 std::size_t operand_count,
                                                                 const Target& target,
                                                                 const PlanLimits& limits) {
  Pieces pieces = pieces_of_whole(whole, operand_count, target, limits);
  if (pieces) return pieces;
  if (!whole.space().linear) {
    // Vectors lie in registers of 1024.
    constexpr std::int64_t kVector = isa::kSublanes * isa::kLanes;
    const IterationSpace& space = whole.space();
    auto lanes = ranges(whole, operand_count, target, limits, space.lane_axis(), kVector);
    if (!lanes.empty()) return lanes;
    for (const std::int64_t unit : {std::int64_t{isa::kSublanes}, kVector}) {
      auto rows = ranges(whole, operand_count, target, limits, space.row_axis(), unit);
      if (!rows.empty()) return rows;
    }
  }
  PlanLimits last = limits;
  last.keeps_sums = true;
  Pieces kept = pieces_of_whole(whole, operand_count, target, last);
  return kept ? kept : pieces;
}

bool has_elementwise_kernel(const hlo::Module& module, const hlo::Computation& computation,
                            const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Computation fused = computation_of(module, computation, instruction);
  const ExpressionGraph graph(module, fused, instruction.name);
  return static_cast<bool>(find_elementwise_pieces(graph, instruction.operands.size(), target, {}));
}

LoweredKernel lower_elementwise(const hlo::Module& module, const hlo::Computation& computation,
                                const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Computation fused = computation_of(module, computation, instruction);
  const std::size_t operands = instruction.operands.size();
  const ExpressionGraph graph(module, fused, instruction.name);
  // Expressions that need more registers than there are get less code that overlaps.
  PlanLimits limits;
  for (bool may_spill = false;;) {
    KernelBuilder builder(graph.kernel_name(), target);
    std::vector<ElementwisePiece> pieces =
        find_elementwise_pieces(graph, operands, target, limits).value();
    std::deque<ElementwiseKernel> kernels;
    for (ElementwisePiece& piece : pieces) {
      if (!kernels.empty()) builder.begin_anew();
      kernels.emplace_back(builder, piece.graph, operands, std::move(piece.plan)).emit();
    }
    if (std::optional<LoweredKernel> made = lowered_kernel(builder, may_spill)) {
      return std::move(*made);
    }
    const std::optional<std::uint32_t> block = builder.crowded_block();
    std::optional<PassKind> crowded;
    for (const ElementwiseKernel& kernel : kernels) {
      if (block && kernel.pass_of(*block)) crowded = kernel.pass_of(*block);
    }
    may_spill = !limits.reduce(crowded);
  }
}

}  // namespace tpu::compiler
