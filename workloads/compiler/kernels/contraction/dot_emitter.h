#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "workloads/compiler/kernels/contraction/contraction.h"
#include "workloads/compiler/kernels/contraction/contraction_blocks.h"
#include "workloads/compiler/kernels/contraction/dot_tiling.h"
#include "workloads/compiler/kernels/contraction/matmul_epilogue.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"
#include "workloads/compiler/kernels/contraction/matmul_stream.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/tiles/tile_grid.h"

namespace tpu::compiler {

/// Tiles behind the product in one straight piece of code, at most.
constexpr std::uint32_t kMostEpilogueTiles = 8;

/// Emits the kernel of a dot.
///
/// Blocks of both sides and of the result stand in VMEM. Over a block run steps: a tile of weights
/// (or a few neighbouring ones, one per unit of MatmulUnits) against a chunk of rows; sums over the
/// contracted dimension are kept in VMEM in fp32. The grid's tiles fetch the next blocks while the
/// present ones are worked on.
class DotKernel {
 public:
  /// `epilogue_unroll`: tiles of the result in one straight piece of code behind the product.
  /// `arrays`: where they stand, if not in HBM; the tiling has whole arrays then.
  DotKernel(KernelBuilder& builder, const DotProblem& problem, const DotTiling& tiling,
            const MatmulEpilogue& epilogue, std::uint32_t epilogue_unroll,
            const ArraysInVmem& arrays = {})
      : problem_(problem),
        tiling_(tiling),
        epilogue_(epilogue),
        epilogue_unroll_(epilogue_unroll),
        arrays_(arrays),
        sizes_(problem, tiling, builder.target()),
        builder_(builder),
        units_(sizes_.plan.steps.units),
        pushes_(sizes_.plan.steps.pushes),
        weight_pushes_(sizes_.plan.steps.weight_pushes),
        stream_(builder_, units_, pushes_, weight_pushes_, sizes_.plan.steps.lots),
        memory_(builder_, is_packed(problem.lhs_type), is_packed(problem.rhs_type)),
        results_(builder_, epilogue, arrays),
        left_(builder_, epilogue.prologues[0]),
        right_(builder_, epilogue.prologues[1]),
        result_memory_(builder_, false, tiling.finished_tiles > 0),
        x_tile_(tile_rows(problem.lhs_type)),
        w_tile_(tile_rows(problem.rhs_type)) {}

  void emit() {
    const auto& [columns, block] = sizes_.out_columns;
    results_.start(std::int64_t{block} * tiles_of(columns, block));
    left_.start();
    right_.start();
    // Pushes take whole tiles of 128 rows, those behind the last row included.
    if (masks_k()) builder_.leave_rows_behind(std::uint64_t{128} * tiling_.block_n);
    make_grid();
    if (problem_.k % 128 != 0) memory_.make_masks(problem_.k);
    builder_.new_block();
    grid_->run([this] { work(); },
               [this] {
                 results_.ready();
                 left_.ready();
                 right_.ready();
               });
    stream_.close();
    results_.finish();
  }

 private:
  /// Whether a tile of the grid is the first, or last, that adds to its sums; none: it is.
  PReg is_first_sum();
  PReg is_last_sum();
  /// Lanes of the last tile along k are masked as they stream.
  bool masks_k() const { return problem_.k % 128 != 0 && !sizes_.has_padded_k(); }
  bool overlaps() const { return tiling_.finished_tiles > 0; }
  void make_grid();
  SReg matrix(SReg base, std::uint32_t OuterDimension::*stride, const GridPoint& point);
  TileGrid::Block side(std::uint32_t OuterDimension::*stride, std::uint32_t word,
                       const std::vector<int>& dimensions, int row_dimension, int column_dimension,
                       const BlockShape& shape, const SpacedMatrices& rows);
  TileGrid::Block array_block(bool to_vmem, BlockShape shape, const std::vector<int>& dimensions,
                              const OfPoint& first, int row_dimension, int column_dimension,
                              const SpacedMatrices& rows);
  void allocate_sums();
  SReg result_matrix(std::uint32_t address, hlo::ElementType type, const GridPoint& point);
  ProductSide::Tiles made_side(const BlockShape& shape, int column_dimension);
  void work();
  void clear_beyond_k();
  void clear_padding_between_matrices();
  void clear_padding(int input, hlo::ElementType type, std::uint32_t OuterDimension::*stride,
                     std::uint32_t columns);
  void transpose_rows();
  void turn_sums();
  /// Matrices that the transpose unit turns: blocks of each, at distances of VMEM rows from one
  /// matrix, and from one block of either kind, to the next.
  struct Turned {
    Turn turn;
    std::array<std::uint32_t, 2> blocks{};
    std::array<std::uint32_t, 3> from{}, to{};
    VmemAddress source, target;
    std::uint32_t source_row = 0, target_row = 0;  ///< Between row tiles of a block.
    /// To the block that shares the words of one, as bf16; 0: none does.
    std::uint32_t source_pair = 0, target_pair = 0;
    hlo::ElementType type = hlo::ElementType::kF32;
  };
  void transpose(const Turned& turned);
  Turned turned_rows() const;
  void pair(Turned& turned) const;
  void transpose_first_rows();
  VmemAddress rows_of_step(const VmemAddress& of, const Digits& step,
                           const std::array<std::uint32_t, 3>& distances);
  void push_turned(const Turned& turned, const VmemAddress& block, std::uint32_t row);
  void pop_turned(const Turned& turned, const VmemAddress& block, std::uint32_t row);
  Contraction::Meanwhile transpose_in_step(const Digits& next);
  Digits after_next(const Digits& next);
  void drop_turned(std::uint32_t blocks, const Turn& turn);
  std::uint32_t row_of(std::uint32_t unit, std::uint32_t i) const;
  std::uint32_t matrix_rows(std::uint32_t OuterDimension::*stride, std::uint32_t rows) const;
  hlo::ElementType left_type() const;
  std::uint32_t left_matrix() const;
  std::array<std::uint32_t, 3> step_distances(std::uint32_t matrix, std::uint32_t column,
                                              std::uint32_t k) const;
  std::uint32_t lot_distance(std::uint32_t matrix, std::uint32_t column, std::uint32_t k) const;
  bool ends_step(std::uint32_t place) const;
  std::uint32_t pushes_of_step() const { return sizes_.plan.steps.lots * pushes_; }
  std::vector<SReg> left_places(const VmemAddress& block, const Digits& digits);
  Contraction::Tiles left_rows(const VmemAddress& block, SReg base, SReg k);
  std::uint32_t right_matrix() const;
  std::uint32_t right_part() const;
  std::uint32_t right_column() const;
  bool masks_right() const { return masks_k() && problem_.rhs_transposed; }
  std::vector<SReg> right_places(const VmemAddress& block, const Digits& digits);
  Contraction::Tiles right_tiles(const VmemAddress& block, const std::vector<SReg>& places);
  Contraction::Tiles next_right_tiles(const VmemAddress& block, const Digits& present,
                                      const std::vector<SReg>& next);
  SReg sum_mask(const Digits& digits);
  Contraction::Meanwhile finish_in_step(const Digits& digits);
  void multiply();
  void finish();
  void apply_epilogue();
  PReg is_last_tile(SReg k);

