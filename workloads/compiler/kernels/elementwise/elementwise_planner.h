#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/compiler/kernels/elementwise/elementwise_plan.h"
#include "workloads/compiler/kernels/elementwise/elementwise_tile_values.h"

namespace tpu::compiler {

/// Builds an ElementwisePlan step by step.
class ElementwisePlanner {
 public:
  /// For parts of `part` elements of the outermost axis longer than 1, or of a range of it, of
  /// which so many stand in VMEM; 0: for all at once.
  ElementwisePlanner(const ExpressionGraph& graph, std::size_t operand_count, const Target& target,
                     const PlanLimits& limits, std::int64_t part, std::int64_t buffers = 1,
                     AxisRange range = {})
      : graph_(graph),
        space_(plan_.space),
        operand_count_(static_cast<int>(operand_count)),
        target_(target),
        limits_(limits) {
    plan_.space = graph.space();
    if (part == 0) return;
    plan_.cut_axis = outermost_axis(space_);
    std::int64_t& extent = plan_.space.extents[static_cast<std::size_t>(plan_.cut_axis)];
    plan_.first = range.first;
    plan_.parts = (range.count > 0 ? range.count : extent) / part;
    plan_.part_buffers = buffers;
    extent = part;
  }

  /// Arrays of several matrices stream again, too, and not single ones alone.
  ElementwisePlanner& repeat_matrices() {
    repeats_matrices_ = true;
    return *this;
  }

  OrRefusal<ElementwisePlan> run() {
    plan_.needed.assign(static_cast<std::size_t>(space_.rank()), false);
    if (const auto refusal = find_inputs()) return *refusal;
    if (const auto refusal = find_reductions()) return *refusal;
    find_levels();
    find_row_values();
    find_column_values();
    if (const auto refusal = find_outputs()) return *refusal;
    if (!limits_.whole_arrays) plan_.tile_values = tile_values_of(graph_, plan_);
    if (!limits_.whole_arrays) repeat_large_tiles();  // One block has no next one to begin again.
    choose_shape();
    if (const auto refusal = choose_units()) return *refusal;
    compute_again_what_has_no_room();
    find_needed_axes();
    choose_unroll();
    choose_passes_together();
    if (const auto refusal = choose_block()) return *refusal;
    choose_spread_group();
    gather_lines();
    return std::move(plan_);
  }

  /// The first axis longer than 1, where it is above the rows; else none.
  static int outermost_axis(const IterationSpace& space) {
    for (int axis = 0; !space.linear && axis < space.row_axis(); ++axis) {
      if (space.extents[static_cast<std::size_t>(axis)] > 1) return axis;
    }
    return kNoAxis;
  }

 private:
  static constexpr std::int64_t kRegisterBytes = 4096;

  std::int64_t slice(hlo::Shape& shape, const std::vector<int>& axes, std::int64_t& begin) const;
  bool begin_with_ranges(const ArrayPart& part, std::int64_t& begin) const;
  bool is_whole(const hlo::Shape& shape, const std::vector<int>& axes) const;
  /// Of the axis that is cut, of all kernels together.
  std::int64_t whole_extent(int axis) const { return graph_.space().extent(axis); }
  bool is_range() const { return plan_.parts * plan_.part_extent() < whole_extent(plan_.cut_axis); }
  double spreading_over_streams() const;
  void keep_columns();
  std::optional<Refusal> find_inputs();
  std::optional<Refusal> read_around(const ExpressionNode& node, ElementwisePlan::Input input);
  void read_centers_around();
  bool may_divide(int axis) const;
  void leave_out_units(ElementwisePlan::Neighborhood& around,
                       const std::vector<ElementwisePlan::Input*>& inputs) const;
  void find_reach(ElementwisePlan::Neighborhood& around,
                  const std::vector<ElementwisePlan::Input*>& inputs) const;
  std::optional<Refusal> choose_units();
  std::int64_t halo_bytes() const;
  bool has_sliced_results(int reduction) const;
  std::optional<Refusal> find_reductions();
  bool is_reduced(const ExpressionNode& node, int axis) const;
  bool is_used(int id) const;
  void keep_axes(ElementwisePlan::Reduction& reduction, const ExpressionNode& node);
  void find_levels();
  bool is_of_rows(int node) const;
  void find_row_values();
  bool is_of_columns(int node) const;
  bool is_worth_keeping(int node) const;
  void keep_column_value(int node, bool is_reciprocal);
  void keep_column_values(const std::vector<bool>& wanted, bool are_reciprocals);
  void find_column_values();
  std::optional<Refusal> find_outputs();
  std::int64_t period_of(const ElementwisePlan::Input& input) const;
  void repeat_large_tiles();
  void choose_shape();
  void find_needed_axes();
  bool is_group(int rows) const;
  int largest_group(std::int64_t most) const;
  void choose_rows(ElementwisePlan::Group& group, std::int64_t most);
  std::int64_t least_block() const;
  void choose_unroll();
  void choose_passes_together();
  void choose_group(ElementwisePlan::Group& group, int most_tiles, bool crosses_lanes, int sums);
  void choose_wide_group(ElementwisePlan::Group& group, int most_tiles, int sums);
  void choose_spread_group();
  void shrink_groups(std::int64_t most);
  std::optional<Refusal> choose_block();
  int level_of(int node) const;
  std::size_t operations() const;
  std::optional<Refusal> divide_period();
  bool has_ranges(std::int64_t block) const;
  void fit_ranges(std::int64_t most);
  bool wants_lines() const;
  std::int64_t line_block() const;
  void gather_lines();
  std::int64_t resident_bytes() const;
  std::int64_t streamed_bytes() const;
  std::int64_t room() const;
  void compute_again_what_has_no_room();
  Refusal refuse(const hlo::Shape& shape, const std::string& why) const {
    return {"no kernel for " + graph_.kernel_name() + " over " +
            hlo::to_string(graph_.space_shape()) + ", " + hlo::to_string(shape) + ": " + why};
  }

  const ExpressionGraph& graph_;
  ElementwisePlan plan_;
  const IterationSpace& space_;
  int operand_count_;
  const Target& target_;
  PlanLimits limits_;
  bool repeats_matrices_ = false;
};

}  // namespace tpu::compiler
