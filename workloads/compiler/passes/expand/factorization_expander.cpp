#include "workloads/compiler/passes/expand/factorization_expander.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/ceil_divide.h"
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
      : module_(module), edit_(edit), old_(old) {}

  /// It becomes a loop over columns.
  void run() {
    if (old_.opcode == HloOpcode::kCholesky) return cholesky();
    if (old_.opcode == HloOpcode::kTriangularSolve) return triangular_solve();
    if (calls(old_, kCholeskyAndInverse)) return cholesky_and_inverse();
    if (calls(old_, "LuDecomposition")) return lu();
    if (calls(old_, "Qr")) return qr();
    if (calls(old_, "ProductOfElementaryHouseholderReflectors")) return reflectors();
  }
  /// One of many matrices becomes a loop over parts of at most so many bytes.
  void work_in_parts(std::uint64_t most_bytes);

 private:
  std::vector<Id> loop(
      std::int64_t trips, const std::vector<Id>& initial,
      const std::function<std::vector<Id>(GraphEditor&, Id, const std::vector<Id>&)>& body) {
    return counted_loop(module_, edit_, old_, trips, initial, body);
  }

  std::int64_t matrices_at_a_time(const std::vector<hlo::Shape>& results, std::int64_t count,
                                  std::uint64_t most_bytes) const;
  void cholesky();
  void cholesky_and_inverse();
  void triangular_solve();
  void lu();
  void qr();
  void reflectors();

  hlo::Module& module_;
  GraphEditor& edit_;
  const HloInstruction& old_;
};

/// An array of one matrix, of its rank without the dimensions of the batch.
Extents of_one(const Extents& extents, std::size_t batch_rank) {
  return {extents.begin() + static_cast<std::ptrdiff_t>(batch_rank), extents.end()};
}

/// What an array of one matrix takes in VMEM: tiles of 8 rows and 128 lanes, 32-bit elements.
std::uint64_t tiled_bytes(const Extents& of_one_matrix) {
  const auto columns = static_cast<std::uint64_t>(of_one_matrix.back());
  const auto rows =
      of_one_matrix.size() < 2 ? 1 : static_cast<std::uint64_t>(*(of_one_matrix.end() - 2));
  return round_up(rows, 8) * round_up(columns, 128) * 4;
}

/// As many matrices at a time as the bytes are enough for, of those numbers that divide the batch;
/// 0: not even one.
std::int64_t FactorizationExpander::matrices_at_a_time(const std::vector<hlo::Shape>& results,
                                                       std::int64_t count,
                                                       std::uint64_t most_bytes) const {
  const std::size_t batch_rank = edit_.dimensions(old_.operands[0]).size() - 2;
  std::uint64_t bytes = 0;
  for (const Id operand : old_.operands) {
    bytes += tiled_bytes(of_one(edit_.dimensions(operand), batch_rank));
  }
  for (const hlo::Shape& result : results) {
    bytes += tiled_bytes(of_one(result.dimensions, batch_rank));
  }
  std::int64_t part = count;
  while (part > 0 && (count % part != 0 || static_cast<std::uint64_t>(part) * bytes > most_bytes)) {
    --part;
  }
  return part;
}

