#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/made_side.h"
#include "workloads/compiler/ir/operand_parts.h"
#include "workloads/compiler/kernels/refusal.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// With the batch in the lanes: pushes of a step per MXU, and words of SMEM that a kernel's tables
/// may take, at most.
inline constexpr std::uint32_t kLongestStep = 48;
inline constexpr std::uint32_t kMostWords = 1800;

/// How one spatial dimension of a convolution moves: position `out` of the result and position `k`
/// of the window meet the input at (out * stride + k * window_dilation - padding) / base_dilation,
/// where that is whole and inside.
struct SpatialDimension {
  std::int64_t input = 1, window = 1, output = 1;
  std::int64_t stride = 1, window_dilation = 1, base_dilation = 1, padding = 0;
  bool reversed = false;  ///< The window is read backwards.
};

/// A convolution of arrays that lie with their spatial dimensions (height, width) outermost, or of
/// such with their pixels in rows.
struct ConvolutionProblem {
  std::string name;
  std::array<SpatialDimension, 2> spatial;
  /// False: input (H, W, rows, contracted), window (h, w, contracted, columns), result (H, W, rows,
  /// columns): forward and input gradient. True: input (H, W, contracted, rows), window (H, W,
  /// contracted, columns), result (h, w, rows, columns): weight gradient.
  bool contracts_rows = false;
  bool window_transposed = false;  ///< The window lies as (h, w, columns, contracted).
  /// The batch lies in the lanes. Forward and input gradient: input (H, W, contracted, rows),
  /// result (H, W, columns, rows). Weight gradient: input (H, W, rows, contracted), window (H, W,
  /// columns, contracted).
  bool batch_in_lanes = false;
  /// Neighbours of a row of the image, eight of them, stand in the rows of a tile: input and result
  /// (image, H, W, features), `images` of them, each by itself; `rows` is the width of the result.
  /// Weight gradient: both operands so, contracted are eight pixels of a tile.
  bool pixels_in_rows = false;
  std::uint32_t images = 1;
  /// As many groups as features, one feature each: `columns` features, nothing contracted but, in a
  /// weight gradient, the batch (`rows`).
  bool is_depthwise = false;
  std::uint32_t rows = 1, columns = 1, contracted = 1;
  hlo::ElementType input_type = hlo::ElementType::kF32;
  hlo::ElementType window_type = hlo::ElementType::kF32;
  OperandParts parts{1, 1};  ///< Of the input and the window.
  /// Of the results in step with the product; one of a depthwise convolution.
  std::vector<hlo::ElementType> result_types{hlo::ElementType::kF32};
  bool has_epilogue = false;
  VectorCost epilogue_cost;                      ///< Per tile of the result.
  std::vector<hlo::ElementType> epilogue_types;  ///< Of operands in step with the result.
  std::uint64_t resident_rows = 0;  ///< VMEM for operands that stay behind the product.
  MadeSides made;                   ///< The input and the window.

  hlo::ElementType out_type() const { return result_types.front(); }
  /// Results behind the first that are rounded.
  std::uint64_t further_packed() const;
  /// One position of the window by one, no stride, no padding: a product of matrices.
  bool is_product() const;
};

/// Reads a convolution instruction whose arrays have the given shapes (with layouts). Refuses, with
/// name, shapes and window, what no kernel does.
OrRefusal<ConvolutionProblem> convolution_problem(const hlo::HloInstruction& convolution,
                                                  const hlo::Shape& input, const hlo::Shape& window,
                                                  const hlo::Shape& out);

/// The same convolution with all pixels in short lines, where they are independent of each other:
/// as many neighbours as fill the rows of the MXU with their features, or divide the pixels.
ConvolutionProblem with_flat_pixels(const ConvolutionProblem& problem);

/// A position of the window, as a kernel for results in rows of pixels sees it. Results are taken
/// in `phases` (the base dilation): pixel q of phase p is pixel q * phases + p of the result and
/// meets the input at q * stride + shift.
struct Tap {
  std::uint32_t window = 0;              ///< Position in memory: h * width + w.
  std::array<std::uint32_t, 2> phase{};  ///< Which pixels of the result it adds to.
  std::array<std::int64_t, 2> shift{};
  bool starts = false;  ///< The first one of its phase.
};

/// All positions of the window that meet the input at all.
std::vector<Tap> taps_of(const ConvolutionProblem& problem);

}  // namespace tpu::compiler
