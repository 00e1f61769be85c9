#include "workloads/compiler/passes/expand/factorization_expander.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/elimination.h"
#include "workloads/compiler/passes/expand/blocked_factorizations.h"
#include "workloads/compiler/passes/expand/counted_loop.h"
#include "workloads/compiler/passes/expand/factorization_forms.h"
#include "workloads/compiler/passes/expand/matrices.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

Id zeros(GraphEditor& edit, const Extents& extents) {
  return edit.splat(ElementType::kF32, extents, 0);
}

/// Expands one factorization.
class FactorizationExpander {
 public:
  FactorizationExpander(hlo::Module& module, GraphEditor& edit, const HloInstruction& old)
      : module_(module), edit_(edit), old_(old) {
    const Extents extents = edit_.dimensions(old_.operands[0]);
    batch_rank_ = extents.size() - 2;
    count_ =
        std::accumulate(extents.begin(), extents.end() - 2, std::int64_t{1}, std::multiplies<>());
    results_ = old_.shape.is_tuple() ? old_.shape.elements : std::vector<hlo::Shape>{old_.shape};
    place_ = moved_bytes(BatchPlace::kLast, count_) <= moved_bytes(BatchPlace::kFirst, count_)
                 ? BatchPlace::kLast
                 : BatchPlace::kFirst;
  }

  /// It becomes a loop over columns.
  void run();
  /// One of many matrices becomes a loop over parts of at most so many bytes.
  void work_in_parts(std::uint64_t most_bytes);

 private:
  std::vector<Id> loop(
      std::int64_t trips, const std::vector<Id>& initial,
      const std::function<std::vector<Id>(GraphEditor&, Id, const std::vector<Id>&)>& body) {
    return counted_loop(module_, edit_, old_, trips, initial, body);
  }
  Matrices matrices(GraphEditor& edit, const Extents& extents) const {
    return {edit, extents, place_};
  }

  std::uint64_t moved_bytes(BatchPlace place, std::int64_t count) const;
  std::int64_t matrices_at_a_time(std::uint64_t most_bytes) const;
  Id with_batch_placed(Id operand);
  Id with_batch_as_given(Id result, const Extents& extents);
  std::vector<Id> expanded(const std::vector<Id>& operands);
  bool is_kernel() const;
  Id made_in_place(const char* target, Id matrix, const Extents& extents);
  Id eliminated_in_place(Id matrix);
  Id triangular_inverse(Id triangle);
  Id eliminated(Id matrix, std::int64_t columns);
  Id cholesky(Id given);
  std::vector<Id> cholesky_and_inverse(Id given);
  Id triangular_solve(Id triangle, Id right);
  std::vector<Id> lu_step(GraphEditor& edit, const Extents& extents, Id step,
                          const std::vector<Id>& state) const;
  std::vector<Id> qr_step(GraphEditor& edit, const Extents& extents, Id i,
                          const std::vector<Id>& state) const;
  std::vector<Id> lu(Id given);
  std::vector<Id> lu_in_place(Id given);
  std::vector<Id> qr(Id given);
  Id reflectors(Id vectors, Id factors);

  hlo::Module& module_;
  GraphEditor& edit_;
  const HloInstruction& old_;
  std::size_t batch_rank_ = 0;
  std::int64_t count_ = 1;  ///< Matrices.
  std::vector<hlo::Shape> results_;
  BatchPlace place_ = BatchPlace::kFirst;  ///< In the loop: where the arrays have fewer bytes.
};

/// An array of one matrix, of its rank without the dimensions of the batch.
Extents of_one(const Extents& extents, std::size_t batch_rank) {
  return {extents.begin() + static_cast<std::ptrdiff_t>(batch_rank), extents.end()};
}

