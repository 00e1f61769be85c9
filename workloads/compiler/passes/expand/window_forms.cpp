#include "workloads/compiler/passes/expand/window_forms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/ir/scan_form.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/window_choice.h"
#include "workloads/compiler/passes/expand/window_phases.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"
#include "workloads/compiler/passes/simplify/window_padding.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::WindowDimension;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMostPositions = 64;
constexpr std::size_t kMostCounts = 1 << 16;    ///< In a constant.
constexpr std::int64_t kMostCounted = 1 << 24;  ///< Elements of all windows along a dimension.

/// Positions of a window: the most along a dimension, parts apart, and all.
std::pair<std::int64_t, std::int64_t> positions_of(const HloInstruction& pooling,
                                                   HloOpcode operation) {
  std::int64_t most = 1, all = 1;
  for (std::size_t d = 0; d < pooling.window.size(); ++d) {
    const std::int64_t size = pooling.window[d].size;
    if (!are_parts(pooling, d, operation)) most = std::max(most, size);
    all *= size;
  }
  return {most, all};
}

/// The one position of such a window has all elements of the dimension, each once.
bool covers_all(const WindowDimension& w, std::int64_t elements, std::int64_t positions) {
  return positions == 1 && w.base_dilation == 1 && w.window_dilation == 1 && w.padding_low >= 0 &&
         w.size > 1 && w.size - w.padding_low >= elements;
}

/// Each position of such a window has the dimension's only element, and nothing else.
bool repeats_one(const WindowDimension& w, std::int64_t elements, std::int64_t positions) {
  return elements == 1 && w.window_dilation == 1 && w.size > 1 && w.padding_low < w.size &&
         w.padding_low >= (positions - 1) * w.stride;
}

/// How many elements of a dimension each window has.
std::vector<std::int64_t> elements_in_windows(const WindowDimension& w, std::int64_t elements,
                                              std::int64_t positions) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(positions));
  for (std::int64_t at = 0; at < positions; ++at) {
    for (std::int64_t k = 0; k < w.size; ++k) {
      const std::int64_t place = at * w.stride + k * w.window_dilation - w.padding_low;
      if (place < 0 || place % w.base_dilation != 0 || place / w.base_dilation >= elements) {
        continue;
      }
      ++counts[static_cast<std::size_t>(at)];
    }
  }
  return counts;
}

bool is_neutral(HloOpcode operation, double value) {
  switch (operation) {
    case HloOpcode::kAdd:
      return value == 0;
    case HloOpcode::kMultiply:
      return value == 1;
    case HloOpcode::kMaximum:
      return value == -kInfinity;
    case HloOpcode::kMinimum:
      return value == kInfinity;
    default:
      return false;
  }
}

class WindowForms {
 public:
  WindowForms(hlo::Module& module, const Target& target)
      : module_(module), edit_(module), choice_(module, target) {}

  void run() {
    const std::size_t count = entry().instructions.size();
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<Id>(i));
    if (took_padding_ || entry().instructions.size() > count) tidy(module_.entry_computation());
  }

 private:
  const hlo::Computation& entry() const { return module_.entry_computation(); }
  void visit(Id id);
  bool steps_through_lanes(const HloInstruction& pooling) const;
  bool visit_without_ones(HloInstruction pooling);
  bool visit_before_transpose(HloInstruction pooling);
  void visit_turned(HloInstruction pooling);
  /// An operation with a kernel, but for the window.
  static bool has_kernel(HloOpcode operation, double initial) {
    return (operation == HloOpcode::kMaximum || operation == HloOpcode::kAdd) &&
           is_neutral(operation, initial);
  }

  void take_padding(HloInstruction& pooling, double initial);
  void fill_gaps(HloInstruction& pooling, double initial);
  bool visit_whole(HloInstruction pooling, HloOpcode operation, double initial);
  bool visit_repetition(const HloInstruction& pooling);
  bool visit_counts(const HloInstruction& pooling);
  Id reduce(HloInstruction pooling, HloOpcode operation, double initial);
  void reduce_in_steps(const HloInstruction& pooling, HloOpcode operation, double initial);
  Id reduce_parts(Id value, std::size_t dimension, const WindowDimension& w, std::int64_t results,
                  HloOpcode operation, double initial);
  Id combine_shifted(Id value, std::size_t dimension, const WindowDimension& window,
                     std::int64_t results, HloOpcode operation, double initial, bool in_phases);
  Id scatter(const HloInstruction& pooling, bool first_of_equal);
  void scatter_in_steps(const HloInstruction& pooling);
  Id with_dense_pixels(Id value, const HloInstruction& pooling,
                       const WindowChoice::DensePixels& dense);
  Id over_dense_pixels(HloInstruction pooling, const WindowChoice::DensePixels& dense);
  Id in_four_dimensions(HloInstruction pooling);

  hlo::Module& module_;
  GraphEditor edit_;
  WindowChoice choice_;
  bool took_padding_ = false;  ///< A pad may have no reader.
};

