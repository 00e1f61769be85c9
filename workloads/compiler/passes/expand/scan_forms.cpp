#include "workloads/compiler/passes/expand/scan_forms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/ir/scan_form.h"
#include "workloads/compiler/passes/expand/convolution_arrays.h"
#include "workloads/compiler/passes/expand/window_choice.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/refusal_list.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::WindowDimension;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;
using Padding = std::vector<hlo::PaddingDimension>;

/// Elements of a window that are combined one after the other; longer ones double.
constexpr std::int64_t kShortWindow = 8;
constexpr std::int64_t kShortPlaces = 64;  ///< Of a window that rewrite_windows takes.

/// Whether the window reaches from each element to the begin (or end) of its dimension.
bool reaches_begin(const WindowDimension& w, std::int64_t extent) {
  return w.padding_low == w.size - 1 && w.padding_high == extent - w.size;
}
bool reaches_end(const WindowDimension& w, std::int64_t extent) {
  return w.padding_high == w.size - 1 && w.padding_low == extent - w.size;
}

bool is_scan(const WindowDimension& w, std::int64_t extent) {
  return w.stride == 1 && w.window_dilation == 1 && w.base_dilation == 1 && w.size > 1 &&
         w.size >= extent && (reaches_begin(w, extent) || reaches_end(w, extent));
}

class Scans {
 public:
  Scans(hlo::Module& module, const Target& target)
      : module_(module), target_(target), edit_(module) {}

  void run(Refusals& refusals) {
    rewrite_each(module_, refusals, [this](Id id) { visit(id); });
  }

 private:
  using Values = std::vector<Id>;

  const HloInstruction& at(Id id) const { return module_.entry_computation().at(id); }
  void visit(Id id);
  bool has_kernel(const HloInstruction& instruction) const;
  bool has_parts(const HloInstruction& reduction) const;
  bool is_short(const HloInstruction& instruction) const;
  void visit_reduce_window(Id id);
  void visit_select_and_scatter(Id id);
  /// Windows of two halves each, `distance` apart and `step` from window to window, of a dimension
  /// of `extent`; whether the first half has the element.
  struct Halves {
    Id is_first;
    std::int64_t extent, step, distance;
  };
  /// The element that each window of a dimension chooses, and by which halves.
  struct Chosen {
    std::size_t dimension = 0;
    std::vector<Halves> halves;
    Id elements = -1;
  };
  Chosen chosen_along(Id elements, ComparisonDirection keeps, std::size_t dimension,
                      const WindowDimension& w);
  Id shared(Id shares, const Chosen& chosen);
  Values scan(Values values, const Values& initial, hlo::ComputationId body, std::size_t dimension,
              bool forwards);
  Id scan_by_selection(Id value, double initial, HloOpcode opcode, std::size_t dimension,
                       bool forwards);
  /// How a scan is computed.
  struct Cumulation {
    HloOpcode opcode = HloOpcode::kCount;
    hlo::ComputationId body = -1;
    Id initial = -1;  ///< The value that changes nothing.
    bool forwards = true;
  };
  Id scan_one(Id value, const Cumulation& how, std::size_t dimension);
  Id scan_by_kernel(Id value, const Cumulation& how, std::size_t dimension);
  Id scan_rows(Id matrices, const Cumulation& how);
  Id scan_in_columns(Id rows, const Cumulation& how, std::int64_t columns);
  bool has_scan_kernel(Id value, const Cumulation& how, std::size_t dimension) const;
  Values windowed(const Values& values, hlo::ComputationId body, std::size_t dimension,
                  const WindowDimension& window);
  Values combined(hlo::ComputationId body, const Values& a, const Values& b);
  /// `count` elements along a dimension of each value, `step` apart.
  Values taken(const Values& values, std::size_t dimension, std::int64_t start, std::int64_t count,
               std::int64_t step);

  hlo::Module& module_;
  const Target& target_;
  GraphEditor edit_;
};