/// What an iteration over so many matrices reads and writes, in tiles of 8 rows and 128 lanes of 32
/// bits: operands and results, which stand in the place of operands; or are there, too, before it.
std::uint64_t FactorizationExpander::moved_bytes(BatchPlace place, std::int64_t count) const {
  std::int64_t bytes = 0;
  const auto add = [&](const Extents& whole) {
    Extents extents = of_one(whole, batch_rank_);
    extents.insert(place == BatchPlace::kFirst ? extents.begin() : extents.end(), count);
    const std::size_t rank = extents.size();
    extents[rank - 1] = round_up(extents[rank - 1], std::int64_t{isa::kLanes});
    extents[rank - 2] = round_up(extents[rank - 2], std::int64_t{isa::kSublanes});
    bytes += std::accumulate(extents.begin(), extents.end(), std::int64_t{4}, std::multiplies<>());
  };
  const bool is_beside =
      calls(old_, kCholeskyAndInverse) || calls(old_, "ProductOfElementaryHouseholderReflectors");
  for (const Id operand : old_.operands) add(edit_.dimensions(operand));
  for (const hlo::Shape& result : results_) {
    add(result.dimensions);
    if (is_beside) add(result.dimensions);
  }
  return static_cast<std::uint64_t>(bytes);
}

/// As many matrices at a time as the bytes are enough for, of those numbers that divide the batch;
/// where they are in the lanes, whole registers of them. 0: there are none.
std::int64_t FactorizationExpander::matrices_at_a_time(std::uint64_t most_bytes) const {
  const std::int64_t unit = place_ == BatchPlace::kLast ? isa::kLanes : 1;
  std::int64_t part = count_;
  while (part > 0 &&
         (count_ % part != 0 || part % unit != 0 || moved_bytes(place_, part) > most_bytes)) {
    --part;
  }
  return part;
}

/// Parts one after the other, each cut off by the counter and written to its place.
void FactorizationExpander::work_in_parts(std::uint64_t most_bytes) {
  const std::vector<hlo::Shape>& results = results_;
  const std::int64_t count = count_, part = matrices_at_a_time(most_bytes);
  if (is_kernel() || part == count || part == 0) return;

  const auto batched = [this](const Extents& extents, std::int64_t matrices) {
    Extents made = of_one(extents, batch_rank_);
    made.insert(made.begin(), matrices);
    return made;
  };
  std::vector<Id> state;
  for (const Id operand : old_.operands) {
    state.push_back(edit_.reshape(operand, batched(edit_.dimensions(operand), count)));
  }
  for (const hlo::Shape& result : results) {
    state.push_back(edit_.splat(result.type, batched(result.dimensions, count), 0));
  }
  const HloInstruction& whole = old_;
  const std::vector<Id> done =
      loop(count / part, state, [&](GraphEditor& edit, Id step, const std::vector<Id>& values) {
        const Id begin = edit.binary_with(HloOpcode::kMultiply, step, static_cast<double>(part));
        const auto place = [&](std::vector<Id> operands, std::size_t rank) {
          operands.push_back(begin);
          while (--rank > 0) operands.push_back(edit.scalar(ElementType::kS32, 0));
          return operands;
        };
        HloInstruction of_part = whole;
        of_part.operands.clear();
        for (std::size_t i = 0; i < whole.operands.size(); ++i) {
          Extents extents = edit.dimensions(values[i]);
          extents[0] = part;
          HloInstruction taken =
              edit.start(HloOpcode::kDynamicSlice, place({values[i]}, extents.size()),
                         hlo::array_shape(edit.shape(values[i]).type, extents));
          taken.dynamic_slice_sizes = extents;
          of_part.operands.push_back(edit.append_instruction(std::move(taken)));
        }
        std::vector<hlo::Shape> shapes;
        shapes.reserve(results.size());
        for (const hlo::Shape& result : results) {
          shapes.push_back(hlo::array_shape(result.type, batched(result.dimensions, part)));
        }
        of_part.shape = shapes[0];
        if (whole.shape.is_tuple()) {
          of_part.shape = whole.shape;
          of_part.shape.elements = shapes;
        }
        const Id made = edit.append_instruction(of_part);
        std::vector<Id> next = values;
        for (std::size_t r = 0; r < results.size(); ++r) {
          Id result = made;
          if (whole.shape.is_tuple()) {
            HloInstruction element = edit.start(HloOpcode::kGetTupleElement, {made}, shapes[r]);
            element.tuple_index = static_cast<std::int64_t>(r);
            result = edit.append_instruction(std::move(element));
          }
          Id& kept = next[whole.operands.size() + r];
          kept = edit.append_instruction(
              edit.start(HloOpcode::kDynamicUpdateSlice,
                         place({kept, result}, edit.dimensions(kept).size()), edit.shape(kept)));
        }
        return next;
      });
  std::vector<Id> ends;
  for (std::size_t r = 0; r < results.size(); ++r) {
    ends.push_back(edit_.reshape(done[whole.operands.size() + r], results[r].dimensions));
  }
  if (whole.shape.is_tuple()) {
    edit_.finish_tuple(ends);
  } else {
    edit_.finish(ends[0]);
  }
}

