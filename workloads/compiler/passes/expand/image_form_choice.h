#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "workloads/compiler/passes/expand/convolution_kernels.h"
#include "workloads/compiler/passes/expand/convolution_steps.h"
#include "workloads/compiler/passes/expand/convolution_strips.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

/// Whether a kernel takes a convolution as it is, and no other form is better.
using IsDirect = std::function<bool(const hlo::HloInstruction&)>;

/// Convolutions that take less in another form than with their batch in the rows or in the lanes.
struct ImageForms {
  std::map<hlo::InstructionId, ImageStrips> strips;
  std::set<hlo::InstructionId> pixels_in_rows;  ///< With a third spatial dimension.
};

/// Which of the convolutions of the entry, of fewer images than a tile has rows, do so: by what the
/// searches of kernels expect, what strips take to make, moving each image that others read or make
/// in another form (convolutions that stay, windows, reshapes), and the elementwise operations over
/// images. The convolutions of an image, of those that lie like it and so on have one form or stay.
ImageForms image_forms_that_take_less(const hlo::Module& module, const GraphEditor& edit,
                                      ConvolutionKernels& kernels, const IsDirect& is_direct);

/// A convolution with its pixels in the rows of tiles.
struct PixelsInRows {
  double cycles;                     ///< Of its kernel.
  std::array<hlo::Shape, 2> images;  ///< As that has them.
};
/// Of fewer images, or lines, than a tile has rows; none: there are more, or there is no kernel.
std::optional<PixelsInRows> with_pixels_in_rows(const hlo::HloInstruction& convolution,
                                                const hlo::Shape& input, const hlo::Shape& window,
                                                ConvolutionKernels& kernels);

/// The convolutions of lines of the entry with fewer features than `few` on one side whose images,
/// with what elementwise operations make of them, only such convolutions and sums read and make: no
/// other wants the image of more features as it is.
std::set<hlo::InstructionId> lines_of_few_features(const hlo::Module& module, std::int64_t few);

}  // namespace tpu::compiler