/// The array with the windows' dimensions in front of pixels of rows of lanes.
Id WindowForms::with_dense_pixels(Id value, const HloInstruction& pooling,
                                  const WindowChoice::DensePixels& dense) {
  const Extents dimensions = dimensions_of(pooling.window);
  const Extents extents = edit_.dimensions(value);
  const std::int64_t columns = extents[static_cast<std::size_t>(dimensions.back())];
  const std::int64_t rows =
      dimensions.size() > 1 ? extents[static_cast<std::size_t>(dimensions[0])] : 1;
  value = edit_.reshape(value,
                        {dense.images, rows, columns, dense.features / isa::kLanes, isa::kLanes});
  return edit_.reshape(edit_.transpose(value, {1, 2, 0, 3, 4}),
                       {rows, columns, dense.images * dense.features / isa::kLanes, isa::kLanes});
}

/// The instruction over pixels of rows of lanes.
Id WindowForms::over_dense_pixels(HloInstruction pooling, const WindowChoice::DensePixels& dense) {
  const hlo::Shape shape = pooling.shape;
  const Extents dimensions = dimensions_of(pooling.window);
  for (std::size_t i = 0; i + 1 < pooling.operands.size(); ++i) {
    pooling.operands[i] = with_dense_pixels(pooling.operands[i], pooling, dense);
  }
  std::vector<WindowDimension> window(kPoolingRank);
  std::int64_t rows = 1;
  const auto last = static_cast<std::size_t>(dimensions.back());
  if (dimensions.size() > 1) {
    window[0] = pooling.window[static_cast<std::size_t>(dimensions[0])];
    rows = shape.dimensions[static_cast<std::size_t>(dimensions[0])];
  }
  window[1] = pooling.window[last];
  pooling.window = window;
  pooling.name += ".dense";
  const std::int64_t columns = shape.dimensions[last];
  pooling.shape = hlo::array_shape(
      shape.type, {rows, columns, dense.images * dense.features / isa::kLanes, isa::kLanes});
  const Id windows = edit_.append_instruction(std::move(pooling));
  const Id parts = edit_.reshape(
      windows, {rows, columns, dense.images, dense.features / isa::kLanes, isa::kLanes});
  return edit_.reshape(edit_.transpose(parts, {2, 0, 1, 3, 4}), shape.dimensions);
}

/// The instruction over an array of merged dimensions.
Id WindowForms::in_four_dimensions(HloInstruction pooling) {
  if (const auto dense = choice_.dense_pixels(pooling); dense)
    return over_dense_pixels(pooling, *dense);
  const hlo::Shape shape = pooling.shape;
  const FourDimensions four =
      *four_dimensions(pooling.window, edit_.dimensions(pooling.operands[0]));
  pooling.window = four.window;
  pooling.name += ".four";
  for (std::size_t i = 0; i + 1 < pooling.operands.size(); ++i) {
    pooling.operands[i] =
        edit_.reshape(pooling.operands[i], four.merged(edit_.dimensions(pooling.operands[i])));
  }
  pooling.shape = hlo::array_shape(shape.type, four.merged(shape.dimensions));
  return edit_.reshape(edit_.append_instruction(std::move(pooling)), shape.dimensions);
}

