#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/made_side.h"
#include "workloads/compiler/ir/operand_parts.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A dimension of a dot above its matrices, with the distance from one matrix to the next in each
/// array, in granules; 0: the array has no such dimension.
struct OuterDimension {
  std::uint32_t extent = 1;
  std::uint32_t lhs = 0, rhs = 0, out = 0;
};

/// The rows or lanes of an array are those of several matrices: tiles of 8 rows, or of 128 lanes,
/// that one of them has, and the granules from one to the next; 0: there is one matrix, or their
/// rows follow each other as those of one.
struct SpacedMatrices {
  std::uint32_t tiles = 1, distance = 0;
  bool is_one() const { return distance == 0; }
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
  bool lhs_transposed = false;  ///< The left matrices lie as [k, m].
  bool rhs_transposed = false;  ///< The right matrices lie as [n, k].
  SpacedMatrices lhs_lanes, rhs_lanes;
  SpacedMatrices lhs_rows, rhs_rows, out_rows;
  /// Row tiles that stand in the lanes of one tile of a left side that lies transposed. Fewer than
  /// 16 where these are all rows of one of several matrices.
  std::uint32_t lane_row_tiles = 16;
  bool result_turned = false;    ///< The products are [m, n], but the results lie as [n, m].
  bool sides_exchanged = false;  ///< The left side is the instruction's second operand.
  hlo::ElementType lhs_type = hlo::ElementType::kF32;
  hlo::ElementType rhs_type = hlo::ElementType::kF32;
  OperandParts parts{1, 1};  ///< Of the left and the right side.
  /// Of the results in step with each other; distances in `outer` are those of the first.
  std::vector<hlo::ElementType> result_types{hlo::ElementType::kF32};
  bool has_epilogue = false;
  VectorCost epilogue_cost;                      ///< Per tile of the result.
  std::vector<hlo::ElementType> epilogue_types;  ///< Of operands in step with the result.
  std::uint64_t resident_rows = 0;  ///< VMEM for operands that stay behind the product.
  MadeSides made;
  /// Where the rows are those of several matrices, tiles of one of them, if anything depends on
  /// the row within: blocks are then whole multiples. 0: nothing does.
  std::uint32_t row_period = 0;
  /// Something behind the product depends on the row in its matrix.
  bool keeps_matrices = false;

  bool is_in_parts() const { return are_several(parts); }
};

/// A side's dimensions that stand in the result and not in the other side, in order.
std::vector<std::int64_t> free_dimensions(const hlo::Shape& shape,
                                          const std::vector<std::int64_t>& batch,
                                          const std::vector<std::int64_t>& contracting);

/// What a dot's kernel has to keep apart.
struct DotForm {
  bool keeps_matrices = false;  ///< Something behind the product depends on the row in its matrix.
  bool stands_in_vmem = false;  ///< The arrays do: no block is gathered.
};

/// Reads a dot instruction whose operands have the given shapes (with layouts) and whose result
/// lies as `out`: any dimension numbers, as long as the two minor dimensions of each array are two
/// of m, n and k. Matrices whose rows follow each other in one product are one; where their rows
/// stand apart in memory, blocks of them are gathered. Throws WorkloadError for dots that are no
/// such products.
DotProblem dot_problem(const hlo::HloInstruction& dot, const hlo::Shape& lhs, const hlo::Shape& rhs,
                       const hlo::Shape& out, const DotForm& form = {});
/// The same; none for dots that are no such products.
std::optional<DotProblem> find_dot_problem(const hlo::HloInstruction& dot, const hlo::Shape& lhs,
                                           const hlo::Shape& rhs, const hlo::Shape& out,
                                           const DotForm& form = {});

/// Blocks of 128 by 128 elements that the transpose unit turns: of the left side where it lies as
/// [k, m], of the result where it lies as [n, m]. The right side's are turned on their way into the
/// MXU.
std::uint64_t blocks_to_transpose(const DotProblem& problem);

/// The same product with its sides exchanged; none where the rows have a period.
std::optional<DotProblem> with_sides_exchanged(const DotProblem& problem);
/// Exchanges the sides where that leaves less to transpose.
void exchange_where_cheaper(DotProblem& problem);

/// Rows of a left side that lies transposed are lanes of several matrices; if these are neighbours
/// in the result and share the right side, they become the rows of one product: so a tile of
/// weights is loaded once for many of them. Behind this, and the next, the sides stay.
void take_rows_in_lanes(DotProblem& problem);
/// Contracted dimensions of several matrices, in the lanes of one side or both, become a longer one
/// where the other side has them in neighbouring rows: so a block has the sum over many of them.
void take_k_in_lanes(DotProblem& problem);

}  // namespace tpu::compiler
