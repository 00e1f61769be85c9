#include "workloads/compiler/passes/expand/convolution_steps.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/operand_parts.h"
#include "workloads/compiler/passes/expand/convolution_arrays.h"
#include "workloads/compiler/passes/expand/operand_precision.h"

namespace tpu::compiler {

using hlo::ConvolutionDimensions;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::WindowDimension;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return -ceil_divide(-a, b); }

std::int64_t result_extent(const HloInstruction& convolution, std::size_t index) {
  return extent_of(convolution.shape, convolution.convolution->output_spatial[index]);
}

/// The zeros of a base dilation are written out.
void write_base_dilation(GraphEditor& edit, HloInstruction& convolution, std::size_t index) {
  WindowDimension& w = convolution.window[index];
  if (w.base_dilation == 1) return;
  std::vector<hlo::PaddingDimension> padding(convolution.shape.dimensions.size());
  const std::int64_t d = convolution.convolution->input_spatial[index];
  padding[static_cast<std::size_t>(d)].interior = w.base_dilation - 1;
  convolution.operands[0] = edit.pad(convolution.operands[0], padding);
  w.base_dilation = 1;
}

/// The window is written backwards where it is read backwards.
void write_reversal(GraphEditor& edit, HloInstruction& convolution, std::size_t index) {
  WindowDimension& w = convolution.window[index];
  if (!w.reversal) return;
  convolution.operands[1] =
      edit.reverse(convolution.operands[1], convolution.convolution->kernel_spatial[index]);
  w.reversal = false;
}

/// Inputs of all positions of the window along the features (of the result along the batch: a large
/// window). Along the spatial dimension stand then positions of the result (of the window).
Id shifted_inputs(GraphEditor& edit, const HloInstruction& convolution, Id input,
                  std::size_t index) {
  const ConvolutionDimensions& dims = convolution.convolution;
  const WindowDimension& w = convolution.window[index];
  const std::int64_t d = dims.input_spatial[index], results = result_extent(convolution, index);
  const bool large = w.size > results;
  std::vector<Id> parts;
  for (std::int64_t i = 0; i < copies_of(convolution, index); ++i) {
    const std::int64_t from = (large ? w.stride : w.window_dilation) * i - w.padding_low;
    parts.push_back(
        edit.take(input, d, from, std::max(w.size, results), large ? w.window_dilation : w.stride));
  }
  return edit.concatenate(parts, large ? dims.input_batch : dims.input_feature);
}

WindowDimension plain_window(std::int64_t size) {
  WindowDimension window;
  window.size = size;
  return window;
}

}  // namespace

std::int64_t copies_of(const HloInstruction& convolution, std::size_t index) {
  return std::min(convolution.window[index].size, result_extent(convolution, index));
}

bool has_large_window(const HloInstruction& convolution) {
  std::int64_t positions = 1, results = 1;
  for (std::size_t i = 0; i < convolution.window.size(); ++i) {
    positions *= convolution.window[i].size;
    results *= result_extent(convolution, i);
  }
  return positions > results;
}

namespace {

/// Pixels of the input that lie before the result's first position.
std::int64_t cut_off(const WindowDimension& w) {
  return w.padding_low < 0 ? ceil_divide(-w.padding_low, w.base_dilation) : 0;
}

}  // namespace

bool cuts_pixels(const GraphEditor& edit, const HloInstruction& convolution) {
  bool cuts = false;
  for (std::size_t i = 0; i < convolution.window.size(); ++i) {
    const std::int64_t count = cut_off(convolution.window[i]);
    cuts = cuts || count > 0;
    if (count >=
        extent_of(edit.shape(convolution.operands[0]), convolution.convolution->input_spatial[i])) {
      return false;
    }
  }
  return cuts;
}

HloInstruction cut_pixels(GraphEditor& edit, HloInstruction convolution) {
  for (std::size_t i = 0; i < convolution.window.size(); ++i) {
    WindowDimension& w = convolution.window[i];
    const std::int64_t count = cut_off(w), d = convolution.convolution->input_spatial[i];
    const std::int64_t left = extent_of(edit.shape(convolution.operands[0]), d) - count;
    if (count > 0) convolution.operands[0] = edit.take(convolution.operands[0], d, count, left, 1);
    w.padding_low += count * w.base_dilation;
  }
  return convolution;
}

