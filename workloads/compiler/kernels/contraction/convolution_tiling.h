#pragma once

#include <optional>

#include "workloads/compiler/kernels/contraction/contraction_plan.h"
#include "workloads/compiler/kernels/contraction/convolution_problem.h"
#include "workloads/compiler/kernels/contraction/pixel_lines.h"
#include "workloads/compiler/kernels/contraction/window_join.h"
#include "workloads/compiler/kernels/refusal.h"

namespace tpu::compiler {

/// How a forward convolution or input gradient is cut. Blocks are some rows of the image over some
/// of the batch; pixels are those of one phase (see Tap).
struct ConvolutionTiling {
  std::uint32_t block_rows = 1;        ///< Tiles of 8 of the batch.
  std::uint32_t block_y = 1;           ///< Rows of pixels.
  std::uint32_t block_columns = 1;     ///< Column tiles of 128 of the result.
  std::uint32_t chunk_x = 1;           ///< Pixels of a row that one step streams; divides pixels_x.
  std::uint32_t chunk_y = 1;           ///< Rows of them, whole ones where several; divides block_y.
  std::uint32_t pixels_x = 1;          ///< Pixels of a row, rounded up where that helps.
  std::uint32_t columns_at_once = 1;   ///< Neighbouring column tiles of a step (MatmulUnits).
  std::uint32_t contracted_parts = 1;  ///< Tiles of contracted features of a step.
  JoinedPositions joined;              ///< Of the window, that a step contracts.
  double cycles = 0;                   ///< What the search expects.
};

/// Dimensions of the grid.
struct ConvolutionGrid {
  static constexpr int kColumns = 0, kRows = 1, kY = 2;
};

/// The sizes that follow from a problem and its cut.
struct ConvolutionSizes : ConvolutionGrid {
  ConvolutionSizes(const ConvolutionProblem& problem, const ConvolutionTiling& tiling,
                   const Target& target)
      : ConvolutionSizes(problem, tiling, target, taps_of(problem)) {}
  /// With the taps_of(problem), for a search that makes many.
  ConvolutionSizes(const ConvolutionProblem& problem, const ConvolutionTiling& tiling,
                   const Target& target, const std::vector<Tap>& taps);

  std::uint32_t row_tiles, column_tiles, contracted_tiles;  ///< Of the whole arrays.
  std::uint32_t phases_y, phases_x;
  std::uint32_t pixels_y;                 ///< Of a phase, whole result.
  std::int64_t shift_y = 0, shift_x = 0;  ///< Least shifts of the taps.
  /// Pixels of the input that a block reads. With pixels in rows, here and below, those of a row of
  /// the image are counted by eights.
  std::uint32_t slab_y, slab_x;
  std::uint32_t input_x, result_x;  ///< Pixels of a row of the input and of the result.
  std::uint32_t images;             ///< Blocks along the batch.
  std::uint32_t out_y, out_x;       ///< Pixels of the result that a block computes.
  /// Rows of tiles of a position of the window: whole MXU tiles, or fewer where there is one.
  std::uint32_t window_row_tiles;
  std::uint32_t input_pixel, window_tap, sum_pixel;  ///< VMEM rows.
  std::uint32_t input_tile, window_tile;             ///< VMEM rows of a tile.
  /// VMEM rows from a tile of contracted features of the slab to the next one.
  std::uint32_t input_part;
  PixelLines lines;        ///< Of a block with pixels in rows.
  std::uint64_t sum_rows;  ///< VMEM rows.
  bool sums_apart;
  std::optional<WindowJoin> join;  ///< Where several positions are contracted at once.
  ContractionPlan plan;

 private:
  void set_slab(const ConvolutionProblem& problem, const ConvolutionTiling& tiling,
                const std::vector<Tap>& taps);
  void set_blocks(const ConvolutionProblem& problem, const ConvolutionTiling& tiling);
  void set_join(const ConvolutionProblem& problem, const ConvolutionTiling& tiling,
                const Target& target);
  void set_steps(const ConvolutionProblem& problem, const ConvolutionTiling& tiling,
                 std::size_t taps);
};

OrRefusal<ConvolutionTiling> find_convolution_tiling(const ConvolutionProblem& problem,
                                                     const Target& target);

}  // namespace tpu::compiler
