#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/elementwise/elementwise_plan.h"
#include "workloads/compiler/kernels/elementwise/elementwise_tile_values.h"
#include "workloads/compiler/kernels/elementwise/expression.h"

namespace tpu::compiler {

namespace {

using hlo::HloOpcode;
using Kind = ArrayAccess::Kind;
using OutputKind = ElementwisePlan::OutputKind;

constexpr std::int64_t kRegisterBytes = 4096;
/// Left for the scratch of packed stores and alignment.
constexpr std::int64_t kReserveBytes = 256 << 10;
/// In one piece of straight code whose sums along lanes are waited for together.
constexpr int kMostRowsAtOnce = 16;
/// Of a row that all passes go through together: the lanes of longer ones wait for the memory.
constexpr std::int64_t kMostLaneTilesTogether = 4;
/// Registers of the largest array in a block: 1 MiB of f32.
constexpr std::int64_t kLargestBlock = 256;
/// Of the VMEM, for values of columns: one of so many parts.
constexpr std::uint64_t kColumnsPart = 8;
/// Of a column that is kept. One that depends on majors is spread register by register before the
/// first block, where nothing else hides it: it must come so often again.
constexpr std::int64_t kLargestColumn = 1 << 20;
constexpr std::int64_t kFewestUses = 8;

bool is_in_order(const hlo::Shape& shape, const std::vector<int>& axes) {
  int last = -1;
  for (std::int64_t dimension : major_to_minor(shape)) {
    const int axis = axes[static_cast<std::size_t>(dimension)];
    if (shape.dimensions[static_cast<std::size_t>(dimension)] == 1) continue;
    if (axis <= last) return false;
    last = axis;
  }
  return true;
}

/// Builds an ElementwisePlan step by step.
class Planner {
 public:
  /// For parts of `part` elements of the outermost axis longer than 1, or of a range of it, of
  /// which so many stand in VMEM; 0: for all at once.
  Planner(const ExpressionGraph& graph, std::size_t operand_count, const Target& target,
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
  Planner& repeat_matrices() {
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
    repeat_large_tiles();
    choose_shape();
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
  std::int64_t slice(hlo::Shape& shape, const std::vector<int>& axes, std::int64_t& begin) const;
  bool begin_with_ranges(const ArrayPart& part, std::int64_t& begin) const;
  bool is_whole(const hlo::Shape& shape, const std::vector<int>& axes) const;
  /// Of the axis that is cut, of all kernels together.
  std::int64_t whole_extent(int axis) const { return graph_.space().extent(axis); }
  bool is_range() const { return plan_.parts * plan_.part_extent() < whole_extent(plan_.cut_axis); }
  bool keeps_column(ElementwisePlan::Input& input) const;
  std::optional<Refusal> find_inputs();
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

/// The shape becomes that of a part, where parts of the array follow each other in memory, the
/// first of them so many granules from its begin. How many parts have the same one; 0: the array
/// has no parts.
std::int64_t Planner::slice(hlo::Shape& shape, const std::vector<int>& axes,
                            std::int64_t& begin) const {
  if (!plan_.is_cut()) return 0;
  for (std::int64_t dimension : major_to_minor(shape)) {
    const auto d = static_cast<std::size_t>(dimension);
    const std::int64_t extent = shape.dimensions[d];
    if (extent == 1) continue;
    if (axes[d] != plan_.cut_axis) return 0;
    // Of the axis, where it is several dimensions in one.
    const std::int64_t same = whole_extent(plan_.cut_axis) / extent;
    if (same > 1 && (is_range() || same % plan_.part_extent() != 0)) return 0;
    const std::int64_t slices = same > 1 ? extent : plan_.parts;
    const auto granules_of = [&](std::int64_t elements) -> std::uint64_t {
      hlo::Shape some = shape;
      some.dimensions[d] = elements;
      return elements == 0 ? 0 : granules(some);
    };
    const std::int64_t part = same > 1 ? 1 : plan_.part_extent();
    const std::int64_t rest = extent - plan_.first - slices * part;
    const std::uint64_t before = granules_of(plan_.first);
    if (before + slices * granules_of(part) + granules_of(rest) != granules(shape)) return 0;
    begin = static_cast<std::int64_t>(before);
    shape.dimensions[d] = part;
    return plan_.parts / slices;
  }
  return 0;
}

/// Whether each part of the kernel has whole ranges of a stream; `begin` becomes the granules of
/// those before the first one.
bool Planner::begin_with_ranges(const ArrayPart& part, std::int64_t& begin) const {
  if (part.is_one_range() || !plan_.is_cut()) return true;
  const std::int64_t row_tiles = space_.majors() * space_.row_tiles();  // Of a part.
  const std::int64_t before = row_tiles / plan_.part_extent() * plan_.first;
  if (row_tiles % part.run != 0 || before % part.run != 0) return false;
  begin = before / part.run * part.pitch;
  return true;
}

/// Whether the array has the outermost axis whole, if it has it.
bool Planner::is_whole(const hlo::Shape& shape, const std::vector<int>& axes) const {
  const int axis = plan_.cut_axis == kNoAxis ? outermost_axis(space_) : plan_.cut_axis;
  for (std::size_t d = 0; d < axes.size() && axis != kNoAxis; ++d) {
    if (axes[d] != axis || shape.dimensions[d] == 1) continue;
    if (shape.dimensions[d] < whole_extent(axis)) return false;
  }
  return true;
}

/// A column that comes again along other axes, if all of it has room.
bool Planner::keeps_column(ElementwisePlan::Input& input) const {
  if (!input.is_column() || input.sliced || input.fixed || space_.linear) return false;
  input.kept_majors = input.access.major_axes();
  const std::int64_t registers = input.kept_registers(space_);
  const std::int64_t fewest = input.kept_majors.empty() ? 2 : kFewestUses;
  return !contains(input.kept_majors, plan_.cut_axis) &&
         registers * fewest <= space_.majors() * space_.row_tiles() &&
         registers * kRegisterBytes <= kLargestColumn;
}

std::optional<Refusal> Planner::find_inputs() {
  for (std::size_t id = 0; id < graph_.nodes().size(); ++id) {
    const ExpressionNode& node = graph_.nodes()[id];
    if (node.opcode != HloOpcode::kParameter) continue;
    ElementwisePlan::Input input;
    input.node = static_cast<int>(id);
    input.operand = static_cast<int>(node.parameter);
    hlo::Shape shape = node.shape;
    if (!node.shift.empty()) {
      if (!limits_.whole_arrays) return refuse(shape, "expected the elements at their places");
      input.access = shifted_access(shape, node.shift);
      plan_.inputs.push_back(std::move(input));
      continue;
    }
    const std::int64_t shared_by = slice(shape, node.axes, input.begin);
    input.sliced = shared_by > 0;
    input.shared_by = std::max<std::int64_t>(shared_by, 1);
    const bool is_found =
        input.sliced ? has_modulo(input.shared_by, plan_.parts) : is_whole(shape, node.axes);
    if (!is_found) return refuse(shape, "expected a part of the array for each of the kernel");
    input.begin += node.begin;
    input.access = find_access(space_, shape, node.axes, graph_.kernel_name());
    input.part = node.part;
    if (!(node.part == ArrayPart{}) && !input.is_stream()) {
      return refuse(shape, "expected a slice that is read in place to cover the results");
    }
    if (!begin_with_ranges(input.part, input.begin)) {
      return refuse(shape, "expected parts of whole ranges of a slice that is read in place");
    }
    input.fixed = input.is_column() && !input.sliced && !input.access.needs_rows() &&
                  input.access.major_axes().empty();
    input.kept = keeps_column(input);
    plan_.inputs.push_back(std::move(input));
  }
  return std::nullopt;
}

void Planner::keep_axes(ElementwisePlan::Reduction& reduction, const ExpressionNode& node) {
  const auto is_reduced = [&](int axis) {
    return std::find(node.reduced_axes.begin(), node.reduced_axes.end(), axis) !=
           node.reduced_axes.end();
  };
  if (space_.linear) return;
  reduction.rows_kept = !is_reduced(space_.row_axis());
  reduction.lanes_kept = !is_reduced(space_.lane_axis());
  std::int64_t stride = (reduction.rows_kept ? space_.row_tiles() : 1) *
                        (reduction.lanes_kept ? space_.lane_tiles() : 1);
  const bool has_tiles = reduction.rows_kept && reduction.lanes_kept;
  bool is_last = true;
  for (int axis = space_.row_axis() - 1; axis >= 0; --axis) {
    if (is_reduced(axis)) continue;
    reduction.kept_majors.insert(reduction.kept_majors.begin(), axis);
    reduction.strides.insert(reduction.strides.begin(), stride);
    const bool is_whole = axis == plan_.cut_axis && !reduction.sliced;
    const std::int64_t extent = is_whole ? whole_extent(axis) : space_.extent(axis);
    // The last kept major may become the rows of the result's tiles.
    stride *= is_last && !has_tiles ? ceil_divide(extent, 8) * 8 : extent;
    is_last = false;
  }
  reduction.registers = stride;
}

bool Planner::is_reduced(const ExpressionNode& node, int axis) const {
  return std::count(node.reduced_axes.begin(), node.reduced_axes.end(), axis) != 0 &&
         space_.extents[static_cast<std::size_t>(axis)] > 1;
}

/// Whether operations of the kernel read the value, or a result of all elements is the value
/// itself: a reduction that is spread again.
bool Planner::is_used(int id) const {
  for (std::size_t i = 0; i < graph_.roots().size(); ++i) {
    const bool is_spread = graph_.root_shapes()[i].dimensions == graph_.space_shape().dimensions;
    if (graph_.roots()[i] == id && is_spread) return true;
  }
  return std::any_of(graph_.nodes().begin(), graph_.nodes().end(), [id](const auto& node) {
    return std::count(node.operands.begin(), node.operands.end(), id) != 0;
  });
}

/// Whether what each part makes of the results of a reduction is a range of them. Else the sums of
/// all parts are kept to the end.
bool Planner::has_sliced_results(int reduction) const {
  for (std::size_t i = 0; i < graph_.roots().size(); ++i) {
    if (graph_.roots()[i] != reduction) continue;
    hlo::Shape shape = graph_.root_shapes()[i];
    std::int64_t begin = 0;
    if (slice(shape, graph_.node(reduction).axes, begin) != 1) return false;
  }
  return true;
}

std::optional<Refusal> Planner::find_reductions() {
  for (std::size_t id = 0; id < graph_.nodes().size(); ++id) {
    const ExpressionNode& node = graph_.nodes()[id];
    if (!is_reduction(node)) continue;
    ElementwisePlan::Reduction reduction;
    reduction.node = static_cast<int>(id);
    reduction.integer = !is_floating(node.shape.type);
    int other_axes = 0;
    bool has_lanes = false;
    for (int axis : node.reduced_axes) {
      if (!space_.linear && axis == space_.lane_axis()) {
        has_lanes = true;
      } else if (graph_.space().extents[static_cast<std::size_t>(axis)] > 1) {
        ++other_axes;
      }
    }
    reduction.along_lanes = has_lanes && other_axes == 0;
    reduction.along_rows = !space_.linear && !has_lanes && other_axes == 1 &&
                           is_reduced(node, space_.row_axis()) && is_used(reduction.node);
    const auto& reduced = node.reduced_axes;
    reduction.sliced =
        !reduction.along_lanes && plan_.is_cut() && !contains(reduced, plan_.cut_axis) &&
        (reduction.along_rows || !limits_.keeps_sums || has_sliced_results(reduction.node));
    keep_axes(reduction, node);
    if (plan_.is_cut() && is_range() && contains(reduced, plan_.cut_axis) && !limits_.keeps_sums) {
      return refuse(node.shape, "expected no sum along the axis of which this is a range");
    }
    if (reduction.integer && !reduction.lanes_kept) {
      return refuse(node.shape, "reductions along the minor dimension add fp32 only");
    }
    plan_.reductions.push_back(std::move(reduction));
  }
  return std::nullopt;
}

int Planner::level_of(int id) const {
  int level = 0;
  for (int below : graph_.below({id})) {
    const int index = plan_.reduction_of(below);
    if (index >= 0) {
      level = std::max(level, plan_.reductions[static_cast<std::size_t>(index)].level + 1);
    }
  }
  return level;
}

void Planner::find_levels() {
  for (ElementwisePlan::Reduction& reduction : plan_.reductions) {
    const int operand = graph_.node(reduction.node).operands.front();
    reduction.level = level_of(operand);
    plan_.last_level = std::max(plan_.last_level, reduction.level);
  }
}

/// Whether the value is the same along a row, and not everywhere.
bool Planner::is_of_rows(int id) const {
  bool varies = false;
  for (int below : graph_.below({id})) {
    const ExpressionNode& node = graph_.node(below);
    if (node.opcode == HloOpcode::kIota || node.in_tile) return false;
    if (node.opcode == HloOpcode::kParameter) {
      const ElementwisePlan::Input& input = *plan_.input_of(below);
      if (!input.is_column()) return false;
      varies |= !input.fixed;
    }
    const int index = plan_.reduction_of(below);
    if (index < 0) continue;
    if (!plan_.reductions[static_cast<std::size_t>(index)].along_lanes) return false;
    varies = true;
  }
  return varies;
}

void Planner::find_row_values() {
  if (space_.linear) return;
  const auto& nodes = graph_.nodes();
  std::vector<bool> of_rows(nodes.size()), is_wanted(nodes.size());
  for (std::size_t id = 0; id < nodes.size(); ++id) of_rows[id] = is_of_rows(static_cast<int>(id));
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    if (of_rows[id]) continue;
    for (int operand : nodes[id].operands) is_wanted[static_cast<std::size_t>(operand)] = true;
  }
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    const bool is_computed = nodes[id].opcode != HloOpcode::kParameter &&
                             nodes[id].opcode != HloOpcode::kReduce &&
                             nodes[id].opcode != HloOpcode::kConstant;
    const bool is_vector = nodes[id].shape.type != hlo::ElementType::kPred;
    if (!of_rows[id] || !is_wanted[id] || !is_computed || !is_vector) continue;
    ElementwisePlan::RowValue value;
    value.node = static_cast<int>(id);
    value.level = level_of(value.node) - 1;
    plan_.row_values.push_back(value);
  }
}

/// Whether the value is the same in all rows of a matrix, and not everywhere.
bool Planner::is_of_columns(int id) const {
  bool varies = false;
  for (int below : graph_.below({id})) {
    const ExpressionNode& node = graph_.node(below);
    if (node.opcode == HloOpcode::kIota || node.in_tile) return false;
    if (node.opcode == HloOpcode::kParameter) {
      const ElementwisePlan::Input& input = *plan_.input_of(below);
      const bool is_row = input.access.kind == Kind::kRow && !input.access.needs_rows();
      if (!is_row && !input.fixed) return false;
      varies |= is_row;
    }
    const int index = plan_.reduction_of(below);
    if (index < 0) continue;
    if (!plan_.reductions[static_cast<std::size_t>(index)].along_rows) return false;
    varies = true;
  }
  return varies;
}

/// Whether the value takes more than the load that it becomes.
bool Planner::is_worth_keeping(int id) const {
  const ExpressionNode& node = graph_.node(id);
  if (node.shape.type == hlo::ElementType::kPred) return false;
  if (node.opcode == HloOpcode::kParameter) return is_packed(node.shape);
  return node.opcode != HloOpcode::kReduce && node.opcode != HloOpcode::kConstant;
}

void Planner::keep_column_value(int node, bool is_reciprocal) {
  ElementwisePlan::ColumnValue value;
  value.node = node;
  value.is_reciprocal = is_reciprocal;
  value.level = level_of(node) - 1;
  plan_.column_values.push_back(value);
}

void Planner::keep_column_values(const std::vector<bool>& wanted, bool are_reciprocals) {
  const std::int64_t bytes = plan_.reduction_along_rows()->registers * kRegisterBytes;
  for (std::size_t id = 0; id < wanted.size(); ++id) {
    const int node = static_cast<int>(id);
    const bool is_kept = plan_.column_value_of(node, are_reciprocals) != nullptr;
    if (!wanted[id] || is_kept || !is_of_columns(node)) continue;
    if (!are_reciprocals && !is_worth_keeping(node)) continue;
    const auto count = static_cast<std::int64_t>(plan_.column_values.size()) + 1;
    if (count * bytes > static_cast<std::int64_t>(target_.vmem_bytes / kColumnsPart)) return;
    keep_column_value(node, are_reciprocals);
  }
}

/// Results, and those that what is of no column reads.
void Planner::find_column_values() {
  if (!plan_.has_whole_matrices()) return;
  for (int root : graph_.roots()) {
    if (is_of_columns(root) && plan_.reduction_of(root) < 0) keep_column_value(root, false);
  }
  const auto& nodes = graph_.nodes();
  std::vector<bool> read(nodes.size()), divides(nodes.size());
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    if (is_of_columns(static_cast<int>(id))) continue;
    const bool is_quotient =
        nodes[id].opcode == HloOpcode::kDivide && is_floating(nodes[id].shape.type);
    for (std::size_t i = 0; i < nodes[id].operands.size(); ++i) {
      (is_quotient && i == 1 ? divides : read)[static_cast<std::size_t>(nodes[id].operands[i])] =
          true;
    }
  }
  keep_column_values(divides, true);
  keep_column_values(read, false);
}

std::optional<Refusal> Planner::find_outputs() {
  for (std::size_t i = 0; i < graph_.roots().size(); ++i) {
    ElementwisePlan::Output output;
    output.node = graph_.roots()[i];
    output.shape = graph_.root_shapes()[i];
    output.operand = operand_count_ + static_cast<int>(graph_.root_result(i));
    output.level = level_of(output.node);
    if (output.shape.dimensions == graph_.space_shape().dimensions) {
      std::vector<int> axes(output.shape.dimensions.size());
      const std::vector<std::int64_t> order = major_to_minor(graph_.space_shape());
      for (std::size_t axis = 0; axis < order.size(); ++axis) {
        axes[static_cast<std::size_t>(order[axis])] = static_cast<int>(axis);
      }
      output.sliced = slice(output.shape, axes, output.begin) == 1;
      output.access = find_access(space_, output.shape, axes, graph_.kernel_name());
      if (output.access.kind != Kind::kStream || output.sliced != plan_.is_cut()) {
        return refuse(output.shape, "expected the result in the layout of the operands");
      }
      plan_.last_level = std::max(plan_.last_level, output.level);
      output.part = graph_.root_part(i);
      if (limits_.whole_arrays && !(output.part == ArrayPart{})) {
        return refuse(output.shape, "expected results that are whole arrays");
      }
      if (!begin_with_ranges(output.part, output.begin)) {
        return refuse(output.shape, "expected parts of whole ranges of the result");
      }
      plan_.outputs.push_back(std::move(output));
      continue;
    }
    output.kind = OutputKind::kRows;
    for (int below : graph_.below({output.node})) {
      const int index = plan_.reduction_of(below);
      if (index < 0 || plan_.reductions[static_cast<std::size_t>(index)].along_lanes) continue;
      output.is_column_value = plan_.column_value_of(output.node, false) != nullptr;
      if (below != output.node && !output.is_column_value) {
        return refuse(output.shape,
                      "operations behind a reduction over rows belong to another kernel");
      }
      output.kind = OutputKind::kAccumulated;
      output.reduction = index;
    }
    const bool ends_with_part =
        output.kind == OutputKind::kRows
            ? plan_.is_cut()
            : plan_.reductions[static_cast<std::size_t>(output.reduction)].sliced;
    output.sliced =
        ends_with_part && slice(output.shape, graph_.node(output.node).axes, output.begin) == 1;
    if (output.sliced != ends_with_part) {
      return refuse(output.shape, "expected parts of the result one after the other in memory");
    }
    if (output.kind == OutputKind::kRows) {
      // Rows of packed results are written to 32-bit tiles first.
      hlo::Shape written = output.shape;
      if (written.type == hlo::ElementType::kBf16) written.type = hlo::ElementType::kF32;
      output.access =
          find_access(space_, written, graph_.node(output.node).axes, graph_.kernel_name());
      const bool along_rows =
          output.access.needs_rows() && output.access.x == ArrayAccess::Step::kRows;
      if (!along_rows && space_.rows() != 1) {
        return refuse(output.shape, "expected the rows of the space as the minor dimension");
      }
      output.level -= 1;
    }
    if (!is_in_order(output.shape, graph_.node(output.node).axes)) {
      return refuse(output.shape, "expected the result's dimensions in the order of the operand's");
    }
    output.begin += graph_.root_part(i).granule;
    plan_.outputs.push_back(std::move(output));
  }
  return std::nullopt;
}

/// Streams matrices that are the same at every major index, the largest first, until the rest
/// leaves half of the VMEM.
void Planner::repeat_large_tiles() {
  while (2 * resident_bytes() > static_cast<std::int64_t>(target_.vmem_bytes)) {
    ElementwisePlan::Input* largest = nullptr;
    for (ElementwisePlan::Input& input : plan_.inputs) {
      const std::int64_t period = period_of(input);
      const bool fits = period > 0 && (plan_.period == 0 || plan_.period == period);
      if (!fits || (largest != nullptr && input.access.rows() <= largest->access.rows())) continue;
      largest = &input;
    }
    if (largest == nullptr) return;
    plan_.period = period_of(*largest);
    largest->access.kind = Kind::kStream;
    largest->repeated = true;
  }
}

/// Row tiles after which the array comes again: it has the tiles of the space's inner axes, one
/// after the other, and none of the outer ones. 0: it has others.
std::int64_t Planner::period_of(const ElementwisePlan::Input& input) const {
  const ArrayAccess& access = input.access;
  if (access.kind != Kind::kTile || (!access.majors.empty() && !repeats_matrices_)) return 0;
  std::int64_t row_tiles = space_.row_tiles();
  int axis = space_.row_axis();
  for (const ArrayAccess::MajorTerm& term : access.majors) {  // The inner ones first.
    do {
      --axis;
    } while (axis > 0 && space_.extent(axis) == 1);
    if (term.axis != axis || term.tiles != row_tiles * space_.lane_tiles()) return 0;
    row_tiles *= space_.extent(axis);
  }
  return row_tiles;
}

/// Without anything that varies along lanes or rows, a tile is a tile.
void Planner::choose_shape() {
  plan_.flat = plan_.reductions.empty();
  for (const ElementwisePlan::Input& input : plan_.inputs) {
    const bool is_plain = input.is_stream() && !input.repeated && input.part.is_one_range();
    if (!is_plain && !input.fixed) plan_.flat = false;
  }
  for (const ElementwisePlan::Output& output : plan_.outputs) {
    plan_.flat = plan_.flat && output.part.is_one_range();
  }
  // The rows of a single row tile are the same in all of its tiles.
  const bool is_one_row_tile = !space_.linear && space_.majors() * space_.row_tiles() == 1;
  for (const ExpressionNode& node : graph_.nodes()) {
    if (node.opcode != HloOpcode::kIota) continue;
    if (!is_one_row_tile || node.axis == space_.lane_axis()) plan_.flat = false;
  }
  plan_.row_tiles = space_.majors() * space_.row_tiles();
  plan_.lane_tiles = space_.lane_tiles();
  if (plan_.flat) {
    plan_.row_tiles *= plan_.lane_tiles;
    plan_.lane_tiles = 1;
  }
}

void Planner::find_needed_axes() {
  if (plan_.flat) return;
  const auto need = [&](int axis) {
    if (axis != kNoAxis) plan_.needed[static_cast<std::size_t>(axis)] = true;
  };
  if (space_.linear) {
    if (!space_.extents.empty()) need(0);
    plan_.digits = space_.extents.empty() ? 0 : 1;
    return;
  }
  const auto need_access = [&](const ArrayAccess& access) {
    if (access.needs_rows()) need(space_.row_axis());
    for (int axis : access.major_axes()) need(axis);
  };
  for (const ElementwisePlan::Input& input : plan_.inputs) {
    if (!input.is_stream()) need_access(input.access);
  }
  for (const ExpressionNode& node : graph_.nodes()) {
    if (node.opcode == HloOpcode::kIota && node.axis != space_.lane_axis()) need(node.axis);
  }
  for (const ElementwisePlan::Output& output : plan_.outputs) {
    if (output.kind == OutputKind::kRows) need_access(output.access);
  }
  for (const ElementwisePlan::Reduction& reduction : plan_.reductions) {
    if (reduction.along_lanes) continue;
    const bool masks_rows = !reduction.rows_kept && space_.rows() % 8 != 0;
    if (masks_rows || reduction.rows_kept) need(space_.row_axis());
    for (int axis : reduction.kept_majors) need(axis);
  }
  need(plan_.cut_axis);
  for (int axis = 0; axis <= space_.row_axis(); ++axis) {
    if (plan_.needed[static_cast<std::size_t>(axis)]) {
      plan_.digits = space_.row_axis() - axis + 1;
      break;
    }
  }
}

std::size_t Planner::operations() const {
  double cycles = 0;
  for (std::size_t id = 0; id < graph_.nodes().size(); ++id) {
    const bool is_given = plan_.has_whole_matrices() && is_of_columns(static_cast<int>(id));
    if (!is_given) cycles += vector_cost_of(graph_.nodes()[id]).cycles;
  }
  return static_cast<std::size_t>(std::lround(2 * cycles));
}

/// Whether straight code can work on so many row tiles at a time: where indices count, those of
/// each of its tiles must be the group's first ones plus constants. So a group is a part of the row
/// tiles of a matrix, or whole matrices, or whole ones of the axis above them, and so on.
bool Planner::is_group(int rows) const {
  if (rows > plan_.row_tiles) return false;
  if (!plan_.counts()) return (rows & (rows - 1)) == 0;
  if (plan_.row_tiles % rows != 0) return false;
  std::int64_t left = rows;
  for (int i = 0; i < plan_.digits && left > 1; ++i) {
    const std::int64_t radix = plan_.radix(i);
    if (left % radix != 0) return radix % left == 0;
    left /= radix;
  }
  return true;
}

int Planner::largest_group(std::int64_t most) const {
  int rows = static_cast<int>(std::min(most, plan_.row_tiles));
  while (rows > 1 && !is_group(rows)) --rows;
  return std::max(rows, 1);
}

/// The row tiles of a group. Those of a matrix that few numbers divide (25: 197 rows) are gone
/// through in groups of a power of two and a smaller last one.
void Planner::choose_rows(ElementwisePlan::Group& group, std::int64_t most) {
  group.rows = largest_group(most);
  group.by_matrix = false;
  if (!plan_.counts() || space_.linear || plan_.period > 0) return;
  int rows = 1;
  while (2 * rows <= std::min(most, plan_.radix(0))) rows *= 2;
  if (rows < 2 * group.rows) return;
  if (plan_.radix(0) * plan_.lane_tiles > kLargestBlock) return;
  group.rows = rows;
  group.by_matrix = true;
}

/// Row tiles that a block has a multiple of.
std::int64_t Planner::least_block() const {
  std::int64_t least = plan_.has_whole_matrices() ? plan_.radix(0) : 1;
  for (int level = 0; level <= plan_.last_level; ++level) {
    const ElementwisePlan::Group& group = plan_.group_at(level);
    least = std::lcm(least, group.by_matrix ? plan_.radix(0) : group.rows);
  }
  return least;
}

void Planner::choose_unroll() {
  // Values that cross lanes take long: several row tiles at a time share the wait.
  bool crosses_lanes = false;
  int sums = 0;
  for (const ElementwisePlan::Input& input : plan_.inputs) {
    crosses_lanes |= input.is_spread() || input.part.lanes > 0;
  }
  for (const ExpressionNode& node : graph_.nodes())
    crosses_lanes |= node.opcode == HloOpcode::kSlice;
  for (const ElementwisePlan::Reduction& reduction : plan_.reductions) {
    crosses_lanes |= reduction.along_lanes;
    sums += reduction.along_lanes ? 1 : 0;
  }
  const auto most_tiles = [&](PassKind kind) {
    return limits_.most_tiles[static_cast<std::size_t>(kind)];
  };
  const auto group = [&](PassKind kind) -> ElementwisePlan::Group& {
    return plan_.groups[static_cast<std::size_t>(kind)];
  };
  for (const PassKind kind : {PassKind::kSums, PassKind::kResults}) {
    choose_group(group(kind), most_tiles(kind), crosses_lanes, sums);
  }
}

/// Where no pass needs another one to be through the block before it.
void Planner::choose_passes_together() {
  if (limits_.passes_apart || (!plan_.spreads() && plan_.last_level == 0)) return;
  if (plan_.has_whole_matrices() || !plan_.column_values.empty()) return;
  if (plan_.lane_tiles > kMostLaneTilesTogether) return;
  const ElementwisePlan::Group& results = plan_.group_at(plan_.last_level);
  for (int level = 0; level <= plan_.last_level; ++level) {
    const ElementwisePlan::Group& group = plan_.group_at(level);
    if (group.rows != results.rows || group.by_matrix != results.by_matrix ||
        group.lanes != plan_.lane_tiles) {
      return;
    }
  }
  plan_.passes_together = true;
}

/// The pass that spreads columns goes through the block as it is.
void Planner::choose_spread_group() {
  if (!plan_.spreads()) return;
  ElementwisePlan::Group& group = plan_.groups[static_cast<std::size_t>(PassKind::kSpread)];
  if (plan_.passes_together) {
    group = plan_.group_at(plan_.last_level);
    return;
  }
  group.lanes = static_cast<int>(plan_.lane_tiles);
  const int most =
      std::min(kMostRowsAtOnce, limits_.most_tiles[static_cast<std::size_t>(PassKind::kSpread)]);
  for (std::int64_t rows = std::min<std::int64_t>(most, plan_.block); rows > 0; --rows) {
    choose_rows(group, rows);
    if (plan_.block % (group.by_matrix ? plan_.radix(0) : group.rows) == 0) return;
  }
}

void Planner::choose_group(ElementwisePlan::Group& group, int most_tiles, bool crosses_lanes,
                           int sums) {
  const std::size_t work = operations() + plan_.inputs.size();
  // Straight code of up to about 250 instructions.
  int tiles = work <= 4 ? 32 : work <= 8 ? 16 : work <= 32 ? 8 : work <= 64 ? 4 : 2;
  if (crosses_lanes) tiles = kMostTiles;
  tiles = std::min(tiles, most_tiles);
  const int most_rows = crosses_lanes ? kMostRowsAtOnce : tiles;
  const bool whole_rows = plan_.lane_tiles <= std::max(1, crosses_lanes ? tiles / 4 : tiles);
  const std::int64_t row_width = whole_rows ? plan_.lane_tiles : 1;
  if (whole_rows || crosses_lanes) {
    const std::int64_t limit = whole_rows ? most_rows : 4;
    choose_rows(group, std::min(limit, std::max<std::int64_t>(1, tiles / row_width)));
  }
  group.lanes = static_cast<int>(plan_.lane_tiles);
  if (!whole_rows) {
    // Sums of all rows of a group stay in registers over the loop.
    if (sums > 0) choose_rows(group, std::min(group.rows, std::max(1, 12 / sums)));
    group.lanes = std::max(1, tiles / (crosses_lanes ? 4 : 1) / group.rows);
  }
}

std::int64_t Planner::resident_bytes() const {
  std::int64_t rows = 0;
  for (const ElementwisePlan::Input& input : plan_.inputs) {
    if (!input.is_stream()) rows += input.access.rows() * plan_.buffers_of(input);
    if (input.fixed) rows += 8;
    if (input.kept) rows += 8 * input.kept_registers(space_);
  }
  for (const ElementwisePlan::Reduction& reduction : plan_.reductions) {
    if (!reduction.along_lanes) rows += 8 * reduction.registers;
  }
  if (!plan_.column_values.empty()) {
    rows += 8 * plan_.reduction_along_rows()->registers *
            static_cast<std::int64_t>(plan_.column_values.size());
  }
  for (const ElementwisePlan::Output& output : plan_.outputs) {
    if (output.kind == OutputKind::kRows) rows += 2 * output.access.rows();
    if (output.kind == OutputKind::kAccumulated) {
      rows += ceil_divide(output.shape.padded_bytes(), 512) * 2 + 16;
    }
  }
  return rows * 512;
}

/// Of a row tile, with two buffers.
std::int64_t Planner::streamed_bytes() const {
  std::int64_t rows = 8 * plan_.lane_tiles * static_cast<std::int64_t>(plan_.tile_values.size());
  for (const ElementwisePlan::Input& input : plan_.inputs) {
    if (input.is_stream()) rows += plan_.stream_rows(input.access.shape);
  }
  for (const ElementwisePlan::Output& output : plan_.outputs) {
    if (output.kind == OutputKind::kStream) rows += plan_.stream_rows(output.shape);
  }
  return 2 * rows * 512;
}

/// Bytes of VMEM for the row tiles of a block.
std::int64_t Planner::room() const {
  return static_cast<std::int64_t>(target_.vmem_bytes) - resident_bytes() - kReserveBytes;
}

/// Of long rows no tile is kept that another pass can compute again.
void Planner::compute_again_what_has_no_room() {
  if (streamed_bytes() > room()) plan_.tile_values.clear();
}

std::optional<Refusal> Planner::choose_block() {
  std::int64_t slots = 0, largest = 0;
  for (const ElementwisePlan::Input& input : plan_.inputs) {
    if (input.is_stream()) {
      largest = std::max(largest, plan_.stream_rows(input.access.shape));
    }
    if (input.is_spread()) ++slots;
  }
  for (const ElementwisePlan::Output& output : plan_.outputs) {
    if (output.kind != OutputKind::kStream) continue;
    largest = std::max(largest, plan_.stream_rows(output.shape));
  }
  for (const ElementwisePlan::Reduction& reduction : plan_.reductions) {
    if (reduction.along_lanes) ++slots;
  }
  slots += static_cast<std::int64_t>(plan_.row_values.size());
  for (const ElementwisePlan::Output& output : plan_.outputs) {
    if (wants_lines() && ElementwisePlan::is_in_lanes(output)) ++slots;
  }
  const std::int64_t per_row_tile = streamed_bytes() + slots * kRegisterBytes;
  const std::int64_t most = per_row_tile == 0 ? plan_.row_tiles : room() / per_row_tile;
  if (room() <= 0 || most < 1) {
    return refuse(
        graph_.space_shape(),
        "expected the broadcast operands, the results of reductions and two buffers of eight "
        "rows of each other array in " +
            std::to_string(target_.vmem_bytes >> 20) + " MiB of VMEM; found " +
            std::to_string(resident_bytes()) + " and " + std::to_string(per_row_tile) + " bytes");
  }
  if (limits_.whole_arrays) {
    if (most < plan_.row_tiles)
      return refuse(graph_.space_shape(), "expected arrays that fit VMEM whole");
    plan_.block = plan_.row_tiles;
    return std::nullopt;
  }
  // Blocks of 64 KiB to 1 MiB of f32, eight or more where there is enough: DMAs of the largest take
  // ten times the latency between a block's end and the arrival of the one after the next.
  const std::int64_t registers = largest * plan_.row_tiles / 8;
  const std::int64_t wanted = std::clamp<std::int64_t>(registers / 8, 16, kLargestBlock);
  const std::int64_t per_row = std::max<std::int64_t>(1, largest / 8);
  plan_.block = std::clamp<std::int64_t>(wanted / per_row, 1, std::min(most, plan_.row_tiles));
  plan_.block = std::max<std::int64_t>(plan_.block, std::min<std::int64_t>(most, least_block()));
  if (plan_.has_whole_matrices() && plan_.block < plan_.radix(0)) {
    return refuse(graph_.space_shape(), "expected whole matrices in a block");
  }
  if (plan_.block < least_block()) shrink_groups(plan_.block);
  plan_.block -= plan_.block % least_block();
  if (wants_lines() && plan_.block >= line_block()) plan_.block -= plan_.block % line_block();
  if (plan_.period > 0) return divide_period();
  fit_ranges(std::min(most, plan_.row_tiles));
  return std::nullopt;
}

/// Whether blocks of so many row tiles have whole ranges, or equal parts of one, of each stream.
/// What is further apart than a DMA can tell comes in several.
bool Planner::has_ranges(std::int64_t block) const {
  const auto are_whole = [&](const ArrayPart& part) {
    if (part.is_one_range()) return true;
    if (block % part.run == 0) return block == part.run || part.pitch <= kLargestStride;
    return part.run % block == 0;
  };
  return std::all_of(plan_.inputs.begin(), plan_.inputs.end(),
                     [&](const auto& input) { return are_whole(input.part); }) &&
         std::all_of(plan_.outputs.begin(), plan_.outputs.end(),
                     [&](const auto& output) { return are_whole(output.part); });
}

/// Makes the block a smaller one that has ranges, or the next larger one that has room.
void Planner::fit_ranges(std::int64_t most) {
  const std::int64_t wanted = plan_.block;
  for (const bool may_shrink : {false, true}) {
    if (has_ranges(plan_.block)) return;
    if (may_shrink) shrink_groups(1);
    const std::int64_t least = least_block();
    std::int64_t less = wanted / least * least, more = less + least;
    while (less > 0 && !has_ranges(less)) less -= least;
    while (more <= most && !has_ranges(more)) more += least;
    if (less > 0) plan_.block = less;
    if (more <= most && 2 * less < wanted) plan_.block = more;
  }
}

/// Whether groups write results along the rows in pieces of a line.
bool Planner::wants_lines() const {
  return plan_.counts() &&
         std::any_of(plan_.outputs.begin(), plan_.outputs.end(), [this](const auto& output) {
           return ElementwisePlan::is_in_lanes(output) &&
                  plan_.run(plan_.group_at(output.level)) < std::min(kLineTiles, plan_.radix(0));
         });
}

/// Row tiles that a block has a multiple of where its lines are whole ones, or those of matrices.
std::int64_t Planner::line_block() const {
  const std::int64_t matrix = plan_.radix(0);
  const bool is_part = matrix % kLineTiles == 0 && plan_.block < matrix;
  return std::lcm(is_part ? kLineTiles : matrix, least_block());
}

void Planner::gather_lines() { plan_.by_lines = wants_lines() && plan_.block % line_block() == 0; }

/// All passes have the same small group then.
void Planner::shrink_groups(std::int64_t most) {
  for (const ElementwisePlan::Group& group : plan_.groups) {
    if (group.rows > 1) most = std::min<std::int64_t>(most, group.rows);
  }
  for (ElementwisePlan::Group& group : plan_.groups) {
    group.by_matrix = false;
    if (group.rows > 1) group.rows = largest_group(most);
  }
}

/// Makes the block a divisor of the matrix that repeated streams go through, and the period a count
/// of blocks.
std::optional<Refusal> Planner::divide_period() {
  const std::int64_t matrix = plan_.period;
  plan_.block = std::min(plan_.block, matrix);
  while (matrix % plan_.block != 0 || !has_ranges(plan_.block)) --plan_.block;
  for (std::int64_t most = plan_.block; plan_.block % least_block() != 0; --most) {
    shrink_groups(most);
  }
  plan_.period = matrix / plan_.block;
  if (!has_modulo(plan_.period, plan_.row_tiles / plan_.block)) {
    return refuse(graph_.space_shape(),
                  "expected fewer blocks, found " + std::to_string(plan_.row_tiles / plan_.block));
  }
  return std::nullopt;
}

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
        Planner(graph, operand_count, target, limits, extent / parts, 2).run();
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
  const int axis = Planner::outermost_axis(graph.space());
  const std::int64_t extent =
      axis == kNoAxis ? 1 : graph.space().extents[static_cast<std::size_t>(axis)];
  OrRefusal<ElementwisePlan> whole = Planner(graph, operand_count, target, limits, 0).run();
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
          Planner(graph, operand_count, target, limits, part, buffers).run();
      if (of_part) return of_part;
    }
  }
  OrRefusal<ElementwisePlan> again =
      Planner(graph, operand_count, target, limits, 0).repeat_matrices().run();
  return again ? again : whole;
}

OrRefusal<std::vector<ElementwisePlan>> find_elementwise_plans(const ExpressionGraph& graph,
                                                               std::size_t operand_count,
                                                               const Target& target,
                                                               const PlanLimits& limits) {
  OrRefusal<ElementwisePlan> one = find_elementwise_plan(graph, operand_count, target, limits);
  if (one) return std::vector<ElementwisePlan>{std::move(one).value()};
  const int axis = Planner::outermost_axis(graph.space());
  const std::int64_t extent = axis == kNoAxis ? 1 : graph.space().extent(axis);
  if (limits.whole_arrays) return one.refusal();
  // Parts that begin with a tile each, and what is left of the axis as one.
  for (std::int64_t parts = 1; extent / parts >= isa::kSublanes; parts += ceil_divide(parts, 4)) {
    const std::int64_t part = extent / parts / isa::kSublanes * isa::kSublanes;
    const AxisRange range{0, parts * part}, rest{range.count, extent - range.count};
    if (rest.count == 0) continue;
    const auto plan = [&](std::int64_t size, const AxisRange& of) {
      return Planner(graph, operand_count, target, limits, size, 1, of).run();
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
