#pragma once

#include <cstdint>
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
  /// The strips' own pixels are all of the image: what they meet of their neighbours is taken from
  /// these. Else (windows without padding around the image) the padded image is cut twice.
  bool parts_input;
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

/// As many strips as fill the rows of tiles, of the rows of images or else of their columns.
std::optional<ImageStrips> strips_that_fill_tiles(const GraphEditor& edit,
                                                  const hlo::HloInstruction& convolution);

}  // namespace tpu::compiler
