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

/// A depthwise convolution of which one spatial dimension goes into what is not features: images
/// one behind the other, outermost, so that parts of them are whole rows of tiles.
class Planes {
 public:
  Planes(GraphEditor& edit, const HloInstruction& convolution, std::size_t index,
         const EmitConvolution& emit)
      : edit_(edit),
        emit_(emit),
        convolution_(convolution),
        dims_(convolution.convolution),
        index_(index),
        window_(convolution.window[index]),
        results_(extent_of(convolution.shape, dims_.output_spatial[index])) {}

  Id run() {
    const bool is_gradient = convolution_.batch_group_count > 1 ||
                             (convolution_.feature_group_count == 1 && window_.size > results_);
    return is_gradient ? gradient_of_kernel() : forward();
  }

 private:
  /// Without the dimension: a window without it, and shapes that are left to be stated.
  HloInstruction plane() const {
    HloInstruction one = convolution_;
    remove_spatial_dimension(one, index_);
    return one;
  }

  /// The dimension of an array, which has extent 1, goes.
  Id without(Id value, std::int64_t dimension) {
    Extents extents = edit_.dimensions(value);
    extents.erase(extents.begin() + dimension);
    return edit_.reshape(value, extents);
  }

  /// The dimensions of an array, `from` in front of `into`.
  static Extents in_front(std::size_t rank, std::int64_t from, std::int64_t into) {
    Extents order;
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(rank); ++d) {
      if (d == into) order.push_back(from);
      if (d != from) order.push_back(d);
    }
    return order;
  }

  /// Dimension `from` goes into dimension `into`, outermost: no other changes its place.
  Id merged(Id value, std::int64_t from, std::int64_t into) {
    Extents extents = edit_.dimensions(value);
    value = edit_.transpose(value, in_front(extents.size(), from, into));
    extents[static_cast<std::size_t>(into)] *= extents[static_cast<std::size_t>(from)];
    extents.erase(extents.begin() + from);
    return edit_.reshape(value, extents);
  }

  /// What merged() with the same dimensions has made of an array becomes that array again.
  Id split(Id value, const Extents& extents, std::int64_t from, std::int64_t into) {
    const Extents order = in_front(extents.size(), from, into);
    return edit_.transpose(edit_.reshape(value, extents_at(extents, order)), inverse(order));
  }

  /// Positions of the input from `start` on, of which every `step`th counts.
  Id positions(std::int64_t start, std::int64_t count, std::int64_t step) {
    const std::int64_t d = dims_.input_spatial[index_];
    Id value = convolution_.operands[0];
    if (window_.base_dilation > 1) {
      std::vector<hlo::PaddingDimension> padding(edit_.dimensions(value).size());
      padding[static_cast<std::size_t>(d)].interior = window_.base_dilation - 1;
      value = edit_.pad(value, padding);
    }
    return edit_.take(value, d, start - window_.padding_low, count, step);
  }

  /// One convolution of all images for each position of the window; their sums, each from an image
  /// further on. Sums are made in f32.
  Id forward() {
    const std::int64_t d = dims_.input_spatial[index_], k = dims_.kernel_spatial[index_];
    const std::int64_t o = dims_.output_spatial[index_], size = window_.size;
    const bool strides = window_.stride > 1;
    const std::int64_t further = strides ? 0 : (size - 1) * window_.window_dilation;
    const ElementType type = size > 1 ? ElementType::kF32 : convolution_.shape.type;
    Extents extents = convolution_.shape.dimensions;
    extents[static_cast<std::size_t>(o)] += further;
    Extents together = extents;
    together[static_cast<std::size_t>(dims_.output_batch)] *= extents[static_cast<std::size_t>(o)];
    together.erase(together.begin() + o);
    const auto images = [&](std::int64_t start) {
      return merged(positions(start, results_ + further, window_.stride), d, dims_.input_batch);
    };
    const Id all = strides ? -1 : images(0);
    Id sum = -1;
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t at = i * window_.window_dilation;
      HloInstruction one = plane();
      one.shape = hlo::array_shape(type, together);
      const std::int64_t position = window_.reversal ? size - 1 - i : i;
      one.operands = {strides ? images(at) : all,
                      without(edit_.take(convolution_.operands[1], k, position, 1, 1), k)};
      Id value = split(emit_(std::move(one)), extents, o, dims_.output_batch);
      if (!strides) value = edit_.take(value, o, at, results_, 1);
      sum = sum < 0 ? value : edit_.binary(HloOpcode::kAdd, sum, value);
    }
    return edit_.convert(sum, convolution_.shape.type);
  }

  /// One gradient over all images for each result, of the images that it meets.
  Id gradient_of_kernel() {
    const std::int64_t d = dims_.input_spatial[index_], k = dims_.kernel_spatial[index_];
    const std::int64_t o = dims_.output_spatial[index_];
    Id window = convolution_.operands[1];
    if (window_.reversal) window = edit_.reverse(window, k);
    window = merged(window, k, dims_.kernel_input_feature);
    Extents extents = convolution_.shape.dimensions;
    extents.erase(extents.begin() + o);
    std::vector<Id> parts;
    for (std::int64_t i = 0; i < results_; ++i) {
      HloInstruction one = plane();
      one.shape = hlo::array_shape(convolution_.shape.type, extents);
      one.operands = {merged(positions(i * window_.stride, window_.size, window_.window_dilation),
                             d, dims_.input_feature),
                      window};
      Extents apart = extents;
      apart.insert(apart.begin() + o, 1);
      parts.push_back(edit_.reshape(emit_(std::move(one)), apart));
    }
    return edit_.concatenate(parts, o);
  }

  GraphEditor& edit_;
  const EmitConvolution& emit_;
  const HloInstruction& convolution_;
  const ConvolutionDimensions& dims_;
  std::size_t index_;
  const WindowDimension& window_;
  std::int64_t results_;
};

}  // namespace

Id unroll_by_planes(GraphEditor& edit, const HloInstruction& convolution, std::size_t index,
                    const EmitConvolution& emit) {
  return Planes(edit, convolution, index, emit).run();
}

}  // namespace tpu::compiler