/// Windows of many neighbours along one dimension: doublings are fewer operations than a kernel
/// with an address for each, which has too few registers for them, and along the last dimension,
/// where there is none, fewer than a shifted array for each.
bool is_long_row(const std::vector<WindowDimension>& window) {
  constexpr std::int64_t kLong = 16;
  std::int64_t longest = 1;
  for (const WindowDimension& w : window) {
    if (is_trivial(w)) continue;
    const bool is_minor = &w == &window.back() && w.stride == 1;
    if (longest > 1 || w.size <= (is_minor ? kShortWindow : kLong)) return false;
    longest = w.size;
  }
  return longest > 1;
}

/// What the pooling kernels take: see kernels/pooling/pooling.h and assign_layouts, which lays the
/// dimensions of the window in front.
bool Scans::has_kernel(const HloInstruction& instruction) const {
  if (instruction.shape.is_tuple() || !is_float(instruction.shape.type)) return false;
  const bool is_reduction = instruction.opcode == HloOpcode::kReduceWindow;
  if (is_reduction) {
    const HloOpcode opcode = combining_operation(module_.computation(instruction.called.at(0)));
    const std::optional<double> initial = scalar_value(at(instruction.operands.at(1)));
    const bool is_sum = opcode == HloOpcode::kAdd && initial == 0.0;
    if (!is_sum && !(opcode == HloOpcode::kMaximum && initial == -HUGE_VAL)) return false;
  } else {
    const hlo::Computation& select = module_.computation(instruction.called.at(0));
    const hlo::Computation& scatter = module_.computation(instruction.called.at(1));
    const HloInstruction& root = select.at(select.root);
    const std::optional<double> initial = scalar_value(at(instruction.operands.at(2)));
    const bool takes_greatest = combining_operation(select) == HloOpcode::kCompare &&
                                root.direction == ComparisonDirection::kGe &&
                                root.operands[0] < root.operands[1];
    if (!takes_greatest || combining_operation(scatter) != HloOpcode::kAdd || initial != 0.0) {
      return false;
    }
  }
  std::size_t spatial = 0;
  for (const WindowDimension& d : instruction.window) {
    if (d.base_dilation != 1 || d.reversal || d.padding_low < 0 || d.padding_high < 0) return false;
    if (!is_reduction && d.window_dilation != 1) return false;
    if (d.size == 1 && !is_trivial(d)) return false;
    spatial += d.size > 1 ? 1 : 0;
  }
  return instruction.window.size() == 4 && spatial > 0 && spatial <= 2;
}

Scans::Values Scans::combined(hlo::ComputationId body, const Values& a, const Values& b) {
  Values arguments = a;
  arguments.insert(arguments.end(), b.begin(), b.end());
  return edit_.apply(body, arguments);
}

Scans::Values Scans::taken(const Values& values, std::size_t dimension, std::int64_t start,
                           std::int64_t count, std::int64_t step) {
  Values made;
  for (const Id value : values) {
    made.push_back(edit_.take(value, static_cast<std::int64_t>(dimension), start, count, step));
  }
  return made;
}

Scans::Values Scans::scan(Values values, const Values& initial, hlo::ComputationId body,
                          std::size_t dimension, bool forwards) {
  const std::int64_t length = edit_.dimensions(values[0])[dimension];
  for (std::int64_t distance = 1; distance < length; distance *= 2) {
    Values shifted;
    for (std::size_t i = 0; i < values.size(); ++i) {
      Padding padding(edit_.dimensions(values[i]).size());
      padding[dimension] = {forwards ? distance : -distance, forwards ? -distance : distance, 0};
      shifted.push_back(edit_.pad(values[i], initial[i], padding));
    }
    values = forwards ? combined(body, shifted, values) : combined(body, values, shifted);
  }
  return values;
}