  /// A run of tiles of complete sums, one below the other, that straight code makes results of.
  struct TileRun {
    std::uint32_t count = 1;
    SReg tiles;       ///< Of the block, before it; none: 0.
    Index row;        ///< Of the first one in the array, or in its matrix (row_period).
    Index array_row;  ///< In the array.
    Index column;
    /// Whether there may be padding rows, and the rows of the array from the first tile on.
    bool has_padding = false;
    Index rows_left;  ///< Not where the rows are those of several matrices with padding.
    PReg is_live;     ///< Whether its sums count; none: they do.
    VmemRegion sums;
  };
  struct TileRange {
    std::uint32_t first = 0, count = 1;
  };
  void begin_run(const TileRun& run);
  void finish_tile(const TileRun& run, std::uint32_t i);
  void finish_run(TileRun run);
  bool has_padding_rows() const;
  Index rows_from(Index row_tile);
  Index rows_of_tile(const TileRun& run, std::uint32_t i);

  // Results of the columns before, while the MXUs are at work.
  void start_finishing();
  TileRun run_in_step();
  void advance_finishing(const std::vector<SReg>& digits);
  void finish_last_columns();
  void finish_columns(std::uint32_t matrix, TileRange columns, TileRange rows);

  const DotProblem& problem_;
  const DotTiling& tiling_;
  const MatmulEpilogue& epilogue_;
  std::uint32_t epilogue_unroll_;
  ArraysInVmem arrays_;
  DotSizes sizes_;
  KernelBuilder& builder_;
  MatmulUnits units_;
  std::uint32_t pushes_, weight_pushes_;
  MatmulStream stream_;
  MatmulMemory memory_;
  TileExpressionEmitter results_;
  ProductSide left_, right_;
  TileMemory result_memory_;  ///< Where steps finish tiles.
  std::uint32_t x_tile_, w_tile_;
  std::unique_ptr<TileGrid> grid_;
  std::uint32_t addresses_ = 0;  ///< SMEM: both sides, results, operands behind the product.
  int x_input_ = 0, w_input_ = 0;
  std::vector<int> epilogue_inputs_;
  VmemRegion sums_;                           ///< fp32 sums where they are not the result yet.
  VmemRegion finished_sums_;                  ///< The same rows, for steps that finish tiles.
  VmemRegion turned_;                         ///< The same with rows and columns exchanged.
  VmemRegion results_at_;                     ///< What expressions and rounding take.
  std::vector<VmemRegion> unrounded_;         ///< Per result: fp32 tiles of a packed one.
  TileExpressionEmitter::Position position_;  ///< Of the run at hand.
  std::vector<VmemAddress> result_tiles_;
  /// SMEM words, for expressions leave few registers to the loop. The columns that steps finish:
  /// their first tile column, the next tile's row and column in them, and whether they are complete
  /// and not finished yet.
  std::uint32_t done_tiles_ = 0, done_column_ = 0, done_row_ = 0, done_part_ = 0, is_live_ = 0;
  /// Those whose sums are complete next.
  std::uint32_t held_tiles_ = 0, held_column_ = 0;
  VmemRegion transposed_;   ///< Rows of the left side where it lies transposed.
  VmemRegion turned_next_;  ///< The same rows, for steps that turn those of the next one.
};

}  // namespace tpu::compiler
