#include "workloads/compiler/kernels/elementwise/elementwise_planner.h"

#include <algorithm>

#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/kernels/elementwise/expression.h"

// What the kernel reads, adds up, keeps and makes.

namespace tpu::compiler {

using hlo::HloOpcode;
using Kind = ArrayAccess::Kind;
using OutputKind = ElementwisePlan::OutputKind;

namespace {

/// Of the VMEM, for values of columns: one of so many parts.
constexpr std::uint64_t kColumnsPart = 8;
/// Of the VMEM, for a column that is kept: one of so many parts. All of them, and what else stays,
/// leave a quarter to blocks.
constexpr std::int64_t kKeptColumnPart = 8;
/// A column that depends on majors is spread register by register before the first block, where
/// nothing else hides it: it must come so often again where what streams would hide that it is
/// spread with each block.
constexpr double kFewestUses = 8;

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

}  // namespace

/// The shape becomes that of a part, where parts of the array follow each other in memory, the
/// first of them so many granules from its begin. How many parts have the same one; 0: the array
/// has no parts.
std::int64_t ElementwisePlanner::slice(hlo::Shape& shape, const std::vector<int>& axes,
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
bool ElementwisePlanner::begin_with_ranges(const ArrayPart& part, std::int64_t& begin) const {
  if (part.is_one_range() || !plan_.is_cut()) return true;
  const std::int64_t row_tiles = space_.majors() * space_.row_tiles();  // Of a part.
  const std::int64_t before = row_tiles / plan_.part_extent() * plan_.first;
  if (row_tiles % part.run != 0 || before % part.run != 0) return false;
  begin = before / part.run * part.pitch;
  return true;
}

/// Whether the array has the outermost axis whole, if it has it.
bool ElementwisePlanner::is_whole(const hlo::Shape& shape, const std::vector<int>& axes) const {
  const int axis = plan_.cut_axis == kNoAxis ? outermost_axis(space_) : plan_.cut_axis;
  for (std::size_t d = 0; d < axes.size() && axis != kNoAxis; ++d) {
    if (axes[d] != axis || shape.dimensions[d] == 1) continue;
    if (shape.dimensions[d] < whole_extent(axis)) return false;
  }
  return true;
}

/// What the XLU takes for the columns, each in each row tile, over what HBM takes for what streams.
double ElementwisePlanner::spreading_over_streams() const {
  double columns = 0, bytes = 0;
  for (const ElementwisePlan::Input& input : plan_.inputs) {
    if (input.is_column() && !input.fixed) ++columns;
    if (input.is_stream()) bytes += static_cast<double>(input.access.shape.padded_bytes());
  }
  for (const hlo::Shape& result : graph_.root_shapes()) {
    bytes += static_cast<double>(result.padded_bytes()) / static_cast<double>(plan_.parts);
  }
  const auto row_tiles = static_cast<double>(space_.majors() * space_.row_tiles());
  return columns * row_tiles * target_.xlu_interval_cycles * target_.hbm_bytes_per_cycle / bytes;
}

/// Columns that come again along other axes, if all of them have room.
void ElementwisePlanner::keep_columns() {
  const double spreading = spreading_over_streams();
  const auto vmem = static_cast<std::int64_t>(target_.vmem_bytes);
  std::int64_t left = vmem / 4 * 3 - resident_bytes();
  for (ElementwisePlan::Input& input : plan_.inputs) {
    if (!input.is_column() || input.sliced || input.fixed || space_.linear) continue;
    input.kept_majors = input.access.major_axes();
    const std::int64_t registers = input.kept_registers(space_);
    const double uses =
        static_cast<double>(space_.majors() * space_.row_tiles()) / static_cast<double>(registers);
    // Once before the streams, where not all of the XLU's latency is hidden, or each time beside
    // them.
    const bool is_shorter = 1.5 * spreading / uses + 1 < spreading;
    const std::int64_t bytes = registers * kRegisterBytes;
    input.kept = !contains(input.kept_majors, plan_.cut_axis) &&
                 (input.kept_majors.empty() ? uses >= 2 : uses >= kFewestUses || is_shorter) &&
                 bytes <= std::min(left, vmem / kKeptColumnPart);
    if (input.kept) left -= bytes;
  }
}

std::optional<Refusal> ElementwisePlanner::find_inputs() {
  for (std::size_t id = 0; id < graph_.nodes().size(); ++id) {
    const ExpressionNode& node = graph_.nodes()[id];
    if (node.opcode != HloOpcode::kParameter) continue;
    ElementwisePlan::Input input;
    input.node = static_cast<int>(id);
    input.operand = static_cast<int>(node.parameter);
    hlo::Shape shape = node.shape;
    if (!node.shift.empty()) {
      input.access = shifted_access(shape, node.shift);
      input.access.wraps = node.wraps;
      input.access.step = node.step;
      if (limits_.whole_arrays) {
        plan_.inputs.push_back(std::move(input));
      } else if (const auto refusal = read_around(node, std::move(input))) {
        return refusal;
      }
      continue;
    }
    if (node.element_row >= 0) {
      input.access = access_to_element(shape, node.element_row, node.element_lane);
      input.begin = node.begin;
      input.fixed = true;
      plan_.inputs.push_back(std::move(input));
      continue;
    }
    if (node.in_rows) {
      if (limits_.whole_arrays) return refuse(shape, "expected vectors that stand by themselves");
      input.access = access_in_rows(shape);
      input.part = node.part;
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
    if (input.is_ahead() && limits_.whole_arrays) {
      return refuse(shape, "expected vectors that begin with a row of lanes");
    }
    if (!begin_with_ranges(input.part, input.begin)) {
      return refuse(shape, "expected parts of whole ranges of a slice that is read in place");
    }
    input.fixed = input.is_column() && !input.sliced && !input.access.needs_rows() &&
                  input.access.major_axes().empty();
    plan_.inputs.push_back(std::move(input));
  }
  read_centers_around();
  keep_columns();
  return std::nullopt;
}

void ElementwisePlanner::keep_axes(ElementwisePlan::Reduction& reduction,
                                   const ExpressionNode& node) {
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

bool ElementwisePlanner::is_reduced(const ExpressionNode& node, int axis) const {
  return std::count(node.reduced_axes.begin(), node.reduced_axes.end(), axis) != 0 &&
         space_.extents[static_cast<std::size_t>(axis)] > 1;
}

/// Whether operations of the kernel read the value, or a result of all elements is the value
/// itself: a reduction that is spread again.
bool ElementwisePlanner::is_used(int id) const {
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
bool ElementwisePlanner::has_sliced_results(int reduction) const {
  for (std::size_t i = 0; i < graph_.roots().size(); ++i) {
    if (graph_.roots()[i] != reduction) continue;
    hlo::Shape shape = graph_.root_shapes()[i];
    std::int64_t begin = 0;
    if (slice(shape, graph_.node(reduction).axes, begin) != 1) return false;
  }
  return true;
}

std::optional<Refusal> ElementwisePlanner::find_reductions() {
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

int ElementwisePlanner::level_of(int id) const {
  int level = 0;
  for (int below : graph_.below({id})) {
    const int index = plan_.reduction_of(below);
    if (index >= 0) {
      level = std::max(level, plan_.reductions[static_cast<std::size_t>(index)].level + 1);
    }
  }
  return level;
}

void ElementwisePlanner::find_levels() {
  for (ElementwisePlan::Reduction& reduction : plan_.reductions) {
    const int operand = graph_.node(reduction.node).operands.front();
    reduction.level = level_of(operand);
    plan_.last_level = std::max(plan_.last_level, reduction.level);
  }
}

/// Whether the value is the same along a row, and not everywhere.
bool ElementwisePlanner::is_of_rows(int id) const {
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

void ElementwisePlanner::find_row_values() {
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
bool ElementwisePlanner::is_of_columns(int id) const {
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
bool ElementwisePlanner::is_worth_keeping(int id) const {
  const ExpressionNode& node = graph_.node(id);
  if (node.shape.type == hlo::ElementType::kPred) return false;
  if (node.opcode == HloOpcode::kParameter) return is_packed(node.shape);
  return node.opcode != HloOpcode::kReduce && node.opcode != HloOpcode::kConstant;
}

void ElementwisePlanner::keep_column_value(int node, bool is_reciprocal) {
  ElementwisePlan::ColumnValue value;
  value.node = node;
  value.is_reciprocal = is_reciprocal;
  value.level = level_of(node) - 1;
  plan_.column_values.push_back(value);
}

void ElementwisePlanner::keep_column_values(const std::vector<bool>& wanted, bool are_reciprocals) {
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
void ElementwisePlanner::find_column_values() {
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

std::optional<Refusal> ElementwisePlanner::find_outputs() {
  for (std::size_t i = 0; i < graph_.roots().size(); ++i) {
    ElementwisePlan::Output output;
    output.node = graph_.roots()[i];
    output.shape = graph_.root_shapes()[i];
    output.operand = operand_count_ + static_cast<int>(graph_.root_result(i));
    output.level = level_of(output.node);
    if (graph_.node(output.node).in_rows) {
      if (limits_.whole_arrays) return refuse(output.shape, "expected vectors as results");
      output.access = access_in_rows(output.shape);
      plan_.last_level = std::max(plan_.last_level, output.level);
      plan_.outputs.push_back(std::move(output));
      continue;
    }
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
void ElementwisePlanner::repeat_large_tiles() {
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
std::int64_t ElementwisePlanner::period_of(const ElementwisePlan::Input& input) const {
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

}  // namespace tpu::compiler