/// Of each pair of places the first is taken where it stands before (behind) the second.
Id Scans::scan_by_selection(Id value, double initial, HloOpcode opcode, std::size_t dimension,
                            bool forwards) {
  const Extents extents = edit_.dimensions(value);
  const auto along = static_cast<std::int64_t>(dimension);
  Extents pairs = extents, places;
  pairs.insert(pairs.begin() + along, extents[dimension]);
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(extents.size()); ++d) {
    places.push_back(d < along ? d : d + 1);
  }
  const Id all = edit_.broadcast(edit_.convert(value, ElementType::kF32), pairs, places);
  const Id mine = edit_.iota(ElementType::kS32, pairs, along);
  const Id other = edit_.iota(ElementType::kS32, pairs, along + 1);
  const Id counts =
      edit_.compare(other, mine, forwards ? ComparisonDirection::kLe : ComparisonDirection::kGe);
  const Id chosen = edit_.select(counts, all, edit_.splat(ElementType::kF32, pairs, initial));
  const Id result = edit_.reduce(chosen, opcode, {along + 1}, initial);
  return edit_.convert(result, edit_.shape(value).type);
}

/// Columns that a sequence of so many elements has in matrices of 128 lanes.
std::int64_t columns_of_sequence(std::int64_t sequences, std::int64_t length) {
  std::int64_t columns = 1;
  while (2 * columns * sequences <= 128 && 16 * columns <= length) columns *= 2;
  return columns;
}

/// The dimension that lies along the lanes while another one is gone through: the last one, or one
/// that fills its tiles at least twice as well. Of a scan along the last one: none, where none
/// fills whole registers by itself.
std::optional<std::size_t> lanes_of_scan(const Extents& extents, std::size_t dimension) {
  const auto filled = [&](std::size_t d) {
    const auto extent = static_cast<double>(extents[d]);
    return extent / static_cast<double>(round_up(extents[d], std::int64_t{isa::kLanes}));
  };
  std::size_t best = extents.size() - 1;
  if (best == dimension) {
    for (std::size_t d = 0; d < dimension; ++d) {
      if (best == dimension || filled(d) >= filled(best)) best = d;
    }
    const bool fills = best != dimension && extents[best] >= isa::kLanes;
    return fills && extents.size() > 2 ? std::optional(best) : std::nullopt;
  }
  for (std::size_t d = 0; d + 1 < extents.size(); ++d) {
    if (d != dimension && filled(d) >= 2 * filled(extents.size() - 1) && filled(d) > filled(best)) {
      best = d;
    }
  }
  return best;
}

bool Scans::has_scan_kernel(Id value, const Cumulation& how, std::size_t dimension) const {
  const hlo::Shape shape = edit_.shape(value);
  const bool is_integer = shape.type == ElementType::kS32;
  const auto identity = scan_identity(how.opcode, is_integer);
  if (!identity || !(is_integer || is_float(shape.type))) return false;
  if (scalar_value(at(how.initial)) != identity) return false;
  const std::int64_t length = shape.dimensions[dimension];
  if (lanes_of_scan(shape.dimensions, dimension)) return scan_fits(length, target_);
  const std::int64_t sequences = shape.element_count() / std::max<std::int64_t>(1, length);
  return scan_fits(length / columns_of_sequence(sequences, length) + 1, target_);
}

/// A vector register of pairs takes about 4 cycles; a step three kernels; the kernel two passes,
/// and copies to and from rows.
Id Scans::scan_one(Id value, const Cumulation& how, std::size_t dimension) {
  const hlo::Shape shape = edit_.shape(value);
  const std::optional<double> start = scalar_value(at(how.initial));
  const bool can_select = is_float(shape.type) && start &&
                          (how.opcode == HloOpcode::kAdd || how.opcode == HloOpcode::kMaximum ||
                           how.opcode == HloOpcode::kMinimum);
  const auto elements = static_cast<double>(shape.element_count());
  const auto length = static_cast<double>(shape.dimensions[dimension]);
  const double by_selection = 3000 + 4 * elements * length / 1024;
  const double by_steps = std::ceil(std::log2(length + 1)) * 3 * (1500 + elements / 100);
  const bool is_minor = !lanes_of_scan(shape.dimensions, dimension);
  const double by_kernel = (is_minor ? 9000 : 3000) + elements / (is_minor ? 20 : 50);
  if (has_scan_kernel(value, how, dimension) &&
      by_kernel < (can_select ? std::min(by_selection, by_steps) : by_steps)) {
    return scan_by_kernel(value, how, dimension);
  }
  if (can_select && by_selection < by_steps) {
    return scan_by_selection(value, *start, how.opcode, dimension, how.forwards);
  }
  return scan({value}, {how.initial}, how.body, dimension, how.forwards).at(0);
}

