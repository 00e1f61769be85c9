#pragma once

#include <cstdint>

#include "workloads/compiler/ir/dot_problem.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

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
  std::uint32_t lots = 1;             ///< Matrices of a step, one after the other.
  bool columns_outermost = false;     ///< Grid order n, m, k in place of m, n, k.
  /// The outer dimensions stand inside of the first of these: blocks of the side that has none of
  /// them (rows of the left one, columns of the right one) stay while all matrices go by.
  bool outer_inside = false;
  /// Tiles of complete sums of the columns before that each step turns into results, while the
  /// MXUs are at work; 0: all sums of a block become results when its last step is done.
  std::uint32_t finished_tiles = 0;
  double cycles = 0;  ///< What the search expects.
};

/// Finds the cut with the least expected time. Throws WorkloadError when none fits VMEM.
/// `may_overlap`: steps may finish tiles.
DotTiling find_dot_tiling(const DotProblem& problem, const Target& target, bool may_overlap = true);

/// Pushes of eight rows that a tile of weights takes: fewer than 16 where all stand in one tile.
std::uint32_t weight_pushes(const DotProblem& problem);

/// A matrix of the result, or of the rows of the left side, that the transpose unit turns: blocks
/// of up to 128x128, row tiles that are pushed and popped for each.
struct Turn {
  std::uint32_t blocks = 0, pushes = 0, pops = 0;
  /// Of as many matrices whose results have room in the unit's queue.
  std::uint32_t at_once(std::uint32_t matrices) const;
};
Turn turn_of_rows(const DotProblem& problem, const DotTiling& tiling);
Turn turn_of_result(const DotProblem& problem, const DotTiling& tiling);

/// Tiles of a matrix of the result in its block.
struct ResultBlock {
  std::uint32_t rows = 0, columns = 0;
};
ResultBlock result_block(const DotProblem& problem, const DotTiling& tiling);

/// Tiles that each step has to finish so that the columns before are results when theirs are done;
/// 0: a cut, or a problem, in which they can't.
std::uint32_t tiles_to_finish(const DotProblem& problem, const DotTiling& tiling);

/// VMEM rows that the kernel with this cut takes.
std::uint64_t vmem_rows(const DotProblem& problem, const DotTiling& tiling);

}  // namespace tpu::compiler
