#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A dimension of a dot above its matrices, with the distance from one matrix to the next in each
/// array, in granules; 0: the array has no such dimension.
struct OuterDimension {
  std::uint32_t extent = 1;
  std::uint32_t lhs = 0, rhs = 0, out = 0;
};

/// A dot as matrix products [m, k] x [k, n] over outer dimensions, with the way each matrix lies in
/// HBM.
struct DotProblem {
  std::string name;
  std::vector<OuterDimension> outer;  ///< Outermost first; neighbours that could be one are one.
  /// Contracted dimensions above the matrices: their products are summed. `out` is 0.
  std::vector<OuterDimension> outer_k;
  std::uint32_t m = 1, n = 1, k = 1;
  /// Rows of each of several matrices that the result's rows (or `k`) count with the padding of
  /// their last tiles; 0: there is none. Padding of `k` has to become 0.
  std::uint32_t matrix_rows = 0, matrix_k = 0;
  bool lhs_transposed = false;   ///< The left matrices lie as [k, m].
  bool rhs_transposed = false;   ///< The right matrices lie as [n, k].
  bool result_turned = false;    ///< The products are [m, n], but the results lie as [n, m].
  bool sides_exchanged = false;  ///< The left side is the instruction's second operand.
  hlo::ElementType lhs_type = hlo::ElementType::kF32;
  hlo::ElementType rhs_type = hlo::ElementType::kF32;
  /// Of the results in step with each other; distances in `outer` are those of the first.
  std::vector<hlo::ElementType> result_types{hlo::ElementType::kF32};
  bool has_epilogue = false;
  std::size_t epilogue_instructions = 0;         ///< Of the vector unit per tile of the result.
  std::vector<hlo::ElementType> epilogue_types;  ///< Of operands in step with the result.
  std::uint64_t resident_rows = 0;               ///< VMEM for operands that stay.
  /// Where the rows are those of several matrices, tiles of one of them, if anything depends on
  /// the row within: blocks are then whole multiples. 0: nothing does.
  std::uint32_t row_period = 0;
};

/// Reads a dot instruction whose operands have the given shapes (with layouts) and whose result
/// lies as `out`: any dimension numbers, as long as the two minor dimensions of each array are two
/// of m, n and k. Matrices whose tiles of rows follow each other are one, unless
/// `keeps_matrices`: something behind the product depends on the row in its matrix. Throws
/// WorkloadError for dots that are no such products.
DotProblem dot_problem(const hlo::HloInstruction& dot, const hlo::Shape& lhs, const hlo::Shape& rhs,
                       const hlo::Shape& out, bool keeps_matrices = false);
/// The same; none for dots that are no such products.
std::optional<DotProblem> find_dot_problem(const hlo::HloInstruction& dot, const hlo::Shape& lhs,
                                           const hlo::Shape& rhs, const hlo::Shape& out,
                                           bool keeps_matrices = false);

/// Blocks of 128 by 128 elements that the transpose unit turns: of the left side where it lies as
/// [k, m], of the result where it lies as [n, m]. The right side's are turned on their way into the
/// MXU.
std::uint64_t blocks_to_transpose(const DotProblem& problem);

/// Exchanges the sides where that leaves less to transpose.
void exchange_where_cheaper(DotProblem& problem);

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