/// Windows side by side along a dimension: what each has is reduced.
Id WindowForms::reduce_parts(Id value, std::size_t dimension, const WindowDimension& w,
                             std::int64_t results, HloOpcode operation, double initial) {
  const auto d = static_cast<std::int64_t>(dimension);
  value = edit_.take(value, d, -w.padding_low, results * w.size, 1, initial);
  Extents extents = edit_.dimensions(value);
  extents[dimension] = results;
  extents.insert(extents.begin() + d + 1, w.size);
  return edit_.reduce(edit_.reshape(value, extents), operation, {d + 1}, initial);
}

/// All positions of a window over one dimension.
Id WindowForms::combine_shifted(Id value, std::size_t dimension, const WindowDimension& w,
                                std::int64_t results, HloOpcode operation, double initial,
                                bool in_phases) {
  const auto d = static_cast<std::int64_t>(dimension);
  if (w.base_dilation > 1) {
    std::vector<hlo::PaddingDimension> padding(edit_.dimensions(value).size());
    padding[dimension].interior = w.base_dilation - 1;
    value = edit_.pad(value, padding, initial);
  }
  Id all = -1;
  const auto combine = [&](Id part) { all = all < 0 ? part : edit_.binary(operation, all, part); };
  if (!in_phases) {
    for (std::int64_t k = 0; k < w.size; ++k) {
      combine(
          edit_.take(value, d, k * w.window_dilation - w.padding_low, results, w.stride, initial));
    }
    return all;
  }
  const Extents image = edit_.dimensions(value);
  Extents windows = image, at(image.size());
  windows[dimension] = results;
  std::vector<WindowDimension> window(image.size());
  window[dimension] = w;
  WindowPhases phases(edit_, std::move(window), image, windows);
  value = phases.split(value, initial);
  for (; at[dimension] < w.size; ++at[dimension]) {
    combine(phases.position(value, at, initial));
  }
  return all;
}

/// One dimension after the other, until a kernel takes the rest.
Id WindowForms::reduce(HloInstruction pooling, HloOpcode operation, double initial) {
  const ElementType type = pooling.shape.type;
  const Extents results = pooling.shape.dimensions;
  const bool is_shifted = choice_.is_faster_shifted(pooling, operation);
  const bool has_shared_phases = choice_.shares_phases(pooling);
  const bool in_phases = has_shared_phases || choice_.steps_through_dense_lanes(pooling);
  // Sums of bf16 are rounded once.
  const bool widens = type == ElementType::kBf16 && operation == HloOpcode::kAdd;
  for (std::size_t d = 0; d < pooling.window.size(); ++d) {
    const auto four = four_dimensions(pooling.window, edit_.dimensions(pooling.operands[0]));
    const bool as_it_is = choice_.has_kernel_window(pooling.window);
    const bool merges =
        four && results.size() != kPoolingRank && choice_.has_kernel_window(four->window);
    if (has_kernel(operation, initial) && (as_it_is || merges) && !is_shifted) {
      pooling.shape = hlo::array_shape(edit_.shape(pooling.operands[0]).type, results);
      if (as_it_is) pooling.name += ".rest";
      return edit_.convert(as_it_is ? edit_.append_instruction(std::move(pooling))
                                    : in_four_dimensions(std::move(pooling)),
                           type);
    }
    if (is_trivial(pooling.window[d])) continue;
    if (widens) pooling.operands[0] = edit_.convert(pooling.operands[0], ElementType::kF32);
    const bool is_reduced = !has_shared_phases && are_parts(pooling, d, operation);
    pooling.operands[0] = is_reduced ? reduce_parts(pooling.operands[0], d, pooling.window[d],
                                                    results[d], operation, initial)
                                     : combine_shifted(pooling.operands[0], d, pooling.window[d],
                                                       results[d], operation, initial, in_phases);
    pooling.window[d] = {};
  }
  Id value = pooling.operands[0];
  if (!is_neutral(operation, initial)) {
    const hlo::Shape shape = edit_.shape(value);
    value = edit_.binary(operation, edit_.splat(shape.type, shape.dimensions, initial), value);
  }
  return edit_.convert(value, type);
}