/// The operand as the loop takes it.
Id FactorizationExpander::with_batch_placed(Id operand) {
  if (place_ == BatchPlace::kFirst) return operand;
  Extents extents = of_one(edit_.dimensions(operand), batch_rank_);
  extents.insert(extents.begin(), count_);
  Extents order(extents.size());
  std::iota(order.begin(), order.end(), 1);
  order.back() = 0;
  return edit_.transpose(edit_.reshape(operand, extents), order);
}

Id FactorizationExpander::with_batch_as_given(Id result, const Extents& extents) {
  if (place_ == BatchPlace::kFirst) return result;
  Extents order(edit_.dimensions(result).size());
  std::iota(order.begin(), order.end(), -1);
  order.front() = static_cast<std::int64_t>(order.size()) - 1;
  return edit_.reshape(edit_.transpose(result, order), extents);
}

std::vector<Id> FactorizationExpander::expanded(const std::vector<Id>& operands) {
  if (old_.opcode == HloOpcode::kCholesky) return {cholesky(operands[0])};
  if (old_.opcode == HloOpcode::kTriangularSolve) {
    return {triangular_solve(operands[0], operands[1])};
  }
  if (calls(old_, kCholeskyAndInverse)) return cholesky_and_inverse(operands[0]);
  if (calls(old_, kTriangularInverse)) return {triangular_inverse(operands[0])};
  if (calls(old_, "LuDecomposition")) return lu(operands[0]);
  if (calls(old_, "Qr")) return qr(operands[0]);
  return {reflectors(operands[0], operands[1])};
}

void FactorizationExpander::run() {
  std::vector<Id> operands;
  for (const Id operand : old_.operands) operands.push_back(with_batch_placed(operand));
  std::vector<Id> made = expanded(operands);
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i] = with_batch_as_given(made[i], results_[i].dimensions);
  }
  if (old_.shape.is_tuple()) {
    edit_.finish_tuple(made);
  } else {
    edit_.finish(made[0]);
  }
}

/// Whether matrices are eliminated by a kernel of their own, not in a loop over columns.
bool FactorizationExpander::is_kernel() const {
  if (place_ != BatchPlace::kFirst) return false;
  const Extents extents = edit_.dimensions(old_.operands[0]);
  if (calls(old_, "LuDecomposition")) {
    return extents.back() <= kMostPivotedColumns && extents.end()[-2] <= kMostFactorizedRows;
  }
  if (calls(old_, "Qr")) {
    return extents.back() <= kMostReflectedColumns && extents.end()[-2] <= kMostFactorizedRows;
  }
  const bool is_known = old_.opcode == HloOpcode::kCholesky || calls(old_, kCholeskyAndInverse) ||
                        calls(old_, kTriangularInverse);
  return is_known && extents.back() <= kMostEliminatedRows;
}

/// By a kernel that is a custom call.
Id FactorizationExpander::made_in_place(const char* target, Id matrix, const Extents& extents) {
  HloInstruction made =
      edit_.start(HloOpcode::kCustomCall, {matrix}, hlo::array_shape(ElementType::kF32, extents));
  made.custom_call_target = std::string(target);
  return edit_.append_instruction(std::move(made));
}

Id FactorizationExpander::eliminated_in_place(Id matrix) {
  return made_in_place(kElimination, matrix, edit_.dimensions(matrix));
}

