#pragma once

#include <cstdint>
#include <vector>

#include "workloads/compiler/passes/convolution_kernels.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Which convolutions of a computation have the batch of their images in the lanes, the others in
/// the rows of tiles.
///
/// In the lanes, a tile holds 8 features of 128 examples, which suits large batches and few
/// features; in the rows, 128 features of 8 examples, and gradients of kernels turn their operands.
/// Networks begin with many pixels of few features and end with few pixels of many: convolutions of
/// so many pixels or more are in the lanes, with the bound where what the kernels' searches expect,
/// what passes over the images take, and turning the images at the bound are least together. Small
/// networks take the side with fewer padded bytes as a whole.
class ConvolutionSides {
 public:
  ConvolutionSides(const hlo::Computation& computation, ConvolutionKernels& kernels);

  bool in_lanes(const hlo::Computation& computation, const hlo::HloInstruction& convolution) const;
  bool operator==(const ConvolutionSides& other) const {
    return least_pixels_ == other.least_pixels_;
  }

 private:
  double least_pixels_ = 0;  ///< Of the larger image of a convolution in the lanes.
};

/// Bytes of an array with one dimension in the lanes and one in the rows of tiles.
double padded_bytes(const hlo::Shape& shape, std::int64_t lanes, std::int64_t rows);

/// The features of the image with more pixels: of the input, of the result where the convolution
/// spreads pixels.
std::int64_t features_of_larger_image(const hlo::Shape& input, const hlo::Shape& window,
                                      const hlo::HloInstruction& convolution);

/// The physical orders, major to minor, of a convolution's operands and of its result: spatial
/// dimensions first; kernels then in logical order, their gradients with the output features in the
/// lanes, as the kernels of gradients make them, images by ConvolutionSides.
struct ConvolutionOrders {
  std::vector<std::int64_t> input, window, output;
};
ConvolutionOrders convolution_orders(const hlo::HloInstruction& convolution, bool batch_in_lanes);

}  // namespace tpu::compiler