/// Each position of the window by itself: its elements that are the greatest, and the first (or
/// last) such, get the window's value.
Id WindowForms::scatter(const HloInstruction& pooling, bool first_of_equal) {
  const Extents windows = edit_.dimensions(pooling.operands[1]);
  const ElementType type = pooling.shape.type;
  std::vector<Extents> positions{{}};
  for (const WindowDimension& w : pooling.window) {
    std::vector<Extents> longer;
    for (const Extents& position : positions) {
      for (std::int64_t k = 0; k < w.size; ++k) {
        longer.push_back(position);
        longer.back().push_back(k);
      }
    }
    positions = std::move(longer);
  }
  if (!first_of_equal) std::reverse(positions.begin(), positions.end());
  WindowPhases phases(edit_, pooling.window, pooling.shape.dimensions, windows);
  const Id image = phases.split(pooling.operands[0], -kInfinity);
  std::vector<Id> elements;
  Id greatest = -1;
  for (const Extents& at : positions) {
    elements.push_back(phases.position(image, at, -kInfinity));
    greatest = greatest < 0 ? elements.back()
                            : edit_.binary(HloOpcode::kMaximum, greatest, elements.back());
  }
  Id left = edit_.convert(pooling.operands[1], ElementType::kF32);
  const Id zero = edit_.splat(ElementType::kF32, windows, 0);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const Id hit = edit_.compare(elements[i], greatest, hlo::ComparisonDirection::kEq);
    phases.add(edit_.select(hit, left, zero), positions[i]);
    left = edit_.select(hit, zero, left);
  }
  return edit_.convert(phases.sums(ElementType::kF32), type);
}

/// Along the last dimension of the window each row has its greatest element; among these the others
/// choose, and each row's share goes to its element. The first of equal ones in the order of the
/// window is the first in the first such row, the last one likewise.
void WindowForms::scatter_in_steps(const HloInstruction& pooling) {
  const auto last = static_cast<std::size_t>(dimensions_of(pooling.window).back());
  HloInstruction among = pooling, within = pooling;
  among.name += ".among_rows";
  within.name += ".within_rows";
  among.window[last] = {};
  for (std::size_t d = 0; d < last; ++d) within.window[d] = {};
  among.shape.dimensions[last] = edit_.dimensions(pooling.operands[1])[last];
  HloInstruction greatest = edit_.start(
      HloOpcode::kReduceWindow, {pooling.operands[0], edit_.scalar(pooling.shape.type, -kInfinity)},
      hlo::array_shape(pooling.shape.type, among.shape.dimensions));
  greatest.window = within.window;
  greatest.called = {edit_.scalar_computation(HloOpcode::kMaximum, pooling.shape.type)};
  among.operands[0] = edit_.append_instruction(std::move(greatest));
  const Id rows = among.operands[0];
  const Id shares = within.operands[1] = edit_.append_instruction(std::move(among));
  const Id elements = edit_.append_instruction(std::move(within));
  edit_.finish(elements);
  for (const Id step : {rows, shares, elements}) visit(step);
}

