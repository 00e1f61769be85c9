#pragma once

#include "workloads/compiler/kernels/contraction/contraction_plan.h"
#include "workloads/compiler/kernels/contraction/convolution_patches.h"
#include "workloads/compiler/kernels/contraction/convolution_problem.h"
#include "workloads/compiler/kernels/contraction/matmul_stream.h"
#include "workloads/compiler/kernels/refusal.h"

namespace tpu::compiler {

/// How a forward convolution or input gradient whose batch lies in the lanes is cut. A block is
/// some pixels of some rows of the result, 128 of the batch and some features.
struct LanesTiling {
  /// What the MXUs do at the same time.
  enum class Split : std::uint8_t {
    kFeatures,  ///< Parts of the features of one group of pixels.
    kGroups,    ///< Neighbouring groups.
    kRows,      ///< Neighbouring rows of pixels.
  };
  Split split = Split::kGroups;
  bool splits_columns = false;       ///< Arrays give a group or row of pixels to each column part.
  std::uint32_t block_columns = 1;   ///< Tiles of 8 features of the result.
  std::uint32_t feature_blocks = 1;  ///< Of the contracted features.
  std::uint32_t block_y = 1;         ///< Rows of pixels (of one phase, see Tap).
  std::uint32_t group = 1;           ///< Neighbouring pixels that share a patch of the input.
  std::uint32_t groups = 1;          ///< Of a row of a block, rounded up for the split.
  std::uint32_t blocks_x = 1;        ///< Of a row.
  std::uint32_t chunk = 1;           ///< Tiles of features that a step streams, per pixel and MXU.
  /// Pairs of tiles of complete sums that a step makes results of, beside its products; 0: all of
  /// them are finished behind the last step. Steps go through the units innermost then.
  std::uint32_t finished_pairs = 0;
  std::uint32_t steps_at_once = 2;  ///< In one block of code: 1 or 2.
  double cycles = 0;                ///< What the search expects.
};

/// How a cut uses the arrays. Groups and rows of pixels stand in columns against the same moving
/// features; parts of the features move past the same columns.
MatmulUnits matmul_units(const LanesTiling& tiling, const Target& target);

/// Dimensions of the grid.
struct LanesGrid {
  static constexpr int kColumns = 0, kLanes = 1, kY = 2, kX = 3, kFeatures = 4;
};

/// The sizes that follow from a problem and its cut.
struct LanesSizes : LanesGrid {
  LanesSizes(const ConvolutionProblem& problem, const LanesTiling& tiling, const Patches& patches,
             const Target& target);
  /// For a cut of which only the chunk and the pairs that steps finish are others.
  void set_steps(const ConvolutionProblem& problem, const LanesTiling& tiling,
                 const Patches& patches);

  std::uint32_t lane_tiles;     ///< Of the batch.
  std::uint32_t column_tiles;   ///< Of 8 features, whole result.
  std::uint32_t column_blocks;  ///< The last one may have fewer tiles.
  std::uint32_t phases_y, phases_x, pixels_y;
  std::uint32_t slab_y, slab_x;           ///< Pixels of the input that a block reads.
  std::uint32_t out_y, out_x;             ///< Pixels of the result of a block.
  std::uint32_t input_pixel, sum_pixel;   ///< VMEM rows.
  std::uint32_t window_rows_of_position;  ///< VMEM rows.
  std::uint32_t moving_columns;           ///< Tiles of a pixel's moving rows.
  std::uint64_t moving_rows, sum_rows;    ///< VMEM rows.
  std::uint32_t smem_words;
  bool sums_apart;
  ContractionPlan plan;

 private:
  void set_blocks(const ConvolutionProblem& problem);
};

OrRefusal<LanesTiling> find_lanes_tiling(const ConvolutionProblem& problem, const Target& target);
/// Whether there is one.
bool has_lanes_tiling(const ConvolutionProblem& problem, const Target& target);

/// Where the pairs of tiles stand that the units of a step's place complete, columns outermost, the
/// phases of a pixel (see Tap) inside of them: from the first one's place to that of another one.
struct PairPlace {
  std::uint32_t column = 0, row = 0, x = 0;  ///< In tiles of features, rows and pixels.
};
PairPlace pair_place(const ConvolutionProblem& problem, const LanesTiling& tiling,
                     const Target& target, std::uint32_t pair);
/// How many there are: pairs of a step's products, of each phase.
std::uint32_t pairs_of_units(const ConvolutionProblem& problem, const LanesTiling& tiling,
                             const Target& target);
/// For LanesTiling::finished_pairs: the fewest that keep up with the products; 0 where complete
/// sums of a cut do not come one after the other.
std::uint32_t pairs_to_finish(const ConvolutionProblem& problem, const LanesTiling& tiling,
                              const Patches& patches, const Target& target);

}  // namespace tpu::compiler
