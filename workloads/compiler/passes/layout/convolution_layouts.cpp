#include "workloads/compiler/passes/layout/convolution_layouts.h"

#include <algorithm>
#include <array>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/dimension_order.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::Shape;

namespace {

using Order = DimensionOrder;

/// The batch stands before the features in the logical order of images: a gradient of a kernel
/// contracts the batch.
bool contracts_batch(const hlo::ConvolutionDimensions& dims) {
  return dims.input_feature < dims.input_batch;
}

double pixels_of(const Shape& shape, const ImageRoles& roles) {
  const double batch = double(shape.dimensions[static_cast<std::size_t>(roles.batch)]);
  const double features = double(shape.dimensions[static_cast<std::size_t>(roles.features)]);
  return double(shape.element_count()) / batch / features;
}

}  // namespace

std::array<ConvolutionImage, 2> images_of(const HloInstruction& convolution) {
  const hlo::ConvolutionDimensions& dims = convolution.convolution;
  const hlo::InstructionId input = convolution.operands[0];
  if (contracts_batch(dims)) {
    return {ConvolutionImage{input, {dims.input_feature, dims.input_batch}},
            ConvolutionImage{convolution.operands[1],
                             {dims.kernel_input_feature, dims.kernel_output_feature}}};
  }
  return {ConvolutionImage{input, {dims.input_batch, dims.input_feature}},
          ConvolutionImage{convolution.id, {dims.output_batch, dims.output_feature}}};
}

double padded_bytes(const Shape& shape, std::int64_t lanes, std::int64_t rows) {
  const std::int64_t in_lanes = shape.dimensions[static_cast<std::size_t>(lanes)];
  const std::int64_t in_rows = shape.dimensions[static_cast<std::size_t>(rows)];
  return double(shape.unpadded_bytes()) / double(in_lanes * in_rows) *
         double(round_up(in_lanes, 128)) * double(round_up(in_rows, 8));
}

std::vector<std::int64_t> densest_order(const Shape& shape) {
  std::vector<std::int64_t> densest;
  double least = 0;
  for (std::int64_t lanes = 0; lanes < shape.rank(); ++lanes) {
    for (std::int64_t rows = 0; rows < shape.rank(); ++rows) {
      if (rows == lanes) continue;
      const double bytes = padded_bytes(shape, lanes, rows);
      if (!densest.empty() && bytes >= least) continue;
      least = bytes;
      densest = order_with_minor(shape.rank(), rows, lanes);
    }
  }
  return densest;
}

std::int64_t features_of_larger_image(const Shape& input, const Shape& window,
                                      const HloInstruction& convolution) {
  const std::array<ConvolutionImage, 2> images = images_of(convolution);
  const Shape& other = contracts_batch(convolution.convolution) ? window : convolution.shape;
  const bool is_first = pixels_of(input, images[0].roles) >= pixels_of(other, images[1].roles);
  const std::int64_t features = images[is_first ? 0 : 1].roles.features;
  return (is_first ? input : other).dimensions[static_cast<std::size_t>(features)];
}

Order order_of_images(std::int64_t rank, const ImageRoles& roles, bool batch_in_lanes) {
  return batch_in_lanes ? order_with_minor(rank, roles.features, roles.batch)
                        : order_with_minor(rank, std::min(roles.batch, roles.features),
                                           std::max(roles.batch, roles.features));
}

bool has_pixels_in_rows(const HloInstruction& convolution) {
  return convolution.window.size() == 3;
}

ConvolutionOrders convolution_orders(const HloInstruction& convolution, bool batch_in_lanes) {
  const hlo::ConvolutionDimensions& dims = convolution.convolution;
  const std::int64_t rank = convolution.shape.rank();
  const std::array<ConvolutionImage, 2> images = images_of(convolution);
  const auto order = [&](const ImageRoles& roles, const Order& spatial) {
    if (!has_pixels_in_rows(convolution)) return order_of_images(rank, roles, batch_in_lanes);
    Order found{roles.batch};
    found.insert(found.end(), spatial.begin(), spatial.end());
    found.push_back(roles.features);
    return found;
  };
  const Order input = order(images[0].roles, dims.input_spatial);
  if (contracts_batch(dims)) {
    return {input, order(images[1].roles, dims.kernel_spatial),
            order_with_minor(rank, dims.output_batch, dims.output_feature)};
  }
  // The kernel of a depthwise convolution has one input feature: no lanes for it.
  const bool in_given_order =
      convolution.feature_group_count > 1 || dims.kernel_input_feature < dims.kernel_output_feature;
  const Order kernel =
      in_given_order
          ? order_with_minor(rank, dims.kernel_input_feature, dims.kernel_output_feature)
          : order_with_minor(rank, dims.kernel_output_feature, dims.kernel_input_feature);
  return {input, kernel, order(images[1].roles, dims.output_spatial)};
}

}  // namespace tpu::compiler