/// Along the last dimension of the window, as its gradient does, then along the others; sums in f32
/// between.
void WindowForms::reduce_in_steps(const HloInstruction& pooling, HloOpcode operation,
                                  double initial) {
  const auto last = static_cast<std::size_t>(dimensions_of(pooling.window).back());
  const ElementType type = operation == HloOpcode::kAdd ? ElementType::kF32 : pooling.shape.type;
  Id value = edit_.convert(pooling.operands[0], type);
  HloInstruction step = edit_.start(pooling.opcode, {},
                                    hlo::array_shape(type, edit_.dimensions(pooling.operands[0])));
  step.called = {edit_.scalar_computation(operation, type)};
  step.window.resize(pooling.window.size());
  std::vector<Id> steps;
  for (const bool is_first : {true, false}) {
    for (std::size_t d = 0; d < pooling.window.size(); ++d) {
      const bool is_own = (d == last) == is_first;
      step.window[d] = is_own ? pooling.window[d] : WindowDimension{};
      if (is_own) step.shape.dimensions[d] = pooling.shape.dimensions[d];
    }
    step.name = pooling.name + (is_first ? ".along_rows" : ".among_rows");
    step.operands = {value, edit_.scalar(type, initial)};
    value = edit_.append_instruction(step);
    steps.push_back(value);
  }
  edit_.finish(edit_.convert(value, pooling.shape.type));
  for (const Id each : steps) visit(each);
}

/// Whether windows of the last dimension take every second element or fewer, or have a gradient,
/// and the dimension beside it fills the lanes.
bool WindowForms::steps_through_lanes(const HloInstruction& pooling) const {
  constexpr std::int64_t kFewLanes = 32;
  const Extents dimensions = dimensions_of(pooling.window);
  const auto rank = static_cast<std::int64_t>(pooling.window.size());
  if (rank < 3 || dimensions != Extents{rank - 1}) return false;
  if (pooling.shape.dimensions[static_cast<std::size_t>(rank - 2)] < kFewLanes) return false;
  const WindowDimension& w = pooling.window.back();
  return pooling.opcode == HloOpcode::kSelectAndScatter || w.stride > 1 || w.base_dilation > 1;
}

/// The same over the dimension next to the last one.
void WindowForms::visit_turned(HloInstruction pooling) {
  const std::size_t rank = pooling.window.size();
  Extents permutation(rank);
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[rank - 2], permutation[rank - 1]);
  for (std::size_t i = 0; i + 1 < pooling.operands.size(); ++i) {
    pooling.operands[i] = edit_.transpose(pooling.operands[i], permutation);
  }
  std::swap(pooling.window[rank - 2], pooling.window[rank - 1]);
  std::swap(pooling.shape.dimensions[rank - 2], pooling.shape.dimensions[rank - 1]);
  pooling.name += ".turned";
  const Id turned = edit_.append_instruction(std::move(pooling));
  edit_.finish(edit_.transpose(turned, permutation));
  visit(turned);
}

/// Without dimensions of one element, where there are more than a kernel has; false: there are
/// none.
bool WindowForms::visit_without_ones(HloInstruction pooling) {
  const Extents results = pooling.shape.dimensions;
  const Extents extents = edit_.dimensions(pooling.operands[0]);
  Extents ones;
  for (std::size_t d = results.size(); d-- > 0 && results.size() - ones.size() > kPoolingRank;) {
    if (results[d] == 1 && extents[d] == 1 && is_trivial(pooling.window[d])) {
      ones.push_back(static_cast<std::int64_t>(d));
    }
  }
  if (ones.empty()) return false;
  const auto without = [&ones](auto list) {
    for (const std::int64_t d : ones) list.erase(list.begin() + d);
    return list;
  };
  for (std::size_t i = 0; i + 1 < pooling.operands.size(); ++i) {
    const Id operand = pooling.operands[i];
    pooling.operands[i] = edit_.reshape(operand, without(edit_.dimensions(operand)));
  }
  pooling.window = without(pooling.window);
  pooling.shape.dimensions = without(results);
  pooling.shape.layout = {};
  pooling.name += ".images";
  const Id windows = edit_.append_instruction(std::move(pooling));
  edit_.finish(edit_.reshape(windows, results));
  visit(windows);
  return true;
}