SpatialForm with_spatial_dimension(HloInstruction convolution, const hlo::Shape& input,
                                   const hlo::Shape& window, std::size_t index) {
  ConvolutionDimensions& dims = convolution.convolution.edit();
  const auto insert = [&](const hlo::Shape& shape, const ArrayRoles& roles) {
    Extents extents = shape.dimensions;
    const Extents spatial = dims.*roles.spatial;
    const std::int64_t at = spatial.empty() ? std::max(dims.*roles.rows, dims.*roles.columns)
                            : index == 0    ? *std::min_element(spatial.begin(), spatial.end())
                                            : spatial[index - 1] + 1;
    extents.insert(extents.begin() + at, 1);
    insert_dimension(dims, roles, at, index);
    return hlo::array_shape(shape.type, extents);
  };
  SpatialForm form;
  form.input = insert(input, kInputRoles);
  form.window = insert(window, kWindowRoles);
  convolution.shape = insert(convolution.shape, kOutputRoles);
  convolution.window.insert(convolution.window.begin() + static_cast<std::ptrdiff_t>(index),
                            WindowDimension());
  form.convolution = std::move(convolution);
  return form;
}

Id add_spatial_dimension(GraphEditor& edit, HloInstruction convolution, std::size_t index,
                         const EmitConvolution& emit) {
  const Extents extents = convolution.shape.dimensions;
  const hlo::Shape input = edit.shape(convolution.operands[0]),
                   window = edit.shape(convolution.operands[1]);
  SpatialForm form = with_spatial_dimension(std::move(convolution), input, window, index);
  std::vector<Id>& operands = form.convolution.operands;
  operands = {edit.reshape(operands[0], form.input.dimensions),
              edit.reshape(operands[1], form.window.dimensions)};
  return edit.reshape(emit(std::move(form.convolution)), extents);
}

Id unroll_spatial_dimension(GraphEditor& edit, HloInstruction convolution, std::size_t index,
                            const EmitConvolution& emit) {
  write_base_dilation(edit, convolution, index);
  write_reversal(edit, convolution, index);
  const HloInstruction before = convolution;
  ConvolutionDimensions& dims = convolution.convolution.edit();
  const bool large = before.window[index].size > result_extent(before, index);
  const std::int64_t d = dims.input_spatial[index];
  const Id input = shifted_inputs(edit, before, before.operands[0], index);
  const std::int64_t rows = large ? dims.input_feature : dims.input_batch;
  const std::int64_t columns = large ? dims.input_batch : dims.input_feature;
  const bool above = d < rows;
  convolution.operands[0] = merge_dimension(edit, input, d, rows, above, columns);
  convolution.operands[1] =
      merge_dimension(edit, before.operands[1], dims.kernel_spatial[index],
                      dims.kernel_input_feature, large ? above : true, dims.kernel_output_feature);
  remove_spatial_dimension(convolution, index);
  Extents extents = before.shape.dimensions;
  const std::int64_t o = before.convolution->output_spatial[index];
  extents[static_cast<std::size_t>(before.convolution->output_batch)] *=
      result_extent(before, index);
  extents.erase(extents.begin() + o);
  convolution.shape = hlo::array_shape(before.shape.type, extents);
  return split_dimension(edit, emit(std::move(convolution)), before.shape.dimensions, o,
                         before.convolution->output_batch, large || above,
                         before.convolution->output_feature);
}

bool can_exchange_operands(const HloInstruction& convolution) {
  return convolution.feature_group_count == 1 && convolution.batch_group_count == 1 &&
         std::all_of(
             convolution.window.begin(), convolution.window.end(),
             [](const WindowDimension& w) { return !w.reversal && w.window_dilation == 1; });
}

