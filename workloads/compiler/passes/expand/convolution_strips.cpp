#include "workloads/compiler/passes/expand/convolution_strips.h"

#include <algorithm>
#include <utility>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/passes/expand/convolution_arrays.h"
#include "workloads/compiler/passes/expand/convolution_steps.h"

namespace tpu::compiler {

using hlo::ConvolutionDimensions;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::WindowDimension;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// Examples that fill the rows of a tile.
constexpr std::int64_t kFullBatch = 8;
constexpr std::int64_t kFullLanes = 128;

/// The batch of the input and its features, as the result has them or, in the gradient of a kernel,
/// as it contracts them.
std::pair<std::int64_t, std::int64_t> batch_and_features(const HloInstruction& convolution) {
  const ConvolutionDimensions& dims = convolution.convolution;
  return has_large_window(convolution) ? std::pair(dims.input_feature, dims.input_batch)
                                       : std::pair(dims.input_batch, dims.input_feature);
}

/// Whether elements that follow each other along the two dimensions do so in memory, in this order.
bool stands_behind(const Extents& extents, std::int64_t outer, std::int64_t inner) {
  return outer < inner && std::all_of(extents.begin() + outer + 1, extents.begin() + inner,
                                      [](std::int64_t extent) { return extent == 1; });
}

/// `count` strips of dimension `spatial` behind each example of dimension `batch`.
Id cut_into_batch(GraphEditor& edit, Id image, std::int64_t spatial, std::int64_t batch,
                  std::int64_t features, std::int64_t count) {
  Extents extents = edit.dimensions(image);
  extents[static_cast<std::size_t>(spatial)] /= count;
  if (stands_behind(extents, batch, spatial)) {
    extents[static_cast<std::size_t>(batch)] *= count;
    return edit.reshape(image, extents);
  }
  extents.insert(extents.begin() + spatial, count);
  const auto behind = [spatial](std::int64_t d) { return d < spatial ? d : d + 1; };
  return merge_dimension(edit, edit.reshape(image, extents), spatial, behind(batch), false,
                         behind(features));
}

/// Each example's neighbour `distance` strips on; zeros where an image ends.
Id neighbours(GraphEditor& edit, Id pixels, std::int64_t batch, std::int64_t count,
              std::int64_t distance) {
  const Extents extents = edit.dimensions(pixels);
  const std::int64_t images = extents[static_cast<std::size_t>(batch)] / count;
  if (images == 1) return edit.take(pixels, batch, distance, count, 1);
  Extents apart = extents;
  apart[static_cast<std::size_t>(batch)] = count;
  apart.insert(apart.begin() + batch, images);
  return edit.reshape(edit.take(edit.reshape(pixels, apart), batch + 1, distance, count, 1),
                      extents);
}

Id input_in_strips(GraphEditor& edit, const HloInstruction& convolution, const ImageStrips& form) {
  const auto [batch, features] = batch_and_features(convolution);
  const std::int64_t d = convolution.convolution->input_spatial[form.index];
  const Id image = rounded(edit, convolution, convolution.operands[0]);
  std::vector<Id> parts;
  if (!form.parts_input) {
    const std::int64_t pixels = extent_of(form.input, d);
    const Id all = edit.take(image, d, form.first, (form.count + 1) * form.own, 1);
    for (std::int64_t begin = 0; begin < pixels; begin += form.own) {
      const Id strips = cut_into_batch(edit, edit.take(all, d, begin, form.count * form.own, 1), d,
                                       batch, features, form.count);
      parts.push_back(edit.take(strips, d, 0, std::min(form.own, pixels - begin), 1));
    }
    return parts.size() == 1 ? parts.front() : edit.concatenate(parts, d);
  }
  const Id own = cut_into_batch(edit, image, d, batch, features, form.count);
  const std::int64_t end = form.first + extent_of(form.input, d);
  if (form.first < 0) {
    const Id last = edit.take(own, d, form.own + form.first, -form.first, 1);
    parts.push_back(neighbours(edit, last, batch, form.count, -1));
  }
  const std::int64_t begin = std::max<std::int64_t>(0, form.first);
  parts.push_back(edit.take(own, d, begin, std::min(end, form.own) - begin, 1));
  if (end > form.own) {
    const Id first = edit.take(own, d, 0, end - form.own, 1);
    parts.push_back(neighbours(edit, first, batch, form.count, 1));
  }
  return parts.size() == 1 ? parts.front() : edit.concatenate(parts, d);
}

void multiply_extent(hlo::Shape& shape, std::int64_t d, std::int64_t count) {
  shape.dimensions[static_cast<std::size_t>(d)] *= count;
}

}  // namespace