/// Windows of a transposed image in the image itself, whose dimensions then are those of the
/// convolutions, as in Equinox, which pools images of (channels, height, width) as others do.
bool WindowForms::visit_before_transpose(HloInstruction pooling) {
  const Extents extents = edit_.dimensions(pooling.operands[0]);
  Id image = pooling.operands[0];
  // Dimensions of one element that came and went.
  while (entry().at(image).opcode == HloOpcode::kReshape) image = entry().at(image).operands[0];
  const HloInstruction transpose = entry().at(image);
  if (!choice_.has_convolutions() || transpose.opcode != HloOpcode::kTranspose ||
      transpose.shape.dimensions != extents) {
    return false;
  }
  const Extents results = pooling.shape.dimensions;
  HloInstruction moved = pooling;
  Extents back(extents.size());
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const auto from = static_cast<std::size_t>(transpose.dimensions[d]);
    moved.window[from] = pooling.window[d];
    moved.shape.dimensions[from] = results[d];
    back[from] = static_cast<std::int64_t>(d);
  }
  if (!choice_.has_kernel_window(moved.window)) return false;
  const bool is_scatter = moved.operands.size() > 2;
  if (is_scatter && !has_rows_first(pooling.window, back)) return false;
  moved.operands[0] = transpose.operands[0];
  if (is_scatter) moved.operands[1] = edit_.transpose(moved.operands[1], back);
  moved.shape.layout = {};
  moved.name += ".image";
  const Id windows = edit_.append_instruction(std::move(moved));
  edit_.finish(edit_.transpose(windows, transpose.dimensions));
  visit(windows);
  return true;
}

/// Reads what a pad reads whose elements are the neutral ones.
void WindowForms::take_padding(HloInstruction& pooling, double initial) {
  const HloInstruction& pad = entry().at(pooling.operands[0]);
  if (pad.opcode != HloOpcode::kPad || !edit_.is_splat(pad.operands[1], initial)) return;
  const Extents& extents = entry().at(pad.operands[0]).shape.dimensions;
  std::vector<WindowDimension> window = pooling.window;
  for (std::size_t d = 0; d < window.size(); ++d) {
    hlo::PaddingDimension p = pad.padding[d];
    if (extents[d] == 1) p.interior = 0;
    if (!compiler::take_padding(window[d], p)) return;
  }
  pooling.window = std::move(window);
  pooling.operands[0] = pad.operands[0];
  took_padding_ = true;
}

/// Gaps of a base dilation become neutral elements of a pad, where no kernel knows them.
void WindowForms::fill_gaps(HloInstruction& pooling, double initial) {
  std::vector<hlo::PaddingDimension> gaps(pooling.window.size());
  for (std::size_t d = 0; d < gaps.size(); ++d) {
    gaps[d].interior = pooling.window[d].base_dilation - 1;
    pooling.window[d].base_dilation = 1;
  }
  pooling.operands[0] = edit_.pad(pooling.operands[0], gaps, initial);
}

/// Dimensions of which a window has all elements are reduced, by what reductions have a kernel for;
/// those of one element repeated.
bool WindowForms::visit_whole(HloInstruction pooling, HloOpcode operation, double initial) {
  const Extents results = pooling.shape.dimensions;
  Extents extents = edit_.dimensions(pooling.operands[0]), reduced;
  bool repeats = false;
  for (std::size_t d = 0; d < results.size(); ++d) {
    WindowDimension& w = pooling.window[d];
    const bool is_reduced =
        operation != HloOpcode::kMultiply && covers_all(w, extents[d], results[d]);
    const bool is_repeated = !is_reduced && repeats_one(w, extents[d], results[d]);
    if (is_reduced) reduced.push_back(static_cast<std::int64_t>(d));
    repeats = repeats || is_repeated;
    if (!is_reduced && !is_repeated) continue;
    w = {};
    extents[d] = pooling.shape.dimensions[d] = 1;
  }
  if (reduced.empty() && !repeats) return false;
  Id value = pooling.operands[0], windows = -1;
  if (!reduced.empty()) {
    value = edit_.reshape(edit_.reduce(value, operation, reduced, initial), extents);
  }
  if (!dimensions_of(pooling.window).empty()) {
    pooling.operands[0] = value;
    pooling.name += ".windows";
    value = windows = edit_.append_instruction(pooling);
  }
  if (repeats) {
    Extents some, kept;
    for (std::size_t d = 0; d < results.size(); ++d) {
      if (pooling.shape.dimensions[d] != results[d]) continue;
      some.push_back(results[d]);
      kept.push_back(static_cast<std::int64_t>(d));
    }
    value = edit_.broadcast(edit_.reshape(value, some), results, kept);
  }
  edit_.finish(value);
  if (windows >= 0) visit(windows);
  return true;
}

