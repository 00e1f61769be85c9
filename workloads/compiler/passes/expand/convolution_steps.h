#pragma once

#include <functional>

#include "workloads/compiler/passes/expand/convolution_kernels.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

/// Rewritings of one convolution: each states it in terms of others that are closer to what a
/// kernel takes. A convolution on its way is an instruction of its own whose operands stand in the
/// entry; `emit` writes the ones that a step leaves and returns their values. What a step returns
/// has the shape of the convolution.
///
/// In each spatial dimension, position `o` of the result and position `k` of the window meet the
/// input at (o * stride + k * window dilation - padding) / base dilation, where that is whole.
using EmitConvolution = std::function<GraphEditor::Id(hlo::HloInstruction)>;

/// More positions of the window than of the result: a gradient of a kernel, whose "window" is the
/// gradient of the result.
bool has_large_window(const hlo::HloInstruction& convolution);

/// Whether pixels at the begin of a dimension are cut off, and some are left.
bool cuts_pixels(const GraphEditor& edit, const hlo::HloInstruction& convolution);
/// Negative padding at the begin becomes a slice of the input.
hlo::HloInstruction cut_pixels(GraphEditor& edit, hlo::HloInstruction convolution);

/// A convolution with one more spatial dimension, of extent 1: the first one, or behind the one in
/// front of `index`; and the shapes that its operands become.
struct SpatialForm {
  hlo::HloInstruction convolution;  ///< Its operands are still those without it.
  hlo::Shape input, window;
};
SpatialForm with_spatial_dimension(hlo::HloInstruction convolution, const hlo::Shape& input,
                                   const hlo::Shape& window, std::size_t index);
/// The same with its operands; the result in the shape of `convolution`.
GraphEditor::Id add_spatial_dimension(GraphEditor& edit, hlo::HloInstruction convolution,
                                      std::size_t index, const EmitConvolution& emit);

/// Spatial dimension `index` goes: positions of the result into the batch, those of the window into
/// the features. The input is read once for each position of the smaller of both.
GraphEditor::Id unroll_spatial_dimension(GraphEditor& edit, hlo::HloInstruction convolution,
                                         std::size_t index, const EmitConvolution& emit);

/// Whether input and window can change places: no groups, reversal or window dilation.
bool can_exchange_operands(const hlo::HloInstruction& convolution);
/// Input and window change places; a base dilation becomes a window dilation. The result is
/// computed backwards.
GraphEditor::Id exchange_operands(GraphEditor& edit, hlo::HloInstruction convolution,
                                  const EmitConvolution& emit);

/// Whether a dimension has one step that split_in_phases() can take out.
bool has_phases(const hlo::WindowDimension& window);
/// Takes the stride, window dilation or base dilation s of spatial dimension `index` out ("space to
/// depth"): pixel s * q + r of two of the arrays becomes pixel q with r among its features (of its
/// batch). A window of s positions becomes one of a single position.
GraphEditor::Id split_in_phases(GraphEditor& edit, hlo::HloInstruction convolution,
                                std::size_t index, const EmitConvolution& emit);

/// Results of spatial dimension `index` that a part of split_positions() has, or positions of a
/// large window.
std::int64_t splittable_positions(const hlo::HloInstruction& convolution, std::size_t index);
/// The part of `count` of these positions from `begin` on, of the input that it meets. Operands are
/// written.
hlo::HloInstruction part_of_positions(GraphEditor& edit, const hlo::HloInstruction& convolution,
                                      std::size_t index, std::int64_t begin, std::int64_t count);
/// Images whose rows are too long for a kernel: results in parts of `count`, one beside the other,
/// or parts of a large window, whose results are added.
GraphEditor::Id split_positions(GraphEditor& edit, const hlo::HloInstruction& convolution,
                                std::size_t index, std::int64_t count, const EmitConvolution& emit);

/// How often patches, or an unrolled dimension, have the input's pixels along a dimension.
std::int64_t copies_of(const hlo::HloInstruction& convolution, std::size_t index);

/// The gradient of a kernel over a line of pixels, an image of one row (no dilated base, not
/// reversed), as that over an image of as many rows, one below the other: each row has the pixels
/// that its part of the line meets. In bf16, as the MXUs take it.
struct LineInRows {
  hlo::HloInstruction convolution;  ///< Its operands are still those of the line.
  hlo::Shape input, window;         ///< What they become.
};
LineInRows line_in_rows(const GraphEditor& edit, const hlo::HloInstruction& image,
                        std::int64_t rows);
/// The same with its operands.
hlo::HloInstruction write_in_rows(GraphEditor& edit, const hlo::HloInstruction& image,
                                  const LineInRows& form);

/// Each result of spatial dimension `index` by itself, of the pixels that it meets: of a large
/// window whose input is read where it stands. The dimension has no dilations.
GraphEditor::Id result_by_result(GraphEditor& edit, const hlo::HloInstruction& convolution,
                                 std::size_t index, const EmitConvolution& emit);

/// Of features or of the batch; 1: none.
std::int64_t groups_of(const hlo::HloInstruction& convolution);
/// Groups become convolutions without them: as many groups together as fill 128 features, with
/// kernels that are 0 between groups.
GraphEditor::Id separate_groups(GraphEditor& edit, hlo::HloInstruction convolution,
                                const EmitConvolution& emit);

/// Whether a dot of all patches whose batch is the groups is expected to take less than
/// separate_groups().
bool is_less_as_dot(const GraphEditor& edit, const hlo::HloInstruction& convolution,
                    ConvolutionKernels& kernels);

/// A convolution as a dot of all patches of the input and the kernel; groups are its batch.
GraphEditor::Id convolution_as_dot(GraphEditor& edit, const hlo::HloInstruction& convolution);

/// What a convolution's operand is moved as on its way to the kernel: bf16, to which the MXUs round
/// it in any case; one that is taken in parts stays as it is, and so does one of the vector unit,
/// which multiplies by groups.
hlo::ElementType rounded_type(const hlo::HloInstruction& convolution, hlo::ElementType type);
GraphEditor::Id rounded(GraphEditor& edit, const hlo::HloInstruction& convolution,
                        GraphEditor::Id operand);

/// One feature in each group and one result of it, forward and input gradient, or the gradient of
/// such a kernel.
bool is_depthwise(const GraphEditor& edit, const hlo::HloInstruction& convolution);
bool is_depthwise(const hlo::Shape& input, const hlo::HloInstruction& convolution);
/// A depthwise convolution without spatial dimension `index`: one for each position of the window
/// (of the result of a gradient of a kernel), over images of which more stand one behind the other.
GraphEditor::Id unroll_by_planes(GraphEditor& edit, const hlo::HloInstruction& convolution,
                                 std::size_t index, const EmitConvolution& emit);
/// A depthwise convolution as products and sums of shifted inputs in f32, one per position of the
/// window (of the result of a gradient of a kernel).
GraphEditor::Id depthwise_as_products(GraphEditor& edit, const hlo::HloInstruction& convolution);

}  // namespace tpu::compiler