/// Where o * stride + k - padding = base_dilation * i, k is (O - 1 - o) * stride + i *
/// base_dilation
/// - ((O - 1) * stride - padding), with the positions of the result counted from the end.
Id exchange_operands(GraphEditor& edit, HloInstruction convolution, const EmitConvolution& emit) {
  const ConvolutionDimensions old = convolution.convolution;
  const hlo::Shape input = edit.shape(convolution.operands[0]);
  const Extents backwards = old.output_spatial;
  ConvolutionDimensions& dims = convolution.convolution.edit();
  dims = {old.kernel_output_feature, old.kernel_input_feature, old.kernel_spatial,
          old.input_feature,         old.input_batch,          old.input_spatial,
          old.output_feature,        old.output_batch,         old.output_spatial};
  std::swap(convolution.operands[0], convolution.operands[1]);
  exchange_precisions(convolution);
  for (std::size_t i = 0; i < convolution.window.size(); ++i) {
    WindowDimension& w = convolution.window[i];
    const std::int64_t positions = w.size, last = (result_extent(convolution, i) - 1) * w.stride;
    w.size = extent_of(input, old.input_spatial[i]);
    w.padding_low = last - w.padding_low;
    w.window_dilation = std::exchange(w.base_dilation, 1);
    w.padding_high = last + (w.size - 1) * w.window_dilation + 1 - positions - w.padding_low;
  }
  // Kernels make gradients with the features of the second operand in the lanes.
  Extents order(convolution.shape.dimensions.size());
  std::iota(order.begin(), order.end(), 0);
  if (dims.output_feature < dims.output_batch) {
    std::swap(order[static_cast<std::size_t>(dims.output_feature)],
              order[static_cast<std::size_t>(dims.output_batch)]);
    std::swap(convolution.shape.dimensions[static_cast<std::size_t>(dims.output_feature)],
              convolution.shape.dimensions[static_cast<std::size_t>(dims.output_batch)]);
    std::swap(dims.output_feature, dims.output_batch);
  }
  Id value = edit.transpose(emit(std::move(convolution)), order);
  for (std::int64_t d : backwards) value = edit.reverse(value, d);
  return value;
}

bool has_phases(const WindowDimension& w) {
  return (w.stride > 1) + (w.window_dilation > 1) + (w.base_dilation > 1) == 1;
}

namespace {

/// The three kinds of split_in_phases(). Each leaves a window of stride 1 without dilations.
class Phases {
 public:
  Phases(GraphEditor& edit, HloInstruction convolution, std::size_t index)
      : edit_(edit), convolution_(std::move(convolution)), index_(index) {
    write_reversal(edit_, convolution_, index_);
  }

  Id run(const EmitConvolution& emit) {
    if (window().stride > 1) return by_stride(emit);
    return window().window_dilation > 1 ? by_window_dilation(emit) : by_base_dilation(emit);
  }

 private:
  WindowDimension& window() { return convolution_.window[index_]; }
  ConvolutionDimensions& dims() { return convolution_.convolution.edit(); }

  /// `count` pixels of `step` elements from `start` on; the phase goes into dimension `into`.
  Id pixels(Id value, const ArrayRoles& roles, std::int64_t into, std::int64_t start,
            std::int64_t count, std::int64_t step, bool backwards = false) {
    const std::int64_t d = (dims().*roles.spatial)[index_];
    const auto behind = [d](std::int64_t dimension) { return dimension + (dimension > d ? 1 : 0); };
    const std::int64_t rows = dims().*roles.rows, columns = dims().*roles.columns;
    value = edit_.take(value, d, start, count * step, 1);
    Extents extents = edit_.dimensions(value);
    extents[static_cast<std::size_t>(d)] = step;
    extents.insert(extents.begin() + d, count);
    value = edit_.reshape(value, extents);
    if (backwards) value = edit_.reverse(value, d + 1);
    return merge_dimension(edit_, value, d + 1, behind(into), true,
                           behind(into == rows ? columns : rows));
  }