/// Multiples of row i are taken off the rows below it until the rows of A = L D L^T, of so many
/// columns, are those of D L^T; what stands beside them likewise. Row and diagonal element are sums
/// of one kernel; in the next one each row finds its element of the column over the diagonal one.
Id FactorizationExpander::eliminated(Id matrix, std::int64_t columns) {
  const Extents extents = edit_.dimensions(matrix);
  const auto body = [&](GraphEditor& edit, Id i, const std::vector<Id>& state) {
    Matrices m = matrices(edit, extents);
    const Id is_column = m.columns_that(ComparisonDirection::kEq, i);
    const Id is_row = m.rows_that(ComparisonDirection::kEq, i);
    const Id row = m.along_columns(m.sum_of_columns(is_row, state[0]));
    const Id diagonal = m.element_at(is_row, is_column, state[0]);
    const Id column = m.kept(m.rows_that(ComparisonDirection::kGt, i),
                             m.scaled_column(is_column, state[0], m.reciprocal(diagonal)));
    return std::vector<Id>{edit.binary(HloOpcode::kSubtract, state[0],
                                       edit.binary(HloOpcode::kMultiply, column, row))};
  };
  return loop(columns, {matrix}, body)[0];
}

/// The rows of D L^T over the roots of D are those of the factor's transpose. Reads one triangle
/// only.
Id FactorizationExpander::cholesky(Id given) {
  const bool is_lower = says(old_, "lower=true");
  Matrices all = matrices(edit_, edit_.dimensions(given));
  const Id is_given =
      all.elements_on(is_lower ? ComparisonDirection::kGe : ComparisonDirection::kLe);
  const Id matrix = edit_.select(is_given, given, all.turned(given));
  const Id rows = is_kernel() ? eliminated_in_place(matrix) : eliminated(matrix, all.columns());
  const Id diagonal = all.sum_of_rows(all.elements_on(ComparisonDirection::kEq), rows);
  const Id scale = all.along_rows(all.reciprocal(edit_.unary(HloOpcode::kSqrt, diagonal)));
  const Id upper = all.kept(all.elements_on(ComparisonDirection::kLe),
                            edit_.binary(HloOpcode::kMultiply, rows, scale));
  return is_lower ? all.turned(upper) : upper;
}

/// Beside the matrix the identity is eliminated: its rows are those of L's inverse.
std::vector<Id> FactorizationExpander::cholesky_and_inverse(Id given) {
  Matrices all = matrices(edit_, edit_.dimensions(given));
  const Id matrix =
      edit_.select(all.elements_on(ComparisonDirection::kGe), given, all.turned(given));
  const Id one = edit_.splat(ElementType::kF32, edit_.dimensions(given), 1);
  const Id identity = all.kept(all.elements_on(ComparisonDirection::kEq), one);
  Id rows = -1, inverse = -1;
  if (is_kernel()) {
    rows = eliminated_in_place(matrix);
    inverse = edit_.select(all.elements_on(ComparisonDirection::kEq), one, rows);
  } else {
    const std::int64_t n = all.columns();
    const Id both = eliminated(edit_.concatenate({matrix, identity}, all.column_dimension()), n);
    rows = all.columns_from(both, 0, n);
    inverse = all.columns_from(both, n, 2 * n);
  }
  const Id roots = edit_.unary(HloOpcode::kSqrt,
                               all.sum_of_rows(all.elements_on(ComparisonDirection::kEq), rows));
  const Id scale = all.along_rows(all.reciprocal(roots));
  const auto scaled = [&](Id x, ComparisonDirection side) {
    return all.kept(all.elements_on(side), edit_.binary(HloOpcode::kMultiply, x, scale));
  };
  return {all.turned(scaled(rows, ComparisonDirection::kLe)),
          scaled(inverse, ComparisonDirection::kGe)};
}

/// Rows of the inverse of L without its diagonal, over the diagonal's elements.
Id FactorizationExpander::triangular_inverse(Id triangle) {
  Matrices all = matrices(edit_, edit_.dimensions(triangle));
  const TriangularOptions options(old_);
  const Id one = edit_.splat(ElementType::kF32, edit_.dimensions(triangle), 1);
  const Id is_diagonal = all.elements_on(ComparisonDirection::kEq);
  if (!is_kernel()) return triangular_solve(triangle, all.kept(is_diagonal, one));
  if (!options.is_lower) triangle = all.turned(triangle);
  if (options.is_unit) triangle = edit_.select(is_diagonal, one, triangle);
  const Id lower = all.kept(all.elements_on(ComparisonDirection::kGe), triangle);
  const Id rows = edit_.select(is_diagonal, one, eliminated_in_place(lower));
  const Id scale = all.along_rows(all.reciprocal(all.sum_of_rows(is_diagonal, lower)));
  const Id inverse = all.kept(all.elements_on(ComparisonDirection::kGe),
                              edit_.binary(HloOpcode::kMultiply, rows, scale));
  return options.is_lower ? inverse : all.turned(inverse);
}

