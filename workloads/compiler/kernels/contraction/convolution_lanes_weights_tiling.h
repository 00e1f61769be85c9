#pragma once

#include <array>
#include <vector>

#include "workloads/compiler/kernels/contraction/contraction_plan.h"
#include "workloads/compiler/kernels/contraction/convolution_problem.h"
#include "workloads/compiler/kernels/contraction/matmul_stream.h"
#include "workloads/compiler/kernels/refusal.h"

namespace tpu::compiler {

/// How a weight gradient whose batch lies in the lanes is cut. Contracted are 128 of the batch at a
/// time.
struct LanesWeightsTiling {
  /// What the MXUs do at the same time.
  enum class Split : std::uint8_t {
    kColumns,  ///< Neighbouring tiles of 128 features of the gradient.
    kGroups,   ///< Neighbouring groups of pixels.
    kRows,     ///< Neighbouring rows of pixels.
  };
  Split split = Split::kGroups;
  std::uint32_t block_columns = 1;  ///< Tiles of 8 features of the gradient.
  std::uint32_t block_rows = 1;     ///< Tiles of 8 features of the input.
  std::uint32_t block_y = 1;        ///< Rows of the gradient.
  std::uint32_t group = 1;          ///< Neighbouring pixels of it that fill an MXU tile's columns.
  std::uint32_t groups = 1;         ///< Of a row, rounded up for the split.
  std::uint32_t chunk = 1;          ///< Tiles of the input that a step streams.
  double cycles = 0;
};

/// How a split uses the arrays: all their column parts for neighbouring columns; else all their row
/// parts, each for another piece of what is contracted.
MatmulUnits matmul_units(LanesWeightsTiling::Split split, const Target& target);

/// Pixels of the input that a group of neighbouring pixels meets, (row, column) from its first one
/// on.
using Patch = std::vector<std::array<std::uint32_t, 2>>;
Patch patch_of(const ConvolutionProblem& problem, std::uint32_t group);

/// Dimensions of the grid.
struct LanesWeightsGrid {
  static constexpr int kColumns = 0, kRows = 1, kBatch = 2, kY = 3;
};

/// The sizes that follow from a problem and its cut.
struct LanesWeightsSizes : LanesWeightsGrid {
  LanesWeightsSizes(const ConvolutionProblem& problem, const LanesWeightsTiling& tiling,
                    Patch patch, const Target& target);

  std::uint32_t batch_tiles;                       ///< Of 128.
  std::uint32_t all_row_tiles, all_column_tiles;   ///< Of 8 features.
  std::uint32_t lane_tiles;                        ///< Of 128 gradient features, in a block.
  std::uint32_t out_y, out_x, window_y, window_x;  ///< Gradient pixels; positions.
  std::uint32_t slab_y, slab_x;                    ///< Pixels of the input for a block.
  Patch patch;
  std::uint32_t run_tiles, runs;              ///< Neighbouring tiles of a step; how many such.
  std::uint32_t units;                        ///< Steps that stream all tiles of a group.
  std::uint32_t input_pixel, gradient_pixel;  ///< VMEM rows.
  std::uint32_t sum_pitch;                    ///< VMEM rows of the sums of a lane tile.
  std::uint64_t sum_rows, product_rows;       ///< VMEM rows.
  std::uint32_t smem_words;
  bool products_apart;  ///< The product is not the result, or not of its type.
  ContractionPlan plan;

 private:
  void set_blocks(const ConvolutionProblem& problem, const LanesWeightsTiling& tiling);
  void set_steps(const ConvolutionProblem& problem, const LanesWeightsTiling& tiling);
};

OrRefusal<LanesWeightsTiling> find_lanes_weights_tiling(const ConvolutionProblem& problem,
                                                        const Target& target);
/// Whether there is one.
bool has_lanes_weights_tiling(const ConvolutionProblem& problem, const Target& target);

}  // namespace tpu::compiler
