#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

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

/// Kernels that make strips and put their results together: a turn, two neighbours (slices, pads),
/// a concatenation, a turn back.
inline constexpr double kStripKernels = 7;

/// Strips of the last spatial dimension of fewer examples than a tile has lanes, which fill at
/// least half of them.
std::optional<ImageStrips> strips_that_fill_lanes(const GraphEditor& edit,
                                                  const hlo::HloInstruction& convolution);

/// The convolutions of lines of the entry with fewer features than `few` on one side whose images,
/// with what elementwise operations make of them, only such convolutions and sums read and make: no
/// other wants the image of more features as it is.
std::set<hlo::InstructionId> lines_of_few_features(const hlo::Module& module, std::int64_t few);

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
