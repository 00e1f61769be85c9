#pragma once

#include <functional>
#include <map>
#include <optional>

#include "workloads/compiler/passes/expand/convolution_steps.h"

namespace tpu::compiler {

/// A convolution of few images as one of many: `count` strips of each image are images of their
/// own, with the pixels of their neighbours that they meet ("space to batch"). The batch fills the
/// rows of tiles then. In the gradient of a kernel strips of both operands meet. In bf16, as the
/// MXUs take it.
struct ImageStrips {
  hlo::HloInstruction convolution;  ///< Its operands are still whole images.
  hlo::Shape input, window;         ///< What they become.
  std::size_t index;                ///< The spatial dimension that is cut.
  std::int64_t count;
  std::int64_t own;    ///< Pixels of the input by strip, without those of its neighbours.
  std::int64_t first;  ///< The first pixel that a strip meets, from its own first one on.
};

/// Of equal strips alone, none of which meets more than its two neighbours; none: there are no
/// such.
std::optional<ImageStrips> image_strips(const GraphEditor& edit,
                                        const hlo::HloInstruction& convolution, std::size_t index,
                                        std::int64_t count);
/// The same with its operands; the result in the shape of `convolution`.
GraphEditor::Id write_in_strips(GraphEditor& edit, const hlo::HloInstruction& convolution,
                                const ImageStrips& form, const EmitConvolution& emit);

/// Whether a kernel takes a convolution as it is, and no other form is better.
using IsDirect = std::function<bool(const hlo::HloInstruction&)>;

/// Which of these convolutions of the entry, of up to four images, take less in strips: by what the
/// searches of kernels expect, what strips take to make, and moving each image that others read or
/// make as a whole (convolutions that stay, windows, reshapes).
std::map<hlo::InstructionId, ImageStrips> strips_that_take_less(const hlo::Module& module,
                                                                const GraphEditor& edit,
                                                                ConvolutionKernels& kernels,
                                                                const IsDirect& is_direct);

}  // namespace tpu::compiler
