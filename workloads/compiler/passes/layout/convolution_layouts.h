#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Bytes of an array with one dimension in the lanes and one in the rows of tiles.
double padded_bytes(const hlo::Shape& shape, std::int64_t lanes, std::int64_t rows);

/// The order, major to minor, in which an array takes the fewest bytes; of equal ones the first in
/// logical order.
std::vector<std::int64_t> densest_order(const hlo::Shape& shape);

/// Which dimensions of an array of images are what.
struct ImageRoles {
  std::int64_t batch, features;
};

/// An array of images that a convolution reads or makes.
struct ConvolutionImage {
  hlo::InstructionId id;
  ImageRoles roles;
};

/// Its input and its result; of a gradient of a kernel both operands.
std::array<ConvolutionImage, 2> images_of(const hlo::HloInstruction& convolution);

/// The features of the image with more pixels: of the input, of the result where the convolution
/// spreads pixels.
std::int64_t features_of_larger_image(const hlo::Shape& input, const hlo::Shape& window,
                                      const hlo::HloInstruction& convolution);

/// The physical order, major to minor, of images: spatial dimensions, then the two others in
/// logical order, or the batch last.
std::vector<std::int64_t> order_of_images(std::int64_t rank, const ImageRoles& roles,
                                          bool batch_in_lanes);

/// Whether a convolution takes and makes images with their pixels in the rows of tiles: one of
/// three spatial dimensions does, which are all in their order between the batch and the features.
bool has_pixels_in_rows(const hlo::HloInstruction& convolution);

/// The physical orders, major to minor, of a convolution's operands and of its result: spatial
/// dimensions first; kernels then in logical order, their gradients with the output features in the
/// lanes, as the kernels of gradients make them, images by ConvolutionSides.
struct ConvolutionOrders {
  std::vector<std::int64_t> input, window, output;
};
ConvolutionOrders convolution_orders(const hlo::HloInstruction& convolution, bool batch_in_lanes);

}  // namespace tpu::compiler