  /// Emits with `step` times as many of the result's batch or features, then puts these back.
  Id phases_of_result(std::int64_t step, std::int64_t into, const EmitConvolution& emit) {
    const Extents wanted = convolution_.shape.dimensions;
    const std::int64_t d = convolution_.convolution->output_spatial[index_];
    const std::int64_t count = ceil_divide(wanted[static_cast<std::size_t>(d)], step);
    Extents extents = wanted;
    extents[static_cast<std::size_t>(d)] = count;
    extents[static_cast<std::size_t>(into)] *= step;
    convolution_.shape = hlo::array_shape(convolution_.shape.type, extents);
    Id value = emit(convolution_);
    extents = wanted;
    extents[static_cast<std::size_t>(d)] = count;
    extents.insert(extents.begin() + d + 1, step);
    const auto behind = [d](std::int64_t dimension) { return dimension + (dimension > d ? 1 : 0); };
    const std::int64_t rows = dims().output_batch, columns = dims().output_feature;
    const std::int64_t other = into == rows ? columns : rows;
    // A batch that is smaller than the features leaves them the lanes.
    const bool is_short =
        wanted[static_cast<std::size_t>(other)] < wanted[static_cast<std::size_t>(into)];
    value = split_dimension(edit_, value, extents, d + 1, behind(into), true,
                            is_short ? -1 : behind(other));
    extents.erase(extents.begin() + d + 1);
    extents[static_cast<std::size_t>(d)] *= step;
    return edit_.take(edit_.reshape(value, extents), d, 0, wanted[static_cast<std::size_t>(d)], 1);
  }

  Id by_stride(const EmitConvolution& emit) {
    const WindowDimension w = window();
    const std::int64_t positions = ceil_divide(w.size, w.stride);
    const std::int64_t count = result_extent(convolution_, index_) + positions - 1;
    convolution_.operands = {pixels(convolution_.operands[0], kInputRoles, dims().input_feature,
                                    -w.padding_low, count, w.stride),
                             pixels(convolution_.operands[1], kWindowRoles,
                                    dims().kernel_input_feature, 0, positions, w.stride)};
    window() = plain_window(positions);
    return emit(convolution_);
  }

  Id by_window_dilation(const EmitConvolution& emit) {
    const WindowDimension w = window();
    const std::int64_t step = w.window_dilation;
    const std::int64_t results = ceil_divide(result_extent(convolution_, index_), step);
    convolution_.operands[0] = pixels(convolution_.operands[0], kInputRoles, dims().input_batch,
                                      -w.padding_low, results + w.size - 1, step);
    window() = plain_window(w.size);
    return phases_of_result(step, dims().output_batch, emit);
  }

  /// Position r of phase `step - 1 - r` of the kernel meets the input at the result's own position
  /// and `shift` on.
  Id by_base_dilation(const EmitConvolution& emit) {
    const WindowDimension w = window();
    const std::int64_t step = w.base_dilation;
    const std::int64_t shift = ceil_divide(-w.padding_low, step);
    const std::int64_t positions =
        floor_divide(w.size + step - 2 - w.padding_low, step) - shift + 1;
    const std::int64_t results = ceil_divide(result_extent(convolution_, index_), step);
    convolution_.operands[1] =
        pixels(convolution_.operands[1], kWindowRoles, dims().kernel_output_feature,
               w.padding_low + step * shift - (step - 1), positions, step, true);
    window() = plain_window(positions);
    window().padding_low = -shift;
    const std::int64_t input = edit_.dimensions(
        convolution_.operands[0])[static_cast<std::size_t>(dims().input_spatial[index_])];
    window().padding_high = results + positions - 1 - input + shift;
    return phases_of_result(step, dims().output_feature, emit);
  }

  GraphEditor& edit_;
  HloInstruction convolution_;
  std::size_t index_;
};

}  // namespace

Id split_in_phases(GraphEditor& edit, HloInstruction convolution, std::size_t index,
                   const EmitConvolution& emit) {
  return Phases(edit, std::move(convolution), index).run(emit);
}

std::int64_t splittable_positions(const HloInstruction& convolution, std::size_t index) {
  return has_large_window(convolution) ? convolution.window[index].size
                                       : result_extent(convolution, index);
}

