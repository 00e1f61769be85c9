#pragma once

#include <cstdint>
#include <optional>

#include "workloads/compiler/ir/dot_problem.h"
#include "workloads/compiler/kernels/contraction/contraction_plan.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"
#include "workloads/compiler/kernels/refusal.h"
#include "workloads/compiler/kernels/tiles/block_dma.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// What the lots of a step are, whose weights follow each other in the MXUs: each is a matrix of
/// the block, or neighbouring columns, or tiles along k.
enum class LotsOf { kMatrices, kColumns, kContracted };

/// How a DotProblem is cut: blocks that stand in VMEM, in tiles of 8 rows and 128 lanes for the
/// rows of the result, of 128 for its columns and the contracted dimension.
struct DotTiling {
  std::uint32_t block_outer = 1;      ///< Of the innermost outer dimension.
  std::uint32_t block_m = 1;          ///< Row tiles of 8.
  std::uint32_t block_n = 1;          ///< Column tiles of 128.
  std::uint32_t block_k = 1;          ///< Tiles of 128.
  std::uint32_t chunk_m = 1;          ///< Row tiles that one step streams through the MXUs.
  std::uint32_t columns_at_once = 1;  ///< Neighbouring column tiles of a step (MatmulUnits).
  std::uint32_t k_parts = 1;          ///< Tiles along k of a step.
  std::uint32_t lots = 1;             ///< Of a step, one after the other.
  LotsOf lots_of = LotsOf::kMatrices;
  /// Arrays take other matrices of the block in place of other rows: each tile of weights is loaded
  /// by one of them.
  bool arrays_take_matrices = false;
  bool columns_outermost = false;  ///< Grid order n, m, k in place of m, n, k.
  /// The outer dimensions stand inside of the first of these: blocks of the side that has none of
  /// them (rows of the left one, columns of the right one) stay while all matrices go by.
  bool outer_inside = false;
  /// Tiles of complete sums of the columns before that each step turns into results, while the
  /// MXUs are at work; 0: all sums of a block become results when its last step is done.
  std::uint32_t finished_tiles = 0;
  /// Rows of the left side that lie transposed are turned by the step before the one that takes
  /// them; else all of a block before its steps.
  bool turns_beside = false;
  double cycles = 0;  ///< What the search expects.

  /// Lots of a step along a direction; 1: they are of another.
  std::uint32_t lots_along(LotsOf direction) const { return lots_of == direction ? lots : 1; }
  std::uint32_t column_steps() const {
    return block_n / (columns_at_once * lots_along(LotsOf::kColumns));
  }
  /// Along the contracted dimension.
  std::uint32_t depth_steps() const {
    return block_k / (k_parts * lots_along(LotsOf::kContracted));
  }
};

/// Finds the cut with the least expected time; refused when none fits VMEM.
/// `may_overlap`: steps may finish tiles.
OrRefusal<DotTiling> find_dot_tiling(const DotProblem& problem, const Target& target,
                                     bool may_overlap = true);

/// The cut for arrays that stand in VMEM, whole: that with the least expected time of those that
/// are one tile of the grid. Which side's rows stream is chosen as well. None: there is no such
/// cut.
std::optional<DotTiling> find_whole_dot_tiling(DotProblem& problem, const Target& target);

/// Chooses which side's rows stream, where either way something is transposed by the search's time,
/// and finds the cut for it; refused when none fits VMEM.
OrRefusal<DotTiling> choose_sides(DotProblem& problem, const Target& target);

/// Whether a kernel makes the sides that are to be made: of arrays of the side's type, nothing of
/// which depends on the row, without matrices that stand abreast.
bool makes_sides(const DotProblem& problem);

/// Pushes of eight rows that a tile of weights takes: fewer than 16 where all stand in one tile.
std::uint32_t weight_pushes(const DotProblem& problem);

/// Whether a side changes along the innermost outer dimension; else all of that share one matrix.
bool has_several_matrices(const DotProblem& problem, std::uint32_t OuterDimension::*stride);
/// Matrices of a side that a block has.
std::uint32_t matrices_of(const DotProblem& problem, const DotTiling& tiling,
                          std::uint32_t OuterDimension::*stride);