/// [outer, rows, lanes] along the rows.
Id Scans::scan_rows(Id matrices, const Cumulation& how) {
  const hlo::Shape shape = edit_.shape(matrices);
  HloInstruction window =
      edit_.start(HloOpcode::kReduceWindow,
                  {matrices, edit_.scalar(shape.type, *scalar_value(at(how.initial)))}, shape);
  window.window.resize(3);
  window.window[1].size = shape.dimensions[1];
  (how.forwards ? window.window[1].padding_low : window.window[1].padding_high) =
      shape.dimensions[1] - 1;
  window.called = {edit_.scalar_computation(how.opcode, shape.type)};
  return edit_.append_instruction(std::move(window));
}

/// Rows [sequences, length], of which each stands in so many columns.
Id Scans::scan_in_columns(Id rows, const Cumulation& how, std::int64_t columns) {
  const std::int64_t sequences = edit_.dimensions(rows)[0], length = edit_.dimensions(rows)[1];
  const std::int64_t part = ceil_divide(length, columns);
  const Id initial = edit_.scalar(edit_.shape(rows).type, *scalar_value(at(how.initial)));
  rows = edit_.pad(rows, initial, {{0, 0, 0}, {0, part * columns - length, 0}});
  const std::int64_t lanes = sequences * columns;
  Id matrix = edit_.transpose(edit_.reshape(rows, {lanes, part}), {1, 0});
  matrix = scan_rows(edit_.reshape(matrix, {1, part, lanes}), how);
  if (columns > 1) {
    const std::int64_t end = how.forwards ? part - 1 : 0;
    const Id totals =
        edit_.reshape(edit_.slice(matrix, {0, end, 0}, {1, end + 1, lanes}), {sequences, columns});
    Cumulation all = how;
    all.body = edit_.scalar_computation(how.opcode, edit_.shape(rows).type);
    all.initial = initial;
    // Those before each column, its own not among them.
    const Id earlier =
        edit_.pad(totals, initial, {{0, 0, 0}, {how.forwards ? 1 : -1, how.forwards ? -1 : 1, 0}});
    const Id before = scan({earlier}, {initial}, all.body, 1, how.forwards).at(0);
    const Id spread =
        edit_.broadcast(edit_.reshape(before, {lanes}), edit_.dimensions(matrix), {2});
    matrix = edit_.binary(how.opcode, spread, matrix);
  }
  const Id back = edit_.transpose(edit_.reshape(matrix, {part, lanes}), {1, 0});
  return edit_.slice(edit_.reshape(back, {sequences, part * columns}), {0, 0}, {sequences, length});
}