/// op(A) X = B by elimination: with the rows of both over the diagonal elements of op(A), row i of
/// B is that of X once the rows before have been taken off, and its multiples by column i are taken
/// off those that come later. Only B changes; column i of op(A) is 0 where nothing is taken off.
/// X op(A) = B is op(A)^T X^T = B^T.
Id FactorizationExpander::triangular_solve(Id triangle, Id right) {
  const TriangularOptions options(old_);
  const bool is_left = options.is_left, turns = options.is_transposed == is_left;
  const bool is_lower = options.is_lower != turns;
  const Extents square = edit_.dimensions(triangle);
  Matrices a = matrices(edit_, square);
  if (turns) triangle = a.turned(triangle);
  if (!is_left) right = matrices(edit_, edit_.dimensions(right)).turned(right);
  const Extents extents = edit_.dimensions(right);
  Matrices b = matrices(edit_, extents);
  const std::int64_t n = a.columns();
  if (!options.is_unit) {
    const Id diagonal = a.sum_of_rows(a.elements_on(ComparisonDirection::kEq), triangle);
    const Id factors = a.reciprocal(diagonal);
    triangle = edit_.binary(HloOpcode::kMultiply, triangle, a.along_rows(factors));
    right = edit_.binary(HloOpcode::kMultiply, right, b.along_rows(factors));
  }
  triangle = a.kept(a.elements_on(is_lower ? ComparisonDirection::kGt : ComparisonDirection::kLt),
                    triangle);
  const auto body = [&](GraphEditor& edit, Id step, const std::vector<Id>& state) {
    Matrices a = matrices(edit, square), b = matrices(edit, extents);
    const Id i =
        is_lower ? step
                 : edit.binary(HloOpcode::kSubtract,
                               edit.scalar(ElementType::kS32, static_cast<double>(n - 1)), step);
    const Id row = b.sum_of_columns(b.rows_that(ComparisonDirection::kEq, i), state[1]);
    const Id column = a.sum_of_rows(a.columns_that(ComparisonDirection::kEq, i), state[0]);
    const Id taken = edit.binary(HloOpcode::kMultiply, b.along_rows(column), b.along_columns(row));
    return std::vector<Id>{state[0], edit.binary(HloOpcode::kSubtract, state[1], taken)};
  };
  const Id solved = loop(n, {triangle, right}, body)[1];
  return is_left ? solved : b.turned(solved);
}

/// The first row with the largest element of column i from i on, as a number of f32. No element is
/// the largest where one is not a number: the row stays.
Id pivot_of(GraphEditor& edit, Matrices& m, Id is_candidate, Id matrix, Id i) {
  const Extents extents = edit.dimensions(matrix);
  const std::int64_t row = m.row_dimension(), column = m.column_dimension();
  const auto count = static_cast<double>(m.rows());
  const Id size = edit.select(is_candidate, edit.unary(HloOpcode::kAbs, matrix),
                              edit.splat(ElementType::kF32, extents, -1));
  const Id largest = edit.reduce(size, HloOpcode::kMaximum, {row, column}, -1);
  const Id is_largest =
      edit.binary(HloOpcode::kAnd, is_candidate,
                  edit.compare(size, m.all_over(largest, extents), ComparisonDirection::kEq));
  const Id numbers = edit.select(is_largest, edit.iota(ElementType::kF32, extents, row),
                                 edit.splat(ElementType::kF32, extents, count));
  const Id found = edit.reduce(numbers, HloOpcode::kMinimum, {row, column}, count);
  const Id is_found = edit.compare(found, edit.splat(ElementType::kF32, m.batch(), count),
                                   ComparisonDirection::kLt);
  return edit.select(is_found, found, m.all_over(i, m.batch()));
}

