#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: sums over what a convolution makes, and over elementwise operations on it, are such that
/// its kernel can make them.
///
/// - A sum of an image without its dimensions of extent 1 (a line of pixels) is a sum of the image.
/// - A sum for each example, or of everything (the mean and variance of a normalisation over all
///   features, a loss), is a sum over the pixels for each example and feature, and the sum of
///   those.
///
/// Images that take less time than a second kernel stay as they are.
///
/// Needs: layouts; find_bitcasts. Leaves: the same values but for the order of sums.
void sum_images_behind_convolutions(hlo::Module& module, double hbm_bytes_per_cycle);

}  // namespace tpu::compiler
