#pragma once

#include <cstdint>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Whether the images of convolutions have their batch in the lanes or in the rows of tiles.
///
/// In the lanes, a tile holds 8 features of 128 examples, which suits large batches and few
/// features; in the rows, 128 features of 8 examples. All convolutions of a computation take the
/// same side, so that nothing between them has to be turned: that with fewer padded bytes over all
/// their images, the lanes where both are equal (gradients of kernels then turn nothing at all).
bool has_batch_in_lanes(const hlo::Computation& computation);

/// The physical orders, major to minor, of a convolution's operands and of its result: spatial
/// dimensions first; kernels and their gradients then in logical order, images by
/// has_batch_in_lanes().
struct ConvolutionOrders {
  std::vector<std::int64_t> input, window, output;
};
ConvolutionOrders convolution_orders(const hlo::HloInstruction& convolution, bool batch_in_lanes);

}  // namespace tpu::compiler