/// Row i and that of the pivot change places; the rows below lose their multiple of it, which
/// stands in column i from then on. State: the matrix with the order of rows as its last column,
/// pivots. All of it happens in the matrix: vectors along rows would be turned on their way.
std::vector<Id> FactorizationExpander::lu_step(GraphEditor& edit, const Extents& extents, Id step,
                                               const std::vector<Id>& state) const {
  using Direction = ComparisonDirection;
  Matrices m = matrices(edit, extents);
  const Extents pivots = edit.dimensions(state[1]);
  const Id i = edit.convert(step, ElementType::kF32);
  const Id is_column = m.columns_that(Direction::kEq, i), is_row = m.rows_that(Direction::kEq, i);
  const Id is_candidate = edit.binary(HloOpcode::kAnd, is_column, m.rows_that(Direction::kGe, i));
  const Id p = pivot_of(edit, m, is_candidate, state[0], i);
  const Id is_pivot_row = m.rows_that(Direction::kEq, p);
  const Id row = m.along_columns(m.sum_of_columns(is_row, state[0]));
  const Id other = m.along_columns(m.sum_of_columns(is_pivot_row, state[0]));
  const Id pivot = m.element_at(is_pivot_row, is_column, state[0]);
  const Id is_zero =
      edit.compare(pivot, edit.splat(ElementType::kF32, m.batch(), 0), Direction::kEq);
  const Id factor =
      edit.select(is_zero, edit.splat(ElementType::kF32, m.batch(), 1), m.reciprocal(pivot));
  const Id moved = edit.select(is_row, other, edit.select(is_pivot_row, row, state[0]));
  const Id below =
      m.kept(m.rows_that(Direction::kGt, i), m.scaled_column(is_column, moved, factor));
  const Id end = edit.scalar(ElementType::kF32, static_cast<double>(m.columns() - 1));
  const Id is_behind = edit.binary(HloOpcode::kAnd, m.columns_that(Direction::kGt, i),
                                   m.columns_that(Direction::kLt, end));
  const Id rest = edit.binary(HloOpcode::kSubtract, moved,
                              edit.binary(HloOpcode::kMultiply, below, m.kept(is_behind, other)));
  const Id is_factor = edit.binary(HloOpcode::kAnd, is_column, m.rows_that(Direction::kGt, i));
  const Id is_pivot = m.elements_that(pivots, Direction::kEq, i);
  return {edit.select(is_factor, below, rest),
          edit.select(is_pivot, m.all_over(p, pivots), state[1])};
}

/// Householder's reflection that leaves `beta` of a column from its diagonal element on: 1 and what
/// is below it, over `scale`, are its vector, tau its factor. Numbers of each matrix.
struct Reflection {
  Id beta = -1, tau = -1, scale = -1;
};

Reflection reflection_of(GraphEditor& edit, Matrices& m, Id matrix, Id is_row, Id is_column,
                         Id is_below) {
  const Id alpha = m.element_at(is_row, is_column, matrix);
  const Id rest =
      m.element_at(is_below, is_column, edit.binary(HloOpcode::kMultiply, matrix, matrix));
  const Id none = zeros(edit, m.batch());
  const Id one = edit.splat(ElementType::kF32, m.batch(), 1);
  const Id square = edit.binary(HloOpcode::kMultiply, alpha, alpha);
  const Id length = edit.unary(HloOpcode::kSqrt, edit.binary(HloOpcode::kAdd, square, rest));
  const Id is_positive = edit.compare(alpha, none, ComparisonDirection::kGe);
  const Id away = edit.select(is_positive, edit.unary(HloOpcode::kNegate, length), length);
  const Id is_done = edit.compare(rest, none, ComparisonDirection::kEq);
  Reflection made;
  made.beta = edit.select(is_done, alpha, away);
  const Id difference = edit.binary(HloOpcode::kSubtract, made.beta, alpha);
  const Id divisor = edit.select(is_done, one, made.beta);
  made.tau = edit.select(is_done, none, edit.binary(HloOpcode::kDivide, difference, divisor));
  made.scale = edit.select(is_done, one, edit.unary(HloOpcode::kNegate, difference));
  return made;
}

