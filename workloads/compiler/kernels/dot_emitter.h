#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "workloads/compiler/kernels/contraction.h"
#include "workloads/compiler/kernels/contraction_blocks.h"
#include "workloads/compiler/kernels/dot_tiling.h"
#include "workloads/compiler/kernels/elementwise_memory.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/matmul_epilogue.h"
#include "workloads/compiler/kernels/matmul_memory.h"
#include "workloads/compiler/kernels/matmul_stream.h"
#include "workloads/compiler/kernels/tile_grid.h"

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
  DotKernel(const DotProblem& problem, const DotTiling& tiling, const MatmulEpilogue& epilogue,
            const Target& target, std::uint32_t epilogue_unroll)
      : problem_(problem),
        tiling_(tiling),
        epilogue_(epilogue),
        epilogue_unroll_(epilogue_unroll),
        builder_(epilogue.kernel_name, target),
        units_(target, tiling.columns_at_once, tiling.k_parts),
        pushes_(tiling.chunk_m / units_.groups()),
        weight_pushes_(weight_pushes(problem)),
        stream_(builder_, units_, pushes_, weight_pushes_, tiling.lots),
        memory_(builder_, is_packed(problem.lhs_type), is_packed(problem.rhs_type)),
        results_(builder_, epilogue),
        result_memory_(builder_, false, tiling.finished_tiles > 0),
        x_tile_(tile_rows(problem.lhs_type)),
        w_tile_(tile_rows(problem.rhs_type)) {
    m_tiles_ = tiles_of(problem.m, 8);
    n_tiles_ = tiles_of(problem.n, 128);
    k_tiles_ = tiles_of(problem.k, 128);
    const ResultBlock block = result_block(problem, tiling);
    out_rows_ = {problem.result_turned ? tiles_of(problem.n, 8) : m_tiles_, block.rows};
    out_columns_ = {problem.result_turned ? tiles_of(problem.m, 128) : n_tiles_, block.columns};
  }

  /// Nothing when values find no register; with `may_spill` they wait in VMEM then.
  std::optional<LoweredKernel> emit(bool may_spill) {
    results_.start(std::int64_t{out_columns_.block} *
                   ((out_columns_.tiles + out_columns_.block - 1) / out_columns_.block));
    make_grid();
    if (masks_k()) memory_.make_masks(problem_.k);
    builder_.new_block();
    grid_->run([this] { work(); }, [this] { results_.ready(); });
    stream_.close();
    results_.finish();
    std::optional<isa::Kernel> kernel = may_spill ? builder_.finish() : builder_.try_finish();
    if (!kernel) return std::nullopt;
    LoweredKernel lowered;
    lowered.kernel = std::move(*kernel);
    lowered.vmem_bytes = builder_.vmem_bytes();
    return lowered;
  }

 private:
  /// Places of the grid's dimensions: the outer ones stand before or between rows and columns.
  int outer_count() const { return static_cast<int>(problem_.outer.size()); }
  int outer_dimension(std::size_t i) const {
    return static_cast<int>(i) + (tiling_.outer_inside ? 1 : 0);
  }
  int first_of_matrices() const { return tiling_.outer_inside ? 0 : outer_count(); }
  int m_dimension() const {
    return tiling_.columns_outermost ? outer_count() + 1 : first_of_matrices();
  }
  int n_dimension() const {
    return tiling_.columns_outermost ? first_of_matrices() : outer_count() + 1;
  }
  /// Contracted ones above the matrices stand right outside of the matrices' own.
  int outer_k_count() const { return static_cast<int>(problem_.outer_k.size()); }
  int first_k_dimension() const { return outer_count() + 2; }
  int k_dimension() const { return first_k_dimension() + outer_k_count(); }
  /// Whether a tile of the grid is the first, or last, that adds to its sums; none: it is.
  PReg is_first_sum();
  PReg is_last_sum();
  /// Those of the result's rows and columns.
  int row_dimension() const { return problem_.result_turned ? n_dimension() : m_dimension(); }
  int column_dimension() const { return problem_.result_turned ? m_dimension() : n_dimension(); }
  std::uint32_t grid_k() const { return k_tiles_ / tiling_.block_k; }
  bool masks_k() const { return problem_.k % 128 != 0; }
  bool overlaps() const { return tiling_.finished_tiles > 0; }
  bool sums_apart() const {
    return is_packed(problem_.result_types[0]) || !results_.is_identity() || problem_.result_turned;
  }
  std::uint64_t sum_tiles() const {
    return std::uint64_t{tiling_.block_outer} * tiling_.block_m * tiling_.block_n;
  }
  std::uint64_t result_tiles() const {
    return std::uint64_t{tiling_.block_outer} * out_rows_.block * out_columns_.block;
  }

  void make_grid();
  std::vector<int> dimensions(std::uint32_t OuterDimension::*stride, std::vector<int> inner) const;
  std::vector<int> contracted_dimensions(std::uint32_t OuterDimension::*stride,
                                         std::vector<int> inner) const;
  SReg matrix(SReg base, std::uint32_t OuterDimension::*stride, const GridPoint& point);
  BlockShape block_shape(std::uint32_t OuterDimension::*stride, hlo::ElementType type,
                         std::uint32_t rows, std::uint32_t columns, std::uint32_t block_rows,
                         std::uint32_t block_columns) const;
  void add_sides();
  TileGrid::Block side(std::uint32_t OuterDimension::*stride, std::uint32_t word, int dimension,
                       bool k_in_rows, const BlockShape& shape);
  void allocate_sums();
  SReg result_matrix(std::uint32_t address, hlo::ElementType type, const GridPoint& point);
  BlockShape result_shape(hlo::ElementType type) const;
  void work();
  void clear_weight_rows();
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
    hlo::ElementType type = hlo::ElementType::kF32;
  };
  void transpose(const Turned& turned);
  std::uint32_t row_of(std::uint32_t unit, std::uint32_t i) const;
  std::uint32_t matrix_rows(std::uint32_t OuterDimension::*stride, std::uint32_t rows) const;
  Contraction::Tiles left_rows(const VmemAddress& block, const Digits& digits);
  Contraction::Tiles right_tiles(const VmemAddress& block, const Digits& digits);
  Contraction::Tiles next_right_tiles(const VmemAddress& block, const Digits& present, Digits next);
  SReg sum_mask(const Digits& digits);
  Contraction::Meanwhile finish_in_step(const Digits& digits);
  void multiply();
  void finish();
  void apply_epilogue();
  PReg is_last_tile(const std::vector<SReg>& digits);

  /// A run of tiles of complete sums, one below the other, that straight code makes results of.
  struct TileRun {
    std::uint32_t count = 1;
    SReg tiles;  ///< Of the block, before it; none: 0.
    Index row;   ///< Of the first one in the array, or in its matrix (row_period).
    Index column;
    /// Whether there may be padding rows, and the rows of the array from the first tile on.
    bool has_padding = false;
    Index rows_left;  ///< Not where the rows are those of several matrices with padding.
    PReg is_live;     ///< Whether its sums count; none: they do.
    VmemRegion sums;
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
  void finish_columns(std::uint32_t matrix, std::uint32_t first);

  const DotProblem& problem_;
  const DotTiling& tiling_;
  const MatmulEpilogue& epilogue_;
  std::uint32_t epilogue_unroll_;
  KernelBuilder builder_;
  MatmulUnits units_;
  std::uint32_t pushes_, weight_pushes_;
  MatmulStream stream_;
  MatmulMemory memory_;
  EpilogueEmitter results_;
  TileMemory result_memory_;  ///< Where steps finish tiles.
  std::uint32_t x_tile_, w_tile_;
  std::uint32_t m_tiles_ = 0, n_tiles_ = 0, k_tiles_ = 0;
  /// Tiles of the result along a direction: all, and of a block.
  struct Extent {
    std::uint32_t tiles = 0, block = 0;
  };
  Extent out_rows_, out_columns_;
  std::unique_ptr<TileGrid> grid_;
  std::uint32_t addresses_ = 0;  ///< SMEM: both sides, results, operands behind the product.
  int x_input_ = 0, w_input_ = 0;
  std::vector<int> epilogue_inputs_;
  VmemRegion sums_;                     ///< fp32 sums where they are not the result yet.
  VmemRegion finished_sums_;            ///< The same rows, for steps that finish tiles.
  VmemRegion turned_;                   ///< The same with rows and columns exchanged.
  VmemRegion results_at_;               ///< What expressions and rounding take.
  std::vector<VmemRegion> unrounded_;   ///< Per result: fp32 tiles of a packed one.
  EpilogueEmitter::Position position_;  ///< Of the run at hand.
  std::vector<VmemAddress> result_tiles_;
  /// The columns that steps finish: their first tile column, the next tile's row and column in
  /// them, and whether they are complete and not finished yet.
  SVariable done_tiles_, done_column_, done_row_, done_part_, is_live_;
  SVariable held_tiles_, held_column_, is_held_;  ///< Columns whose sums are complete next.
  VmemRegion transposed_;  ///< Rows of the left side where it lies transposed.
};

}  // namespace tpu::compiler