/// Parts one after the other, each cut off by the counter and written to its place.
void FactorizationExpander::work_in_parts(std::uint64_t most_bytes) {
  const Extents first = edit_.dimensions(old_.operands[0]);
  const std::size_t batch_rank = first.size() - 2;
  std::int64_t count = 1;
  for (std::size_t d = 0; d < batch_rank; ++d) count *= first[d];
  std::vector<hlo::Shape> results = old_.shape.elements;
  if (!old_.shape.is_tuple()) results = {old_.shape};
  const std::int64_t part = matrices_at_a_time(results, count, most_bytes);
  if (part == count || part == 0) return;

  const auto batched = [batch_rank](const Extents& extents, std::int64_t matrices) {
    Extents made = of_one(extents, batch_rank);
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

/// Column i of the factor is that of what is left, over the root of its diagonal element; its outer
/// product with itself is taken off. Row and diagonal element are sums of one kernel; in the next
/// one each row finds its element of the column, which is a sum along lanes, over the diagonal one.
/// Reads one triangle only.
void FactorizationExpander::cholesky() {
  const bool is_lower = says(old_, "lower=true");
  const Id given = old_.operands[0];
  const Extents extents = edit_.dimensions(given);
  const auto last = static_cast<std::int64_t>(extents.size()) - 1;
  const Id is_given = edit_.compare(edit_.iota(ElementType::kS32, extents, last - 1),
                                    edit_.iota(ElementType::kS32, extents, last),
                                    is_lower ? ComparisonDirection::kGe : ComparisonDirection::kLe);
  const Id matrix = edit_.select(is_given, given, turned(edit_, given));
  const auto body = [&](GraphEditor& edit, Id i, const std::vector<Id>& state) {
    Matrices m(edit, extents);
    const Id is_column = m.columns_that(ComparisonDirection::kEq, i);
    const Id is_row = m.rows_that(ComparisonDirection::kEq, i);
    const Id row = m.along_columns(m.sum_of_columns(is_row, state[0]));
    const Id diagonal = m.element_at(is_row, is_column, state[0]);
    const Id column = m.scaled_column(is_column, state[0], m.reciprocal(diagonal));
    const Id rest =
        edit.binary(HloOpcode::kSubtract, state[0], edit.binary(HloOpcode::kMultiply, column, row));
    const Id root = m.all_over(edit.unary(HloOpcode::kSqrt, diagonal), extents);
    const Id factor = edit.binary(HloOpcode::kMultiply, column, root);
    const Id lower = m.kept(m.rows_that(ComparisonDirection::kGe, i), factor);
    return std::vector<Id>{rest, edit.select(is_column, lower, state[1])};
  };
  const Id factors = loop(extents.back(), {matrix, zeros(edit_, extents)}, body)[1];
  edit_.finish(is_lower ? factors : turned(edit_, factors));
}

/// A = L D L^T by elimination of the lower triangle's matrix and, beside it, of the identity:
/// multiples of row i are taken off the rows below it until rows are those of D L^T and of L's
/// inverse. Over the roots of D they are the factor's transpose and inverse.
void FactorizationExpander::cholesky_and_inverse() {
  const Id given = old_.operands[0];
  const Extents extents = edit_.dimensions(given);
  const auto last = static_cast<std::int64_t>(extents.size()) - 1;
  const auto on = [&](ComparisonDirection side) {
    return edit_.compare(edit_.iota(ElementType::kS32, extents, last - 1),
                         edit_.iota(ElementType::kS32, extents, last), side);
  };
  Matrices all(edit_, extents);
  const Id matrix = edit_.select(on(ComparisonDirection::kGe), given, turned(edit_, given));
  const Id one = edit_.splat(ElementType::kF32, extents, 1);
  const Id both = edit_.concatenate({matrix, all.kept(on(ComparisonDirection::kEq), one)}, last);
  const Extents wide = edit_.dimensions(both);
  const auto body = [&](GraphEditor& edit, Id i, const std::vector<Id>& values) {
    Matrices m(edit, wide);
    const Id is_column = m.columns_that(ComparisonDirection::kEq, i);
    const Id is_row = m.rows_that(ComparisonDirection::kEq, i);
    const Id row = m.along_columns(m.sum_of_columns(is_row, values[0]));
    const Id diagonal = m.element_at(is_row, is_column, values[0]);
    const Id column = m.kept(m.rows_that(ComparisonDirection::kGt, i),
                             m.scaled_column(is_column, values[0], m.reciprocal(diagonal)));
    return std::vector<Id>{edit.binary(HloOpcode::kSubtract, values[0],
                                       edit.binary(HloOpcode::kMultiply, column, row))};
  };
  const Id result = loop(extents.back(), {both}, body)[0];
  Extents starts(wide.size(), 0);
  const Id rows = edit_.slice(result, starts, extents);
  starts.back() = extents.back();
  const Id inverse = edit_.slice(result, starts, wide);
  const Id roots =
      edit_.unary(HloOpcode::kSqrt, all.sum_of_rows(on(ComparisonDirection::kEq), rows));
  const Id scale = all.along_rows(all.reciprocal(roots));
  const auto scaled = [&](Id x, ComparisonDirection side) {
    return all.kept(on(side), edit_.binary(HloOpcode::kMultiply, x, scale));
  };
  edit_.finish_tuple({turned(edit_, scaled(rows, ComparisonDirection::kLe)),
                      scaled(inverse, ComparisonDirection::kGe)});
}

/// op(A) X = B by elimination: with the rows of both over the diagonal elements of op(A), row i of
/// B is that of X once the rows before have been taken off, and its multiples by column i are taken
/// off those that come later. Only B changes; column i of op(A), a sum along lanes, is 0 where
/// nothing is taken off. X op(A) = B is op(A)^T X^T = B^T.
void FactorizationExpander::triangular_solve() {
  const TriangularOptions options(old_);
  const bool is_left = options.is_left, turns = options.is_transposed == is_left;
  const bool is_lower = options.is_lower != turns;
  Id triangle = turns ? turned(edit_, old_.operands[0]) : old_.operands[0];
  Id right = is_left ? old_.operands[1] : turned(edit_, old_.operands[1]);
  const Extents square = edit_.dimensions(triangle), extents = edit_.dimensions(right);
  const std::int64_t n = square.back();
  const auto last = static_cast<std::int64_t>(square.size()) - 1;
  Matrices a(edit_, square), b(edit_, extents);
  const auto on = [&](ComparisonDirection side) {
    return edit_.compare(edit_.iota(ElementType::kS32, square, last - 1),
                         edit_.iota(ElementType::kS32, square, last), side);
  };
  if (!options.is_unit) {
    const Id factors = a.reciprocal(a.sum_of_rows(on(ComparisonDirection::kEq), triangle));
    triangle = edit_.binary(HloOpcode::kMultiply, triangle, a.along_rows(factors));
    right = edit_.binary(HloOpcode::kMultiply, right, b.along_rows(factors));
  }
  triangle = a.kept(on(is_lower ? ComparisonDirection::kGt : ComparisonDirection::kLt), triangle);
  const auto body = [&](GraphEditor& edit, Id step, const std::vector<Id>& state) {
    Matrices a(edit, square), b(edit, extents);
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
  edit_.finish(is_left ? solved : turned(edit_, solved));
}

/// The first row with the largest element of column i from i on, as a number of f32. No element is
/// the largest where one is not a number: the row stays.
Id pivot_of(GraphEditor& edit, Matrices& m, Id is_candidate, Id matrix, Id i) {
  const Extents extents = edit.dimensions(matrix);
  const auto column = static_cast<std::int64_t>(extents.size()) - 1, row = column - 1;
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
std::vector<Id> lu_step(GraphEditor& edit, const Extents& extents, Id step,
                        const std::vector<Id>& state) {
  using Direction = ComparisonDirection;
  Matrices m(edit, extents);
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
std::vector<Id> qr_step(GraphEditor& edit, const Extents& extents, Id i,
                        const std::vector<Id>& state) {
  using Direction = ComparisonDirection;
  Matrices m(edit, extents);
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
void FactorizationExpander::lu() {
  const Extents given = edit_.dimensions(old_.operands[0]);
  const auto last = static_cast<std::int64_t>(given.size()) - 1;
  Matrices all(edit_, given);
  const std::int64_t trips = std::min(all.rows(), all.columns());
  Extents pivots = all.batch(), one = given;
  pivots.push_back(trips);
  one.back() = 1;
  const Id order = edit_.iota(ElementType::kF32, one, last - 1);
  const Id both = edit_.concatenate({old_.operands[0], order}, last);
  const Extents extents = edit_.dimensions(both);
  const std::vector<Id> results =
      loop(trips, {both, zeros(edit_, pivots)},
           [&](GraphEditor& edit, Id step, const std::vector<Id>& state) {
             return lu_step(edit, extents, step, state);
           });
  Extents starts(given.size(), 0);
  const Id factors = edit_.slice(results[0], starts, given);
  starts.back() = given.back();
  const Id rows = edit_.reshape(edit_.slice(results[0], starts, extents), all.row_vectors());
  edit_.finish_tuple({factors, edit_.convert(results[1], ElementType::kS32),
                      edit_.convert(rows, ElementType::kS32)});
}

void FactorizationExpander::qr() {
  const Extents extents = edit_.dimensions(old_.operands[0]);
  Matrices all(edit_, extents);
  const std::int64_t trips = std::min(all.rows(), all.columns());
  Extents factors = all.batch();
  factors.push_back(trips);
  edit_.finish_tuple(loop(trips, {old_.operands[0], zeros(edit_, factors)},
                          [&](GraphEditor& edit, Id i, const std::vector<Id>& state) {
                            return qr_step(edit, extents, i, state);
                          }));
}

/// The product of reflections on the columns of the identity, the last one first.
void FactorizationExpander::reflectors() {
  const Extents extents = edit_.dimensions(old_.operands[0]);
  const Extents factors = edit_.dimensions(old_.operands[1]);
  Matrices all(edit_, extents);
  const auto last = static_cast<std::int64_t>(extents.size()) - 1;
  const Id on_diagonal =
      edit_.compare(edit_.iota(ElementType::kS32, extents, last - 1),
                    edit_.iota(ElementType::kS32, extents, last), ComparisonDirection::kEq);
  const Id identity = all.kept(on_diagonal, edit_.splat(ElementType::kF32, extents, 1));
  const std::int64_t count = factors.back();
  const auto body = [&](GraphEditor& edit, Id step, const std::vector<Id>& state) {
    using Direction = ComparisonDirection;
    Matrices m(edit, extents);
    const Id i = edit.binary(HloOpcode::kSubtract,
                             edit.scalar(ElementType::kS32, static_cast<double>(count - 1)), step);
    const Id column = m.along_rows(m.sum_of_rows(m.columns_that(Direction::kEq, i), state[0]));
    const Id vector =
        edit.select(m.rows_that(Direction::kEq, i), edit.splat(ElementType::kF32, extents, 1),
                    m.kept(m.rows_that(Direction::kGt, i), column));
    const Id tau = m.element(m.elements_that(factors, Direction::kEq, i), state[1]);
    const Id product = edit.binary(HloOpcode::kMultiply, state[2], vector);
    const Id dots = m.along_columns(edit.reduce(product, HloOpcode::kAdd, {last - 1}, 0));
    const Id turned_by = edit.binary(HloOpcode::kMultiply, m.all_over(tau, extents), dots);
    return std::vector<Id>{state[0], state[1],
                           edit.binary(HloOpcode::kSubtract, state[2],
                                       edit.binary(HloOpcode::kMultiply, vector, turned_by))};
  };
  edit_.finish(loop(count, {old_.operands[0], old_.operands[1], identity}, body)[2]);
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
    FactorizationExpander(module, edit, old).work_in_parts(target.vmem_bytes / 8);
  });
  rewrite_everywhere(module, is_factorization, [&](GraphEditor& edit, const HloInstruction& old) {
    FactorizationExpander(module, edit, old).run();
  });
}

}  // namespace tpu::compiler
