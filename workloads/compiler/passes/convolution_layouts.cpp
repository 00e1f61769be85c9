#include "workloads/compiler/passes/convolution_layouts.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/passes/window_features.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Shape;

namespace {

using Order = DimensionOrder;

/// Spatial dimensions in logical order, then two others.
Order order_of(Order spatial, std::int64_t above, std::int64_t minor) {
  std::sort(spatial.begin(), spatial.end());
  spatial.push_back(above);
  spatial.push_back(minor);
  return spatial;
}

/// The batch stands before the features in the logical order of images: a gradient of a kernel
/// contracts the batch.
bool contracts_batch(const hlo::ConvolutionDimensions& dims) {
  return dims.input_feature < dims.input_batch;
}

struct Image {
  const Shape* shape;
  std::int64_t batch, features;
};

std::array<Image, 2> images_of(const Shape& input, const Shape& window,
                               const HloInstruction& convolution) {
  const hlo::ConvolutionDimensions& dims = convolution.convolution;
  if (contracts_batch(dims)) {
    return {Image{&input, dims.input_feature, dims.input_batch},
            Image{&window, dims.kernel_input_feature, dims.kernel_output_feature}};
  }
  return {Image{&input, dims.input_batch, dims.input_feature},
          Image{&convolution.shape, dims.output_batch, dims.output_feature}};
}

std::array<Image, 2> images_of(const Computation& computation, const HloInstruction& convolution) {
  return images_of(computation.at(convolution.operands[0]).shape,
                   computation.at(convolution.operands[1]).shape, convolution);
}

double pixels_of(const Image& image) {
  const std::vector<std::int64_t>& extents = image.shape->dimensions;
  const double batch = double(extents[static_cast<std::size_t>(image.batch)]);
  const double features = double(extents[static_cast<std::size_t>(image.features)]);
  return double(image.shape->element_count()) / batch / features;
}

double most_pixels(const Computation& computation, const HloInstruction& convolution) {
  double most = 0;
  for (const Image& image : images_of(computation, convolution)) {
    most = std::max(most, pixels_of(image));
  }
  return most;
}

/// Elementwise operations and reductions between convolutions read or write each image so often.
constexpr double kPasses = 2;
/// Images that are turned where both sides meet, forward and backward, and how much longer a turn
/// takes than its bytes (ResNet-50 with 32 and 64 images: 8 to 12 images in all).
constexpr double kTurns = 6, kTurnFactor = 2;

/// A convolution that has a kernel on the other side alone: in parts, which are copied.
constexpr double kWithoutKernel = 2;
/// Below so many cycles of all convolutions what kernels take to begin and end decides, which their
/// estimates hardly know: the side with fewer padded bytes then.
constexpr double kLeastCycles = 2e5;

/// The convolutions of as many pixels; cycles and bytes with the batch in the rows and in the
/// lanes.
struct OrderGroup {
  std::array<double, 2> cycles{};
  std::array<double, 2> bytes{};
  std::array<double, 2> largest_image{};
};

class Weighing {
 public:
  Weighing(const Computation& computation, ConvolutionKernels& kernels)
      : computation_(computation), kernels_(kernels), target_(kernels.target()) {}

  void add(const HloInstruction& convolution) {
    OrderGroup& group = groups_[most_pixels(computation_, convolution)];
    const std::optional<RowsForm> in_rows = form_in_rows(computation_, convolution, kernels_);
    const std::array<std::optional<double>, 2> kernels{
        in_rows ? std::optional(in_rows->cycles) : std::nullopt, cycles_in_lanes(convolution)};
    for (const bool in_lanes : {false, true}) {
      double bytes = 0;
      for (const Image& image : images_of(computation_, convolution)) {
        const double each = in_lanes ? padded_bytes(*image.shape, image.batch, image.features)
                                     : padded_bytes(*image.shape, image.features, image.batch);
        group.largest_image[in_lanes] = std::max(group.largest_image[in_lanes], each);
        bytes += each;
      }
      group.bytes[in_lanes] += bytes;
      const double other = kernels[!in_lanes].value_or(0);
      group.cycles[in_lanes] += kernels[in_lanes].value_or(kWithoutKernel * other) +
                                kPasses * bytes / target_.hbm_bytes_per_cycle;
    }
  }