HloInstruction part_of_positions(GraphEditor& edit, const HloInstruction& convolution,
                                 std::size_t index, std::int64_t begin, std::int64_t count) {
  HloInstruction part = convolution;
  WindowDimension& w = part.window[index];
  const ConvolutionDimensions& dims = convolution.convolution;
  const bool large = has_large_window(convolution);
  const std::int64_t d = dims.output_spatial[index];
  if (large) {
    const std::int64_t from = w.reversal ? w.size - begin - count : begin;
    part.operands[1] = edit.take(part.operands[1], dims.kernel_spatial[index], from, count, 1);
    w.size = count;
    part.shape = hlo::array_shape(hlo::ElementType::kF32, part.shape.dimensions);
  } else {
    part.shape.dimensions[static_cast<std::size_t>(d)] = count;
  }
  // From the first element of the dilated input that the part meets to the last one.
  const std::int64_t first = begin * (large ? w.window_dilation : w.stride) - w.padding_low;
  const std::int64_t results = large ? result_extent(convolution, index) : count;
  const std::int64_t reach = (results - 1) * w.stride + (w.size - 1) * w.window_dilation;
  const std::int64_t low = ceil_divide(first, w.base_dilation);
  const std::int64_t high = floor_divide(first + reach, w.base_dilation);
  const std::int64_t pixels = std::max<std::int64_t>(1, high - low + 1);
  part.operands[0] = edit.take(part.operands[0], dims.input_spatial[index], low, pixels, 1);
  w.padding_low = low * w.base_dilation - first;
  w.padding_high = reach - (pixels - 1) * w.base_dilation - w.padding_low;
  return part;
}

LineInRows line_in_rows(const GraphEditor& edit, const HloInstruction& image, std::int64_t rows) {
  const ConvolutionDimensions& dims = image.convolution;
  LineInRows form{image, edit.shape(image.operands[0]), edit.shape(image.operands[1])};
  const std::int64_t length = ceil_divide(image.window[1].size, rows);
  WindowDimension& w = form.convolution.window[1];
  w.size = length;
  w.padding_low = w.padding_high = 0;
  form.convolution.window[0] = plain_window(rows);
  form.input.type = rounded_type(image, form.input.type);
  form.window.type = rounded_type(image, form.window.type);
  const auto set = [](hlo::Shape& shape, const Extents& spatial, std::int64_t high,
                      std::int64_t wide) {
    shape.dimensions[static_cast<std::size_t>(spatial[0])] = high;
    shape.dimensions[static_cast<std::size_t>(spatial[1])] = wide;
  };
  const std::int64_t reach = (result_extent(image, 1) - 1) * w.stride;
  set(form.input, dims.input_spatial, rows, reach + (length - 1) * w.window_dilation + 1);
  set(form.window, dims.kernel_spatial, rows, length);
  return form;
}

HloInstruction write_in_rows(GraphEditor& edit, const HloInstruction& image,
                             const LineInRows& form) {
  const ConvolutionDimensions& dims = image.convolution;
  HloInstruction convolution = form.convolution;
  const WindowDimension& w = convolution.window[1];
  const std::int64_t rows = convolution.window[0].size;
  const Id line = rounded(edit, image, image.operands[0]);
  std::vector<Id> parts;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t d = dims.input_spatial[1], length = extent_of(form.input, d);
    const std::int64_t first = row * w.size * w.window_dilation - image.window[1].padding_low;
    const std::int64_t begin = std::max<std::int64_t>(0, first);
    const std::int64_t end = std::min(extent_of(edit.shape(line), d), first + length);
    // Only rows that reach beyond the line are padded.
    const Id inside = edit.take(line, d, begin, std::max<std::int64_t>(1, end - begin), 1);
    parts.push_back(edit.take(inside, d, first - begin, length, 1));
  }
  const Id window = edit.take(rounded(edit, image, image.operands[1]), dims.kernel_spatial[1], 0,
                              rows * w.size, 1);
  convolution.operands = {edit.concatenate(parts, dims.input_spatial[0]),
                          edit.reshape(window, form.window.dimensions)};
  return convolution;
}