/// Matrices of the result, or of the rows of the left side, that the transpose unit turns: of each
/// so many blocks of up to 128x128, row tiles that are pushed and popped for each.
struct Turn {
  std::uint32_t blocks = 0, pushes = 0, pops = 0, matrices = 1;
  /// Matrices whose results have room in the unit's queue together.
  std::uint32_t at_once() const;
};
Turn turn_of_rows(const DotProblem& problem, const DotTiling& tiling);
/// Blocks that the rows of a step stand in.
std::uint32_t turned_by_step(const DotProblem& problem, const DotTiling& tiling);
/// How often blocks of the left side's rows, which lie side by side, go through the transpose unit:
/// two at a time where they are an even number and of one part, for the MXUs round them to bf16 in
/// any case then, and two of these are a word.
std::uint32_t turns_of_blocks(const DotProblem& problem, std::uint32_t blocks);
Turn turn_of_result(const DotProblem& problem, const DotTiling& tiling);

/// Tiles that each step has to finish so that columns are results as soon as the next ones are
/// complete; 0: a cut, or a problem, in which they can't. Results of the last step of a column come
/// out in the first one of the next, which is why its tiles become results from the second one on.
std::uint32_t tiles_to_finish(const DotProblem& problem, const DotTiling& tiling);
/// Steps until columns are complete.
std::uint32_t steps_of_columns(const DotTiling& tiling);
/// The last columns have no steps behind them. Those before have one too few: 1 where that is one
/// run of finished_tiles.
std::uint32_t runs_behind(const DotTiling& tiling);

/// What follows from a problem and its cut: the search weighs it, the kernel is made of it.
struct DotSizes {
  DotSizes(const DotProblem& problem, const DotTiling& tiling, const Target& target);

  /// Places of the grid's dimensions: the outer ones stand before or between rows and columns.
  int outer_count() const { return static_cast<int>(problem->outer.size()); }
  int outer_dimension(std::size_t i) const {
    return static_cast<int>(i) + (tiling.outer_inside ? 1 : 0);
  }
  int m_dimension() const {
    return tiling.columns_outermost ? outer_count() + 1 : first_of_matrices();
  }
  int n_dimension() const {
    return tiling.columns_outermost ? first_of_matrices() : outer_count() + 1;
  }
  /// Contracted ones above the matrices stand right outside of the matrices' own.
  int first_k_dimension() const { return outer_count() + 2; }
  int k_dimension() const {
    return first_k_dimension() + static_cast<int>(problem->outer_k.size());
  }
  /// Whether each step may turn the left side's rows of the next one: they are whole blocks, other
  /// ones than its own, and every tile of the grid brings new rows.
  bool may_turn_beside() const;
  void turn_beside(const Target& target);
  /// Those of the result's rows and columns.
  int row_dimension() const { return problem->result_turned ? n_dimension() : m_dimension(); }
  int column_dimension() const { return problem->result_turned ? m_dimension() : n_dimension(); }
  /// Result `i` is packed, and its fp32 tiles wait until all of a block are there.
  bool has_unrounded(std::size_t i) const {
    return is_packed(problem->result_types[i]) && tiling.finished_tiles == 0;
  }
  /// Tiles along a direction: all, and of a block.
  struct Extent {
    std::uint32_t tiles = 0, block = 0;
  };
  /// `extent`: elements of the rows of a matrix.
  BlockShape block_shape(std::uint32_t OuterDimension::*stride, hlo::ElementType type,
                         std::uint32_t extent, Extent rows, Extent columns) const;
  /// The block of an array in step with the result. Distances between matrices are those of the
  /// first result, in the array's own granules.
  BlockShape result_shape(hlo::ElementType type) const;
  /// Elements along k that the last block has; the others of its tiles become 0 in VMEM.
  std::uint32_t last_block_k() const;
  /// Whether the last block along k has tiles beyond the arrays.
  bool has_padded_k() const { return k_tiles % tiling.block_k != 0; }
  /// All is one tile of the grid, and each block lies in VMEM as its array does in HBM, with room
  /// behind it at most.
  bool has_whole_arrays() const;

  const DotProblem* problem;
  DotTiling tiling;
  std::uint32_t m_tiles, n_tiles, k_tiles;
  BlockShape left, right;
  Extent out_rows, out_columns;
  std::uint64_t result_tiles = 0;  ///< Of a block.
  bool sums_apart = false;         ///< Sums in fp32 are not the result yet.
  /// VMEM rows of those sums, of them turned, and of the left side's rows where it lies transposed.
  std::uint64_t sum_rows = 0, turned_rows = 0, transposed_rows = 0;
  ContractionPlan plan;

 private:
  int first_of_matrices() const { return tiling.outer_inside ? 0 : outer_count(); }
  GridDimensions dimensions(std::uint32_t OuterDimension::*stride, GridDimensions inner) const;
  void set_sides();
  void set_results();
  void set_steps();
  void set_turns(const Target& target);
};

}  // namespace tpu::compiler