  /// The least pixels of a convolution in the lanes; of two bounds that cost the same the lower
  /// one.
  double bound() const {
    OrderGroup all;
    for (const auto& [pixels, group] : groups_) {
      for (const bool in_lanes : {false, true}) {
        all.cycles[in_lanes] += group.cycles[in_lanes];
        all.bytes[in_lanes] += group.bytes[in_lanes];
      }
    }
    if (all.cycles[0] < kLeastCycles) return all.bytes[1] <= all.bytes[0] ? 0 : kNone;
    double best = 0, least = all.cycles[1], cost = least;
    for (auto group = groups_.begin(); group != groups_.end(); ++group) {
      cost += group->second.cycles[0] - group->second.cycles[1];
      const auto next = std::next(group);
      const bool is_last = next == groups_.end();
      const std::array<double, 2>& image = group->second.largest_image;
      const double turns = is_last ? 0 : kTurns * kTurnFactor * (image[0] + image[1]);
      const double with_turns =
          cost + turns / std::min(target_.hbm_bytes_per_cycle, kTurnedBytesPerCycle);
      if (with_turns >= least) continue;
      least = with_turns;
      best = is_last ? kNone : next->first;
    }
    return best;
  }

 private:
  std::optional<double> cycles_in_lanes(const HloInstruction& convolution) {
    return kernels_.cycles(convolution, computation_.at(convolution.operands[0]).shape,
                           computation_.at(convolution.operands[1]).shape, true);
  }

  static constexpr double kNone = std::numeric_limits<double>::infinity();
  const Computation& computation_;
  ConvolutionKernels& kernels_;
  const Target& target_;
  std::map<double, OrderGroup> groups_;  ///< By pixels.
};

bool is_weighed(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kConvolution && instruction.shape.rank() == 4 &&
         instruction.shape.element_count() > 0;
}

}  // namespace

double padded_bytes(const Shape& shape, std::int64_t lanes, std::int64_t rows) {
  const std::int64_t in_lanes = shape.dimensions[static_cast<std::size_t>(lanes)];
  const std::int64_t in_rows = shape.dimensions[static_cast<std::size_t>(rows)];
  return double(shape.unpadded_bytes()) / double(in_lanes * in_rows) *
         double(round_up(in_lanes, 128)) * double(round_up(in_rows, 8));
}

ConvolutionSides::ConvolutionSides(const Computation& computation, ConvolutionKernels& kernels) {
  Weighing weighing(computation, kernels);
  for (const HloInstruction& instruction : computation.instructions) {
    if (is_weighed(instruction)) weighing.add(instruction);
  }
  least_pixels_ = weighing.bound();
}

bool ConvolutionSides::in_lanes(const Computation& computation,
                                const HloInstruction& convolution) const {
  return most_pixels(computation, convolution) >= least_pixels_;
}

std::int64_t features_of_larger_image(const Shape& input, const Shape& window,
                                      const HloInstruction& convolution) {
  const std::array<Image, 2> images = images_of(input, window, convolution);
  const Image& larger = images[pixels_of(images[0]) >= pixels_of(images[1]) ? 0 : 1];
  return larger.shape->dimensions[static_cast<std::size_t>(larger.features)];
}

ConvolutionOrders convolution_orders(const HloInstruction& convolution, bool batch_in_lanes) {
  const hlo::ConvolutionDimensions& dims = convolution.convolution;
  const auto logical = [](const Order& spatial, std::int64_t a, std::int64_t b) {
    return order_of(spatial, std::min(a, b), std::max(a, b));
  };
  const auto image = [&](const Order& spatial, std::int64_t batch, std::int64_t features) {
    return batch_in_lanes ? order_of(spatial, features, batch) : logical(spatial, batch, features);
  };
  if (contracts_batch(dims)) {
    return {image(dims.input_spatial, dims.input_feature, dims.input_batch),
            image(dims.kernel_spatial, dims.kernel_input_feature, dims.kernel_output_feature),
            order_of(dims.output_spatial, dims.output_batch, dims.output_feature)};
  }
  // The kernel of a depthwise convolution has one input feature: no lanes for it.
  const Order kernel =
      convolution.feature_group_count > 1
          ? order_of(dims.kernel_spatial, dims.kernel_input_feature, dims.kernel_output_feature)
          : logical(dims.kernel_spatial, dims.kernel_input_feature, dims.kernel_output_feature);
  return {image(dims.input_spatial, dims.input_batch, dims.input_feature), kernel,
          image(dims.output_spatial, dims.output_batch, dims.output_feature)};
}

}  // namespace tpu::compiler