Id result_by_result(GraphEditor& edit, const HloInstruction& convolution, std::size_t index,
                    const EmitConvolution& emit) {
  const ConvolutionDimensions& dims = convolution.convolution;
  const std::int64_t d = dims.input_spatial[index], o = dims.output_spatial[index];
  const std::int64_t pixels = extent_of(edit.shape(convolution.operands[0]), d);
  std::vector<Id> parts;
  for (std::int64_t i = 0; i < result_extent(convolution, index); ++i) {
    HloInstruction part = convolution;
    part.name += "." + std::to_string(i);
    WindowDimension& w = part.window[index];
    const std::int64_t first = i * w.stride - w.padding_low;
    const std::int64_t begin = std::max<std::int64_t>(0, -first);
    const std::int64_t count = std::min(w.size, pixels - first) - begin;
    part.shape.dimensions[static_cast<std::size_t>(o)] = 1;
    if (count <= 0) {
      parts.push_back(edit.splat(part.shape.type, part.shape.dimensions, 0));
      continue;
    }
    part.operands = {edit.take(part.operands[0], d, first + begin, count, 1),
                     edit.take(part.operands[1], dims.kernel_spatial[index],
                               w.reversal ? w.size - begin - count : begin, count, 1)};
    w.size = count;
    w.stride = 1;
    w.padding_low = w.padding_high = 0;
    parts.push_back(emit(std::move(part)));
  }
  return edit.concatenate(parts, o);
}

Id split_positions(GraphEditor& edit, const HloInstruction& convolution, std::size_t index,
                   std::int64_t count, const EmitConvolution& emit) {
  const bool large = has_large_window(convolution);
  const std::int64_t positions = splittable_positions(convolution, index);
  std::vector<Id> parts;
  for (std::int64_t begin = 0; begin < positions; begin += count) {
    parts.push_back(emit(
        part_of_positions(edit, convolution, index, begin, std::min(count, positions - begin))));
  }
  if (!large) return edit.concatenate(parts, convolution.convolution->output_spatial[index]);
  Id sum = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    sum = edit.binary(HloOpcode::kAdd, sum, parts[i]);
  }
  return edit.convert(sum, convolution.shape.type);
}

namespace {

/// Dimensions from `begin` to before `end` as one.
Id joined_dimensions(GraphEditor& edit, Id value, std::size_t begin, std::size_t end) {
  Extents extents = edit.dimensions(value);
  const auto first = extents.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = extents.begin() + static_cast<std::ptrdiff_t>(end);
  *first = std::accumulate(first, last, std::int64_t{1}, std::multiplies<>());
  extents.erase(first + 1, last);
  return edit.reshape(value, extents);
}

/// Where the groups of a convolution are, by themselves.
struct GroupDimensions {
  std::int64_t input = 0, kernel = 0, output = 0;
};

/// Dimension `place` of an operand as two: groups, and what is of one group.
void split_off_groups(GraphEditor& edit, Id& value, std::int64_t place, std::int64_t groups) {
  Extents extents = edit.dimensions(value);
  extents[static_cast<std::size_t>(place)] /= groups;
  extents.insert(extents.begin() + place, groups);
  value = edit.reshape(value, extents);
}

/// Groups get dimensions of their own, before that of the input which has them and before the
/// features of kernel and result; none: it has no groups.
std::optional<GroupDimensions> split_groups(GraphEditor& edit, HloInstruction& convolution) {
  const std::int64_t groups = groups_of(convolution);
  if (groups == 1) return std::nullopt;
  ConvolutionDimensions& dims = convolution.convolution.edit();
  const GroupDimensions at{
      convolution.batch_group_count > 1 ? dims.input_batch : dims.input_feature,
      dims.kernel_output_feature, dims.output_feature};
  split_off_groups(edit, convolution.operands[0], at.input, groups);
  split_off_groups(edit, convolution.operands[1], at.kernel, groups);
  Extents& results = convolution.shape.dimensions;
  results[static_cast<std::size_t>(at.output)] /= groups;
  results.insert(results.begin() + at.output, groups);
  convolution.feature_group_count = convolution.batch_group_count = 1;
  make_room(dims, kInputRoles, at.input);
  make_room(dims, kWindowRoles, at.kernel);
  make_room(dims, kOutputRoles, at.output);
  return at;
}

}  // namespace

hlo::ElementType rounded_type(const HloInstruction& convolution, hlo::ElementType type) {
  const bool keeps_bits = asks_for_precision(convolution) || groups_of(convolution) > 1;
  return keeps_bits ? type : ElementType::kBf16;
}