/// Reflects the columns behind column i. State: the matrix, the factors of reflections.
std::vector<Id> FactorizationExpander::qr_step(GraphEditor& edit, const Extents& extents, Id i,
                                               const std::vector<Id>& state) const {
  using Direction = ComparisonDirection;
  Matrices m = matrices(edit, extents);
  const Extents factors = edit.dimensions(state[1]);
  const Id is_column = m.columns_that(Direction::kEq, i), is_row = m.rows_that(Direction::kEq, i);
  const Id is_below = m.rows_that(Direction::kGt, i);
  const Reflection by = reflection_of(edit, m, state[0], is_row, is_column, is_below);
  const Id below = m.kept(is_below, m.scaled_column(is_column, state[0], m.reciprocal(by.scale)));
  const Id vector = edit.select(is_row, edit.splat(ElementType::kF32, extents, 1), below);
  const Id dots = m.along_columns(m.sum_of_columns(
      m.columns_that(Direction::kGt, i), edit.binary(HloOpcode::kMultiply, state[0], vector)));
  const Id turned_by = edit.binary(HloOpcode::kMultiply, m.all_over(by.tau, extents), dots);
  const Id reflected = edit.binary(HloOpcode::kSubtract, state[0],
                                   edit.binary(HloOpcode::kMultiply, vector, turned_by));
  const Id left =
      edit.select(is_row, m.all_over(by.beta, extents), edit.select(is_below, below, state[0]));
  const Id is_factor = m.elements_that(factors, Direction::kEq, i);
  return {edit.select(is_column, left, reflected),
          edit.select(is_factor, m.all_over(by.tau, factors), state[1])};
}

/// Numbers of rows are counted in f32.
std::vector<Id> FactorizationExpander::lu(Id given) {
  Matrices all = matrices(edit_, edit_.dimensions(given));
  const std::int64_t trips = std::min(all.rows(), all.columns()), columns = all.columns();
  if (is_kernel()) return lu_in_place(given);
  const Id order = edit_.iota(ElementType::kF32, all.with_columns(1), all.row_dimension());
  const Id both = edit_.concatenate({given, order}, all.column_dimension());
  const Extents extents = edit_.dimensions(both);
  const std::vector<Id> results =
      loop(trips, {both, zeros(edit_, all.vectors_of(trips))},
           [&](GraphEditor& edit, Id step, const std::vector<Id>& state) {
             return lu_step(edit, extents, step, state);
           });
  const Id factors = all.columns_from(results[0], 0, columns);
  const Id rows =
      edit_.reshape(all.columns_from(results[0], columns, columns + 1), all.row_vectors());
  return {factors, edit_.convert(results[1], ElementType::kS32),
          edit_.convert(rows, ElementType::kS32)};
}

std::vector<Id> FactorizationExpander::lu_in_place(Id given) {
  Matrices all = matrices(edit_, edit_.dimensions(given));
  const std::int64_t steps = std::min(all.rows(), all.columns()), columns = all.columns();
  const Id made = made_in_place(kPivotedElimination, given, all.with_columns(columns + 2));
  const auto numbers = [&](std::int64_t column) {
    const Id taken = edit_.reshape(all.columns_from(made, column, column + 1), all.row_vectors());
    return edit_.convert(taken, ElementType::kS32);
  };
  Extents limits = all.vectors_of(steps);
  const Id pivots = edit_.slice(numbers(columns + 1), Extents(limits.size(), 0), limits);
  return {all.columns_from(made, 0, columns), pivots, numbers(columns)};
}

std::vector<Id> FactorizationExpander::qr(Id given) {
  const Extents extents = edit_.dimensions(given);
  Matrices all = matrices(edit_, extents);
  const std::int64_t trips = std::min(all.rows(), all.columns()), columns = all.columns();
  if (is_kernel()) {
    const Id made = made_in_place(kReflections, given, all.with_columns(columns + 1));
    const Id factors =
        edit_.reshape(all.columns_from(made, columns, columns + 1), all.row_vectors());
    const Extents limits = all.vectors_of(trips);
    return {all.columns_from(made, 0, columns),
            edit_.slice(factors, Extents(limits.size(), 0), limits)};
  }
  return loop(trips, {given, zeros(edit_, all.vectors_of(trips))},
              [&](GraphEditor& edit, Id i, const std::vector<Id>& state) {
                return qr_step(edit, extents, i, state);
              });
}