Id Scans::scan_by_kernel(Id value, const Cumulation& how, std::size_t dimension) {
  const ElementType type = edit_.shape(value).type;
  if (is_float(type)) value = edit_.convert(value, ElementType::kF32);
  const Extents extents = edit_.dimensions(value);
  const std::int64_t length = extents[dimension];
  const std::optional<std::size_t> lanes = lanes_of_scan(extents, dimension);
  if (!lanes) {
    const std::int64_t sequences = edit_.shape(value).element_count() / length;
    const std::int64_t columns = columns_of_sequence(sequences, length);
    const Id rows = edit_.reshape(value, {sequences, length});
    return edit_.convert(edit_.reshape(scan_in_columns(rows, how, columns), extents), type);
  }
  Extents permutation;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (d != dimension && d != *lanes) permutation.push_back(static_cast<std::int64_t>(d));
  }
  permutation.push_back(static_cast<std::int64_t>(dimension));
  permutation.push_back(static_cast<std::int64_t>(*lanes));
  const std::int64_t outer = edit_.shape(value).element_count() / (length * extents[*lanes]);
  value = edit_.reshape(edit_.transpose(value, permutation), {outer, length, extents[*lanes]});
  const Id result = edit_.reshape(scan_rows(value, how), extents_at(extents, permutation));
  return edit_.convert(edit_.transpose(result, inverse(permutation)), type);
}

/// The windows of one dimension of arrays that have their padding.
Scans::Values Scans::windowed(const Values& values, hlo::ComputationId body, std::size_t dimension,
                              const WindowDimension& window) {
  const std::int64_t extent = edit_.dimensions(values[0])[dimension];
  const std::int64_t reach = (window.size - 1) * window.window_dilation;
  const std::int64_t count = (extent - reach - 1) / window.stride + 1;
  if (window.size <= kShortWindow || window.stride * 2 > window.size) {
    Values sum = taken(values, dimension, 0, count, window.stride);
    for (std::int64_t k = 1; k < window.size; ++k) {
      sum = combined(body, sum,
                     taken(values, dimension, k * window.window_dilation, count, window.stride));
    }
    return sum;
  }
  // `power[i]`: the window of 2^k elements that begins at i; `sum[i]`: that of `covered`.
  Values power = values, sum;
  std::int64_t covered = 0;
  for (std::int64_t width = 1; width <= window.size; width *= 2) {
    if ((window.size & width) != 0) {
      const std::int64_t begin = covered * window.window_dilation;
      const std::int64_t length = edit_.dimensions(power[0])[dimension] - begin;
      const Values next = taken(power, dimension, begin, length, 1);
      const std::int64_t both =
          sum.empty() ? length : std::min(length, edit_.dimensions(sum[0])[dimension]);
      sum = sum.empty() ? next
                        : combined(body, taken(sum, dimension, 0, both, 1),
                                   taken(next, dimension, 0, both, 1));
      covered += width;
    }
    const std::int64_t left =
        edit_.dimensions(power[0])[dimension] - width * window.window_dilation;
    if (width * 2 > window.size) break;
    power = combined(body, taken(power, dimension, 0, left, 1),
                     taken(power, dimension, width * window.window_dilation, left, 1));
  }
  return taken(sum, dimension, 0, count, window.stride);
}

void Scans::visit_reduce_window(Id id) {
  const HloInstruction window = at(id);
  const std::size_t count = window.operands.size() / 2;
  const hlo::ComputationId body = window.called.at(0);
  Values values(window.operands.begin(),
                window.operands.begin() + static_cast<std::ptrdiff_t>(count));
  const Values initial(window.operands.begin() + static_cast<std::ptrdiff_t>(count),
                       window.operands.end());
  for (const Id start : initial) {
    if (at(start).opcode != HloOpcode::kConstant) refuse("expected constants as initial values");
  }
  edit_.stand_for(id);
  const Extents extents = edit_.dimensions(values[0]);
  for (std::size_t k = 0; k < window.window.size(); ++k) {
    // Of equal pairs the first stays: rows by rows, so along the rows before from row to row.
    const std::size_t d = count == 1 ? k : window.window.size() - 1 - k;
    const WindowDimension& w = window.window[d];
    if (w.reversal) refuse("expected no reversal of a window");
    if (is_trivial(w)) continue;
    const bool is_plain =
        w.stride == 1 && w.window_dilation == 1 && w.base_dilation == 1 && w.size >= extents[d];
    const bool forwards = w.padding_low == w.size - 1 && w.padding_high == extents[d] - w.size;
    const bool backwards = w.padding_high == w.size - 1 && w.padding_low == extents[d] - w.size;
    if (is_plain && (forwards || backwards)) {
      if (count == 1) {
        const HloOpcode opcode = combining_operation(module_.computation(body));
        values = {scan_one(values[0], {opcode, body, initial[0], forwards}, d)};
      } else {
        values = scan(values, initial, body, d, forwards);
      }
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      Padding padding(extents.size());
      padding[d] = {w.padding_low, w.padding_high, w.base_dilation - 1};
      values[i] = edit_.pad(values[i], initial[i], padding);
    }
    values = windowed(values, body, d, w);
  }
  if (window.shape.is_tuple()) return edit_.finish_tuple(values);
  edit_.finish(values[0]);
}

