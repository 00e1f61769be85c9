#include "workloads/compiler/passes/convolution_layouts.h"

#include <algorithm>

#include "sim/base/ceil_divide.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Shape;

namespace {

using Order = std::vector<std::int64_t>;

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

std::vector<Image> images_of(const Computation& computation, const HloInstruction& convolution) {
  const hlo::ConvolutionDimensions& dims = convolution.convolution;
  const Shape& input = computation.at(convolution.operands[0]).shape;
  const Shape& window = computation.at(convolution.operands[1]).shape;
  if (contracts_batch(dims)) {
    return {{&input, dims.input_feature, dims.input_batch},
            {&window, dims.kernel_input_feature, dims.kernel_output_feature}};
  }
  return {{&input, dims.input_batch, dims.input_feature},
          {&convolution.shape, dims.output_batch, dims.output_feature}};
}

std::int64_t rounded(std::int64_t extent, std::int64_t tile) { return round_up(extent, tile); }

}  // namespace

bool has_batch_in_lanes(const Computation& computation) {
  double in_lanes = 0, in_rows = 0;
  for (const HloInstruction& instruction : computation.instructions) {
    if (instruction.opcode != HloOpcode::kConvolution || instruction.shape.rank() != 4) continue;
    for (const Image& image : images_of(computation, instruction)) {
      const auto extent = [&](std::int64_t d) {
        return image.shape->dimensions[static_cast<std::size_t>(d)];
      };
      const std::int64_t batch = extent(image.batch), features = extent(image.features);
      const double pixels = double(image.shape->unpadded_bytes()) / double(batch * features);
      in_lanes += pixels * double(rounded(batch, 128) * rounded(features, 8));
      in_rows += pixels * double(rounded(features, 128) * rounded(batch, 8));
    }
  }
  return in_lanes > 0 && in_lanes <= in_rows;
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
            logical(dims.output_spatial, dims.output_batch, dims.output_feature)};
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