/// The product of reflections on the columns of the identity, the last one first.
Id FactorizationExpander::reflectors(Id vectors, Id factors) {
  const Extents extents = edit_.dimensions(vectors), factor_extents = edit_.dimensions(factors);
  Matrices all = matrices(edit_, extents);
  const Id identity = all.kept(all.elements_on(ComparisonDirection::kEq),
                               edit_.splat(ElementType::kF32, extents, 1));
  const std::int64_t count = factor_extents[static_cast<std::size_t>(all.row_dimension())];
  const auto body = [&](GraphEditor& edit, Id step, const std::vector<Id>& state) {
    using Direction = ComparisonDirection;
    Matrices m = matrices(edit, extents);
    const Id i = edit.binary(HloOpcode::kSubtract,
                             edit.scalar(ElementType::kS32, static_cast<double>(count - 1)), step);
    const Id column = m.along_rows(m.sum_of_rows(m.columns_that(Direction::kEq, i), state[0]));
    const Id vector =
        edit.select(m.rows_that(Direction::kEq, i), edit.splat(ElementType::kF32, extents, 1),
                    m.kept(m.rows_that(Direction::kGt, i), column));
    const Id tau = m.element(m.elements_that(factor_extents, Direction::kEq, i), state[1]);
    const Id product = edit.binary(HloOpcode::kMultiply, state[2], vector);
    const Id dots = m.along_columns(edit.reduce(product, HloOpcode::kAdd, {m.row_dimension()}, 0));
    const Id turned_by = edit.binary(HloOpcode::kMultiply, m.all_over(tau, extents), dots);
    return std::vector<Id>{state[0], state[1],
                           edit.binary(HloOpcode::kSubtract, state[2],
                                       edit.binary(HloOpcode::kMultiply, vector, turned_by))};
  };
  return loop(count, {vectors, factors, identity}, body)[2];
}

/// Matrices in a batch of one are matrices: the sums of its loops are such over whole arrays, and
/// the loops one kernel.
void work_without_batch(GraphEditor& edit, const HloInstruction& old) {
  const std::size_t batch_rank = edit.dimensions(old.operands[0]).size() - 2;
  const auto single = [batch_rank](const hlo::Shape& shape) {
    return hlo::array_shape(shape.type, of_one(shape.dimensions, batch_rank));
  };
  HloInstruction of_matrix = old;
  of_matrix.name += ".matrix";
  for (Id& operand : of_matrix.operands) {
    operand = edit.reshape(operand, single(edit.shape(operand)).dimensions);
  }
  if (!old.shape.is_tuple()) {
    of_matrix.shape = single(old.shape);
    return edit.finish(
        edit.reshape(edit.append_instruction(std::move(of_matrix)), old.shape.dimensions));
  }
  for (hlo::Shape& element : of_matrix.shape.elements) element = single(element);
  const std::vector<hlo::Shape> elements = of_matrix.shape.elements;
  const Id made = edit.append_instruction(std::move(of_matrix));
  std::vector<Id> results;
  for (std::size_t r = 0; r < elements.size(); ++r) {
    HloInstruction element = edit.start(HloOpcode::kGetTupleElement, {made}, elements[r]);
    element.tuple_index = static_cast<std::int64_t>(r);
    results.push_back(edit.reshape(edit.append_instruction(std::move(element)),
                                   old.shape.elements[r].dimensions));
  }
  edit.finish_tuple(results);
}

bool is_batch_of_one(const hlo::Computation& code, const HloInstruction& call) {
  if (!is_factorization(code, call)) return false;
  const Extents& extents = code.at(call.operands[0]).shape.dimensions;
  return extents.size() > 2 && std::all_of(extents.begin(), extents.end() - 2,
                                           [](std::int64_t extent) { return extent == 1; });
}

}  // namespace

/// State of a loop that is one kernel, read and written, takes a fourth of VMEM at most
/// (`join_small_kernels`).
void expand_factorizations(hlo::Module& module, const Target& target) {
  rewrite_everywhere(module, is_batch_of_one, work_without_batch);
  write_in_blocks(module, target);
  rewrite_everywhere(module, is_factorization, [&](GraphEditor& edit, const HloInstruction& old) {
    FactorizationExpander(module, edit, old).work_in_parts(target.vmem_bytes / 4);
  });
  rewrite_everywhere(module, is_factorization, [&](GraphEditor& edit, const HloInstruction& old) {
    FactorizationExpander(module, edit, old).run();
  });
}

}  // namespace tpu::compiler