/// Sums of windows that never reach more than one element of what zeros part, as those of the
/// gradient of a mean over windows side by side: each element comes as often as it is reached.
bool WindowForms::visit_repetition(const HloInstruction& pooling) {
  const HloInstruction pad = entry().at(pooling.operands[0]);
  if (pad.opcode != HloOpcode::kPad || !edit_.is_splat(pad.operands[1], 0)) return false;
  const Extents elements = edit_.dimensions(pad.operands[0]);
  Extents repeated, places, joined, behind;
  for (std::size_t d = 0; d < elements.size(); ++d) {
    const WindowDimension& w = pooling.window[d];
    const hlo::PaddingDimension& p = pad.padding[d];
    // A window begins with its last position on the first element, and ends with its first one.
    const bool reaches_one = w.stride == 1 && w.window_dilation == 1 && w.base_dilation == 1 &&
                             p.interior == w.size - 1 && p.low + w.padding_low == w.size - 1;
    const std::int64_t left = pooling.shape.dimensions[d] - elements[d] * w.size;
    if (!reaches_one || left < 0 || (w.size > 1 && d + 1 == elements.size())) return false;
    places.push_back(static_cast<std::int64_t>(repeated.size()));
    repeated.push_back(elements[d]);
    if (w.size > 1) repeated.push_back(w.size);
    joined.push_back(elements[d] * w.size);
    behind.push_back(left);
  }
  Id value = edit_.broadcast(pad.operands[0], repeated, places);
  value = edit_.reshape(value, joined);
  edit_.finish(edit_.pad_high(value, behind));
  took_padding_ = true;
  return true;
}

/// Sums of windows over an image of one number, as those by which means divide whose windows reach
/// over the image: each is the number times how many elements the window has in the image.
bool WindowForms::visit_counts(const HloInstruction& pooling) {
  const std::optional<double> number = splat_value(entry(), pooling.operands[0]);
  if (!number || !std::isfinite(*number)) return false;
  const Extents image = edit_.dimensions(pooling.operands[0]);
  Extents extents, places;  // Of the dimensions along which windows differ.
  std::vector<float> sums{static_cast<float>(*number)};
  for (std::size_t d = 0; d < image.size(); ++d) {
    if (pooling.window[d].size > kMostCounted / pooling.shape.dimensions[d]) return false;
    const std::vector<std::int64_t> counts =
        elements_in_windows(pooling.window[d], image[d], pooling.shape.dimensions[d]);
    const bool varies = std::set<std::int64_t>(counts.begin(), counts.end()).size() > 1;
    std::vector<float> products;
    for (const float sum : sums) {
      for (const std::int64_t count : counts) {
        products.push_back(sum * static_cast<float>(count));
        if (!varies) break;
      }
    }
    sums = std::move(products);
    if (sums.size() > kMostCounts) return false;
    if (!varies) continue;
    extents.push_back(pooling.shape.dimensions[d]);
    places.push_back(static_cast<std::int64_t>(d));
  }
  const Id value = edit_.broadcast(edit_.numbers(extents, sums), pooling.shape.dimensions, places);
  edit_.finish(edit_.convert(value, pooling.shape.type));
  return true;
}