void Scans::visit_select_and_scatter(Id id) {
  const HloInstruction scatter = at(id);
  const hlo::Computation& select = module_.computation(scatter.called.at(0));
  const HloInstruction& root = select.at(select.root);
  const ElementType type = scatter.shape.type;
  if (combining_operation(select) != HloOpcode::kCompare || root.operands[0] >= root.operands[1] ||
      combining_operation(module_.computation(scatter.called.at(1))) != HloOpcode::kAdd) {
    refuse("expected a selection by ge, gt, le or lt and addition");
  }
  const bool is_integer = type == ElementType::kS32;
  if (!is_float(type) && !is_integer) refuse("expected floating values or s32");
  const bool takes_greatest =
      root.direction == ComparisonDirection::kGe || root.direction == ComparisonDirection::kGt;
  const bool takes_least =
      root.direction == ComparisonDirection::kLe || root.direction == ComparisonDirection::kLt;
  if (!takes_greatest && !takes_least) refuse("expected a selection by ge, gt, le or lt");
  edit_.stand_for(id);
  const Extents extents = edit_.dimensions(scatter.operands[0]);
  const double end = is_integer ? (takes_greatest ? -2147483648.0 : 2147483647.0)
                                : (takes_greatest ? -HUGE_VAL : HUGE_VAL);
  Padding padding(extents.size()), cut(extents.size());
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const WindowDimension& w = scatter.window[d];
    if (w.base_dilation != 1 || w.reversal) refuse("expected no base dilation or reversal");
    padding[d] = {w.padding_low, w.padding_high, 0};
    cut[d] = {-w.padding_low, -w.padding_high, 0};
  }
  // Along the last dimension each row of a window has its element; among these the others choose.
  std::vector<Chosen> steps;
  Id elements = edit_.pad(scatter.operands[0], edit_.scalar(type, end), padding);
  for (std::size_t d = extents.size(); d-- > 0;) {
    if (is_trivial(scatter.window[d])) continue;
    steps.push_back(chosen_along(elements, root.direction, d, scatter.window[d]));
    elements = steps.back().elements;
  }
  Id shares = edit_.convert(scatter.operands[1], is_integer ? type : ElementType::kF32);
  for (std::size_t i = steps.size(); i-- > 0;) shares = shared(shares, steps[i]);
  const Id initial = edit_.broadcast(scatter.operands[2], extents, {});
  const Id sum = edit_.convert(edit_.pad(shares, cut), type);
  edit_.finish(edit_.binary(HloOpcode::kAdd, sum, initial));
}

/// Windows of one dimension, by doublings: each half, the one half or the other.
Scans::Chosen Scans::chosen_along(Id elements, ComparisonDirection keeps, std::size_t dimension,
                                  const WindowDimension& w) {
  const auto d = static_cast<std::int64_t>(dimension);
  Chosen chosen;
  chosen.dimension = dimension;
  const auto halve = [&](std::int64_t count, std::int64_t step, std::int64_t distance) {
    const Id first = edit_.take(elements, d, 0, count, step);
    const Id second = edit_.take(elements, d, distance, count, step);
    const Id is_first = edit_.compare(first, second, keeps);
    chosen.halves.push_back({is_first, edit_.dimensions(elements)[dimension], step, distance});
    elements = edit_.select(is_first, first, second);
  };
  std::int64_t width = 1;
  for (; width * 2 < w.size; width *= 2) {
    const std::int64_t distance = width * w.window_dilation;
    halve(edit_.dimensions(elements)[dimension] - distance, 1, distance);
  }
  // Halves that overlap have the same element in what they share.
  const std::int64_t distance = (w.size - width) * w.window_dilation;
  const std::int64_t left = edit_.dimensions(elements)[dimension] - distance;
  halve((left - 1) / w.stride + 1, w.stride, distance);
  chosen.elements = elements;
  return chosen;
}

