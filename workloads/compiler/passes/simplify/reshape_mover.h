#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: elementwise operations on the reshape of a product (the heads of an attention, the images
/// of a convolution that became a matrix, the line of pixels that became an image, images that were
/// cut into strips) are done on the product, and the reshape comes behind them: so they become a
/// part of its kernel, which works on its own extent. Sums of images are those of their strips.
/// What is broadcast to the reshaped extent is broadcast to that of the product.
///
/// Needs: a verified module without call and fusion in the entry, products in the forms that have
/// kernels; layouts not assigned yet.
/// Leaves: the same values. Pass `simplify` removes what nobody reads.
void move_reshapes(hlo::Module& module);

}  // namespace tpu::compiler