void WindowForms::visit(Id id) {
  HloInstruction pooling = entry().at(id);
  const bool is_scatter = pooling.opcode == HloOpcode::kSelectAndScatter;
  if ((pooling.opcode != HloOpcode::kReduceWindow && !is_scatter) || pooling.shape.is_tuple() ||
      pooling.operands.size() != (is_scatter ? 3U : 2U) || scan_form(module_, entry(), pooling)) {
    return;
  }
  const ElementType type = pooling.shape.type;
  const std::optional<double> initial = scalar_value(entry().at(pooling.operands.back()));
  const HloOpcode operation = combining_operation(module_.computation(pooling.called.at(0)));
  if (!initial || operation == HloOpcode::kCount ||
      (type != ElementType::kF32 && type != ElementType::kBf16)) {
    return;
  }
  edit_.stand_for(id);
  const bool has_neutral = !is_scatter && is_neutral(operation, *initial);
  if (has_neutral) {
    if (operation == HloOpcode::kAdd && (visit_counts(pooling) || visit_repetition(pooling))) {
      return;
    }
    take_padding(pooling, *initial);
    const bool has_gaps = std::any_of(pooling.window.begin(), pooling.window.end(),
                                      [](const WindowDimension& w) { return w.base_dilation > 1; });
    if (has_gaps && !(has_kernel(operation, *initial) && choice_.has_kernel(pooling))) {
      fill_gaps(pooling, *initial);
    }
    if (visit_whole(pooling, operation, *initial)) return;
    module_.entry_computation().at(id) = pooling;
  }
  if (has_neutral && dimensions_of(pooling.window).empty()) {
    return edit_.finish(pooling.operands[0]);
  }
  if (visit_without_ones(pooling) || visit_before_transpose(pooling)) return;
  const auto [most, all] = positions_of(pooling, operation);
  if (steps_through_lanes(pooling)) return visit_turned(pooling);
  if (!is_scatter) {
    const bool is_kernel = has_kernel(operation, *initial) &&
                           choice_.has_kernel_window(pooling.window) &&
                           !choice_.is_faster_shifted(pooling, operation);
    const std::size_t dimensions = dimensions_of(pooling.window).size();
    const bool is_large = dimensions > 2 && has_kernel(operation, *initial) &&
                          !choice_.is_faster_from_outside(pooling);
    if (is_large ||
        (is_kernel && dimensions > 1 && !choice_.rows_fit(*choice_.kernel_form(pooling)))) {
      return reduce_in_steps(pooling, operation, *initial);
    }
    if (!is_kernel && most <= kMostPositions) edit_.finish(reduce(pooling, operation, *initial));
    return;
  }
  const hlo::Computation& select = module_.computation(pooling.called[0]);
  const hlo::ComparisonDirection direction = select.at(select.root).direction;
  const bool first = direction == hlo::ComparisonDirection::kGe;
  const bool in_order = select.at(select.at(select.root).operands[0]).parameter_number == 0;
  if (operation != HloOpcode::kCompare || *initial != 0 || !in_order ||
      (!first && direction != hlo::ComparisonDirection::kGt) ||
      combining_operation(module_.computation(pooling.called.at(1))) != HloOpcode::kAdd) {
    return;
  }
  const auto form = choice_.kernel_form(pooling);
  const bool may_be_kernel = first && form && !choice_.is_faster_in_parts(pooling);
  const bool merges = may_be_kernel && pooling.window.size() != kPoolingRank;
  if (may_be_kernel && !merges && choice_.rows_fit(*form)) return;
  if (merges) {
    Id windows = in_four_dimensions(pooling);
    edit_.finish(windows);
    while (entry().at(windows).opcode != HloOpcode::kSelectAndScatter) {
      windows = entry().at(windows).operands[0];
    }
    return visit(windows);
  }
  const std::size_t dimensions = dimensions_of(pooling.window).size();
  // Of more dimensions than a kernel has, the steps have kernels.
  if (dimensions <= 2 && all <= kMostPositions) return edit_.finish(scatter(pooling, first));
  if (dimensions > 1) scatter_in_steps(pooling);
}

}  // namespace

void rewrite_windows(hlo::Module& module, const Target& target) {
  WindowForms(module, target).run();
}

}  // namespace tpu::compiler