Id rounded(GraphEditor& edit, const HloInstruction& convolution, Id operand) {
  return edit.convert(operand, rounded_type(convolution, edit.shape(operand).type));
}

Id convolution_as_dot(GraphEditor& edit, const HloInstruction& original) {
  HloInstruction convolution = original;
  const std::optional<GroupDimensions> groups = split_groups(edit, convolution);
  const ConvolutionDimensions& dims = convolution.convolution;
  const std::size_t spatial = convolution.window.size();
  for (std::size_t i = 0; i < spatial; ++i) {
    write_base_dilation(edit, convolution, i);
    write_reversal(edit, convolution, i);
  }
  const auto is_large = [&](std::size_t i) {
    return convolution.window[i].size > result_extent(convolution, i);
  };
  HloInstruction dot;
  hlo::DotDimensions& contracting = dot.dot.edit();
  contracting.lhs_contracting = {dims.input_feature};
  Id input = convolution.operands[0];
  Extents kernel, large_window;
  for (std::size_t i = 0; i < spatial; ++i) {
    // The MXUs round what they multiply: before it is copied, once.
    if (copies_of(convolution, i) > 1) input = rounded(edit, convolution, input);
  }
  for (std::size_t i = spatial; i-- > 0;) input = shifted_inputs(edit, convolution, input, i);
  for (std::size_t i = 0; i < spatial; ++i) {
    if (is_large(i)) {
      large_window.push_back(dims.kernel_spatial[i]);
      contracting.lhs_contracting.push_back(dims.input_spatial[i]);
    } else {
      kernel.push_back(dims.kernel_spatial[i]);
    }
  }
  // The kernel: groups, positions with the features, those that are contracted by themselves,
  // columns.
  kernel.push_back(dims.kernel_input_feature);
  const std::size_t joined = kernel.size();
  kernel.insert(kernel.end(), large_window.begin(), large_window.end());
  kernel.push_back(dims.kernel_output_feature);
  if (groups) kernel.insert(kernel.begin(), groups->kernel);
  const std::size_t first = groups ? 1 : 0;
  const Id window = joined_dimensions(edit, edit.transpose(convolution.operands[1], kernel), first,
                                      first + joined);
  for (std::size_t i = 0; i <= large_window.size(); ++i) {
    contracting.rhs_contracting.push_back(static_cast<std::int64_t>(first + i));
  }
  // Which dimension of the result each free one of the input is: the batch splits.
  Extents places, extents;
  if (groups) {
    contracting.lhs_batch = {groups->input};
    contracting.rhs_batch = {0};
    extents.push_back(edit.dimensions(window).front());
    places.push_back(groups->output);
  }
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(edit.dimensions(input).size()); ++d) {
    const auto at = std::find(dims.input_spatial.begin(), dims.input_spatial.end(), d);
    const auto i = static_cast<std::size_t>(at - dims.input_spatial.begin());
    if (d == dims.input_feature || (groups && d == groups->input)) continue;
    if (d != dims.input_batch && is_large(i)) continue;
    extents.push_back(edit.dimensions(input)[static_cast<std::size_t>(d)]);
    if (d != dims.input_batch) {
      places.push_back(dims.output_spatial[i]);
      continue;
    }
    for (std::size_t j = 0; j < spatial; ++j) {
      if (is_large(j)) places.push_back(dims.output_spatial[j]);
    }
    places.push_back(dims.output_batch);
  }
  places.push_back(dims.output_feature);
  extents.push_back(edit.dimensions(window).back());
  dot.opcode = HloOpcode::kDot;
  dot.name = original.name + ".dot";
  dot.metadata = original.metadata;
  dot.operands = {input, window};
  const std::string precision = precision_of_parts(operand_parts(original));
  if (!precision.empty()) dot.raw_attributes = precision;
  dot.shape = hlo::array_shape(original.shape.type, extents);
  const Id value = edit.transpose(edit.reshape(edit.append_instruction(std::move(dot)),
                                               extents_at(convolution.shape.dimensions, places)),
                                  inverse(places));
  return edit.reshape(value, original.shape.dimensions);
}

}  // namespace tpu::compiler
