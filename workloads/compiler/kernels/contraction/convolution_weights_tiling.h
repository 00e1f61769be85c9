#pragma once

#include <optional>

#include "workloads/compiler/kernels/contraction/contraction_plan.h"
#include "workloads/compiler/kernels/contraction/convolution_problem.h"
#include "workloads/compiler/kernels/contraction/pixel_lines.h"
#include "workloads/compiler/kernels/contraction/turned_runs.h"
#include "workloads/compiler/kernels/refusal.h"

namespace tpu::compiler {

/// How a weight gradient is cut. Contracted are the batch rows of a group of neighbouring pixels of
/// a row at a time, 16 tiles of 8 or fewer. A batch of at most 4 leaves half of a tile and more to
/// padding: then neighbouring pixels share one.
struct WeightsTiling {
  std::uint32_t block_batch = 1;    ///< Tiles of 8 of the batch.
  std::uint32_t tile_pixels = 1;    ///< Pixels that share a tile of 8.
  std::uint32_t group = 1;          ///< Pixels of the result's gradient.
  std::uint32_t block_y = 1;        ///< Rows of the result's gradient.
  std::uint32_t block_columns = 1;  ///< Column tiles of 128.
  std::uint32_t block_rows = 1;     ///< Row tiles of 128 (input features).
  std::uint32_t part_groups = 1;    ///< Groups whose input is transposed at a time.
  std::uint32_t parts = 1;          ///< Of a row.
  std::uint32_t step_units = 1;     ///< Pairs of (position of the window, tile of input features).
  std::uint32_t columns_at_once = 1;  ///< Neighbouring column tiles of a step (MatmulUnits); the
                                      ///< other units take other groups of pixels.
  std::uint32_t group_parts = 1;      ///< Groups that an array contracts at once.
  /// Groups at once are of neighbouring rows of pixels, not of one row: rows may have few.
  bool splits_rows = false;
  /// Packed pixels are turned once (TurnedRuns): of two neighbouring groups one has the even rows
  /// of the pixels of both, the other one the odd rows.
  bool turns_runs = false;
  /// The input's groups stand side by side, each turned once, and the gradient's begin some pixels
  /// before them, as the position of the window says, its lines with zeros on both sides. Else the
  /// gradient's groups stand side by side, and the input is turned for each position in a row of
  /// the window. (With pixels in rows the side that begins at any pixel is lined up.)
  bool moves_gradient = false;
  double cycles = 0;
};

/// Dimensions of the grid.
struct WeightsGrid {
  static constexpr int kColumns = 0, kRows = 1, kBatch = 2, kY = 3;
};

/// The sizes that follow from a problem and its cut.
struct WeightsSizes : WeightsGrid {
  WeightsSizes(const ConvolutionProblem& problem, const WeightsTiling& tiling,
               const Target& target);

  std::uint32_t batch_tiles, all_row_tiles, column_tiles;
  std::uint32_t row_tiles;  ///< Of 128 input features, in a block.
  /// Gradient pixels; positions. With pixels in rows, here and below, those of a row of the image
  /// are counted by eights.
  std::uint32_t out_y, out_x, window_y, window_x;
  std::uint32_t group_tiles;   ///< Of 8 rows, contracted at a time.
  std::uint32_t unit_tiles;    ///< Row tiles of 8 of a unit: 16, or all where there are fewer.
  std::uint32_t groups;        ///< Of a row, rounded up for parts.
  std::uint32_t units;         ///< Rounded up for steps.
  std::uint32_t walked_x;      ///< Positions in a row that steps go through, each with its groups.
  std::uint32_t walked_units;  ///< Units of each of those.
  std::uint32_t margin;        ///< Pixels from the begin of a line that the first position in a
                               ///< row reads to that of the last one.
  std::uint32_t left_out;      ///< Of the zeros before a line of the input: no group has them.
  std::uint32_t line_pixels;   ///< Of a line of the gradient, margin and rounding included.
  std::uint32_t slab_y, slab_x;  ///< Pixels of the input for a block.
  std::uint32_t starts;          ///< Groups of input pixels that a part transposes, per row.
  std::uint32_t input_tile, gradient_tile;    ///< VMEM rows of a tile.
  std::uint32_t input_pixel, gradient_pixel;  ///< VMEM rows.
  std::uint64_t transposed_rows, sum_rows;    ///< VMEM rows.
  bool sums_apart;
  std::optional<TurnedRuns> runs;
  std::uint32_t input_x;  ///< Pixels of a row of the input.
  /// With pixels in rows, of a block of the input, or of the gradient where that moves.
  PixelLines lines;
  ContractionPlan plan;

 private:
  void set_runs(const ConvolutionProblem& problem, const WeightsTiling& tiling);
  void set_lines(const ConvolutionProblem& problem, const WeightsTiling& tiling);
  void set_blocks(const ConvolutionProblem& problem, const WeightsTiling& tiling);
  void set_steps(const ConvolutionProblem& problem, const WeightsTiling& tiling,
                 const Target& target);
};

/// Pixels of a line that groups have where the gradient moves: those of the image and what else the
/// gradient's line needs for room.
std::uint32_t moved_line(const ConvolutionProblem& problem);

/// Pixels that may share a tile: 8 rows over those of a batch of 1, 2 or 4. Rows of bf16 stand in
/// pairs, which stay together.
std::uint32_t most_tile_pixels(const ConvolutionProblem& problem);

/// Pixels of a row of the result's gradient; with pixels in rows eights of them.
std::uint32_t gradient_pixels(const ConvolutionProblem& problem);

OrRefusal<WeightsTiling> find_weights_tiling(const ConvolutionProblem& problem,
                                             const Target& target);

}  // namespace tpu::compiler