/// What each window has goes to the element that it chose.
Id Scans::shared(Id shares, const Chosen& chosen) {
  for (std::size_t i = chosen.halves.size(); i-- > 0;) {
    const Halves& halves = chosen.halves[i];
    const Extents extents = edit_.dimensions(shares);
    const Id nothing = edit_.splat(edit_.shape(shares).type, extents, 0);
    const std::int64_t reach = (extents[chosen.dimension] - 1) * halves.step + 1;
    const auto placed = [&](Id part, std::int64_t begin) {
      Padding padding(extents.size());
      padding[chosen.dimension] = {begin, halves.extent - begin - reach, halves.step - 1};
      return edit_.pad(part, padding);
    };
    const Id first = placed(edit_.select(halves.is_first, shares, nothing), 0);
    const Id second = placed(edit_.select(halves.is_first, nothing, shares), halves.distance);
    shares = edit_.binary(HloOpcode::kAdd, first, second);
  }
  return shares;
}

/// Along the only dimension of a window.
bool Scans::has_parts(const HloInstruction& reduction) const {
  const HloOpcode operation = combining_operation(module_.computation(reduction.called.at(0)));
  bool has = false;
  for (std::size_t d = 0; d < reduction.window.size(); ++d) {
    if (is_trivial(reduction.window[d])) continue;
    if (has || !are_parts(reduction, d, operation)) return false;
    has = true;
  }
  return has;
}

/// What rewrite_windows writes in other terms: a few places or parts side by side, one floating
/// array, one operation.
bool Scans::is_short(const HloInstruction& instruction) const {
  const bool is_reduction = instruction.opcode == HloOpcode::kReduceWindow;
  if (instruction.shape.is_tuple() || !is_float(instruction.shape.type)) return false;
  std::int64_t places = 1;
  for (const WindowDimension& w : instruction.window) places *= w.size;
  const hlo::Computation& body = module_.computation(instruction.called.at(0));
  const bool has_few = places <= kShortPlaces || (is_reduction && has_parts(instruction));
  if (!has_few || combining_operation(body) == HloOpcode::kCount) return false;
  if (is_reduction) {
    const Extents extents = edit_.dimensions(instruction.operands[0]);
    for (std::size_t d = 0; d < extents.size(); ++d) {
      if (is_scan(instruction.window[d], extents[d])) return false;
    }
    return scalar_value(at(instruction.operands.at(1))).has_value();
  }
  const ComparisonDirection direction = body.at(body.root).direction;
  return direction == ComparisonDirection::kGe || direction == ComparisonDirection::kGt;
}

void Scans::visit(Id id) {
  const HloOpcode opcode = at(id).opcode;
  if (opcode != HloOpcode::kReduceWindow && opcode != HloOpcode::kSelectAndScatter) return;
  const bool is_reduction = opcode == HloOpcode::kReduceWindow;
  const bool is_row = is_reduction && is_long_row(at(id).window) && !has_parts(at(id));
  if (!is_row && (is_short(at(id)) || has_kernel(at(id)))) return;
  if (is_reduction) return visit_reduce_window(id);
  visit_select_and_scatter(id);
}

}  // namespace

void rewrite_scans(hlo::Module& module, Refusals& refusals, const Target& target) {
  Scans(module, target).run(refusals);
}

}  // namespace tpu::compiler