std::optional<ImageStrips> image_strips(const GraphEditor& edit, const HloInstruction& convolution,
                                        std::size_t index, std::int64_t count) {
  const ConvolutionDimensions& dims = convolution.convolution;
  const bool large = has_large_window(convolution);
  const WindowDimension& w = convolution.window[index];
  const std::int64_t positions = splittable_positions(convolution, index);
  if (count < 2 || positions % count != 0) return std::nullopt;
  const bool has_groups = groups_of(convolution) > 1;
  if (has_groups && !is_depthwise(edit, convolution)) return std::nullopt;
  if (large && (w.reversal || w.base_dilation > 1)) return std::nullopt;
  const std::int64_t step = positions / count * (large ? w.window_dilation : w.stride);
  ImageStrips form{convolution,
                   edit.shape(convolution.operands[0]),
                   edit.shape(convolution.operands[1]),
                   index,
                   count,
                   step / w.base_dilation,
                   0,
                   true};
  const std::int64_t d = dims.input_spatial[index];
  if (step % w.base_dilation != 0) return std::nullopt;
  form.parts_input = extent_of(form.input, d) == form.own * count;
  WindowDimension& part = form.convolution.window[index];
  hlo::Shape& result = form.convolution.shape;
  if (large) {
    part.size = positions / count;
    form.window.dimensions[static_cast<std::size_t>(dims.kernel_spatial[index])] = part.size;
    multiply_extent(form.window, dims.kernel_input_feature, count);
    form.window.type = rounded_type(convolution, form.window.type);
  } else {
    result.dimensions[static_cast<std::size_t>(dims.output_spatial[index])] = positions / count;
    multiply_extent(result, dims.output_batch, count);
  }
  const std::int64_t results = extent_of(result, dims.output_spatial[index]);
  const std::int64_t reach = (results - 1) * w.stride + (part.size - 1) * w.window_dilation;
  form.first = ceil_divide(-w.padding_low, w.base_dilation);
  const std::int64_t last = -ceil_divide(w.padding_low - reach, w.base_dilation);
  const std::int64_t pixels = last - form.first + 1;
  const bool meets_neighbours = form.first > -form.own && last + 1 < 2 * form.own;
  const bool meets_itself = form.first < form.own && last >= 0;
  if (form.parts_input && !(meets_neighbours && meets_itself)) return std::nullopt;
  if (pixels < 1 || pixels > 2 * form.own) return std::nullopt;
  part.padding_low = form.first * w.base_dilation + w.padding_low;
  part.padding_high = reach - (pixels - 1) * w.base_dilation - part.padding_low;
  form.input.dimensions[static_cast<std::size_t>(d)] = pixels;
  multiply_extent(form.input, batch_and_features(convolution).first, count);
  form.input.type = rounded_type(convolution, form.input.type);
  return form;
}

Id write_in_strips(GraphEditor& edit, const HloInstruction& convolution, const ImageStrips& form,
                   const EmitConvolution& emit) {
  const ConvolutionDimensions& dims = convolution.convolution;
  HloInstruction strips = form.convolution;
  strips.operands[0] = input_in_strips(edit, convolution, form);
  if (has_large_window(convolution)) {
    const Id image = rounded(edit, convolution, convolution.operands[1]);
    strips.operands[1] =
        cut_into_batch(edit, image, dims.kernel_spatial[form.index], dims.kernel_input_feature,
                       dims.kernel_output_feature, form.count);
    return emit(std::move(strips));
  }
  Extents extents = convolution.shape.dimensions;
  const std::int64_t o = dims.output_spatial[form.index];
  if (stands_behind(extents, dims.output_batch, o)) {
    return edit.reshape(emit(std::move(strips)), extents);
  }
  extents[static_cast<std::size_t>(o)] /= form.count;
  extents.insert(extents.begin() + o, form.count);
  const auto behind = [o](std::int64_t d) { return d < o ? d : d + 1; };
  const Id apart = split_dimension(edit, emit(std::move(strips)), extents, o,
                                   behind(dims.output_batch), false, behind(dims.output_feature));
  return edit.reshape(apart, convolution.shape.dimensions);
}

std::optional<ImageStrips> strips_that_fill_tiles(const GraphEditor& edit,
                                                  const HloInstruction& convolution) {
  const std::int64_t batch =
      extent_of(edit.shape(convolution.operands[0]), batch_and_features(convolution).first);
  for (std::int64_t count = kFullBatch / batch; count > 1; --count) {
    for (const std::size_t index : {0, 1}) {
      std::optional<ImageStrips> form = image_strips(edit, convolution, index, count);
      if (form) return form;
    }
  }
  return std::nullopt;
}

std::optional<ImageStrips> strips_that_fill_lanes(const GraphEditor& edit,
                                                  const HloInstruction& convolution) {
  const std::int64_t batch =
      extent_of(edit.shape(convolution.operands[0]), batch_and_features(convolution).first);
  for (std::int64_t count = kFullLanes / batch; count > 1 && 2 * count * batch >= kFullLanes;
       --count) {
    std::optional<ImageStrips> form =
        image_strips(edit, convolution, convolution.window.size() - 1, count);
    if (form) return form;
  }
  return std::nullopt;
}

}  // namespace tpu::compiler
