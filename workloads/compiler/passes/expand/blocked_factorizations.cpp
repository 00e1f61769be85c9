#include "workloads/compiler/passes/expand/blocked_factorizations.h"

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/passes/expand/factorization_forms.h"
#include "workloads/compiler/passes/expand/matrices.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// Rows or columns from `begin` to in front of `end`.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t extent() const { return end - begin; }
};

/// Matrices [batch..., rows, columns] in parts and products, in the terms of an editor.
class MatrixParts {
 public:
  MatrixParts(GraphEditor& edit, Id matrix)
      : edit_(edit), row_(static_cast<std::int64_t>(edit.dimensions(matrix).size()) - 2) {
    const Extents extents = edit.dimensions(matrix);
    batch_ = {extents.begin(), extents.end() - 2};
  }

  Id part(Id matrix, Range rows, Range columns) {
    Extents limits = edit_.dimensions(matrix), starts(limits.size(), 0);
    if (rows.extent() == limits[row()] && columns.extent() == limits[row() + 1]) return matrix;
    starts[row()] = rows.begin, limits[row()] = rows.end;
    starts[row() + 1] = columns.begin, limits[row() + 1] = columns.end;
    return edit_.slice(matrix, starts, limits);
  }
  Id rows_of(Id matrix, Range rows) { return part(matrix, rows, {0, columns_in(matrix)}); }
  Id columns_of(Id matrix, Range columns) { return part(matrix, {0, rows_in(matrix)}, columns); }
  std::int64_t rows_in(Id matrix) const { return edit_.dimensions(matrix)[row()]; }
  std::int64_t columns_in(Id matrix) const { return edit_.dimensions(matrix)[row() + 1]; }

  Id below(Id first, Id second) { return edit_.concatenate({first, second}, row_); }
  Id beside(const std::vector<Id>& parts) {
    return parts.size() == 1 ? parts[0] : edit_.concatenate(parts, row_ + 1);
  }
  /// Zeros around a matrix, so many rows of them above it.
  Id padded(Id matrix, std::int64_t above, std::int64_t below, std::int64_t right) {
    if (above + below + right == 0) return matrix;
    std::vector<hlo::PaddingDimension> padding(edit_.dimensions(matrix).size());
    padding[row()].low = above;
    padding[row()].high = below;
    padding[row() + 1].high = right;
    return edit_.pad(matrix, padding);
  }
  Id minus(Id a, Id b) { return edit_.binary(HloOpcode::kSubtract, a, b); }

  /// Either operand may stand transposed. As precise as f32.
  Id product(Id a, bool is_first_turned, Id b, bool is_second_turned) {
    Extents extents = batch_;
    extents.push_back(is_first_turned ? columns_in(a) : rows_in(a));
    extents.push_back(is_second_turned ? rows_in(b) : columns_in(b));
    HloInstruction dot =
        edit_.start(HloOpcode::kDot, {a, b}, hlo::array_shape(ElementType::kF32, extents));
    hlo::DotDimensions dimensions;
    for (std::int64_t d = 0; d < row_; ++d) {
      dimensions.lhs_batch.push_back(d);
      dimensions.rhs_batch.push_back(d);
    }
    dimensions.lhs_contracting = {is_first_turned ? row_ : row_ + 1};
    dimensions.rhs_contracting = {is_second_turned ? row_ + 1 : row_};
    dot.dot = dimensions;
    dot.raw_attributes = std::string("operand_precision={highest,highest}");
    return edit_.append_instruction(std::move(dot));
  }

  /// Of several matrices [batch..., 1, rows, columns] one array.
  Id stacked(const std::vector<Id>& matrices) {
    std::vector<Id> parts;
    for (const Id matrix : matrices) {
      Extents extents = edit_.dimensions(matrix);
      extents.insert(extents.end() - 2, 1);
      parts.push_back(edit_.reshape(matrix, extents));
    }
    return parts.size() == 1 ? parts[0] : edit_.concatenate(parts, row_);
  }
  /// One of them, its first rows and columns.
  Id of_stack(Id matrices, std::int64_t number, std::int64_t rows) {
    Extents limits = edit_.dimensions(matrices), starts(limits.size(), 0);
    starts[row()] = number, limits[row()] = number + 1;
    limits[row() + 1] = limits[row() + 2] = rows;
    Extents extents = batch_;
    extents.insert(extents.end(), {rows, rows});
    return edit_.reshape(edit_.slice(matrices, starts, limits), extents);
  }

 private:
  std::size_t row() const { return static_cast<std::size_t>(row_); }

  GraphEditor& edit_;
  std::int64_t row_;
  Extents batch_;
};

/// The results of a factorization that is a custom call on one matrix.
std::vector<Id> factors_of(GraphEditor& edit, const char* target, Id matrix,
                           const std::vector<hlo::Shape>& results) {
  hlo::Shape all;
  all.type = ElementType::kTuple;
  all.elements = results;
  HloInstruction call = edit.start(HloOpcode::kCustomCall, {matrix}, all);
  call.custom_call_target = std::string(target);
  const Id made = edit.append_instruction(std::move(call));
  std::vector<Id> elements;
  for (std::size_t i = 0; i < results.size(); ++i) {
    HloInstruction taken = edit.start(HloOpcode::kGetTupleElement, {made}, results[i]);
    taken.tuple_index = static_cast<std::int64_t>(i);
    elements.push_back(edit.append_instruction(std::move(taken)));
  }
  return elements;
}

Id cholesky_of(GraphEditor& edit, Id block) {
  HloInstruction made = edit.start(HloOpcode::kCholesky, {block}, edit.shape(block));
  made.raw_attributes = std::string("lower=true");
  return edit.append_instruction(std::move(made));
}

Id triangular_solution(GraphEditor& edit, Id triangle, Id right, const TriangularOptions& options) {
  HloInstruction made =
      edit.start(HloOpcode::kTriangularSolve, {triangle, right}, edit.shape(right));
  made.raw_attributes = options.attributes();
  return edit.append_instruction(std::move(made));
}

/// Block columns from the left: the factor of the block on the diagonal, the rows below it over
/// that, and what is left without their product with themselves.
void cholesky_in_blocks(GraphEditor& edit, const HloInstruction& old, std::int64_t block) {
  const bool is_lower = says(old, "lower=true");
  const Id given = is_lower ? old.operands[0] : turned(edit, old.operands[0]);
  MatrixParts m(edit, given);
  const std::int64_t n = m.rows_in(given);
  Id left = given;
  std::vector<Id> columns;
  for (std::int64_t done = 0; done < n; done += block) {
    const std::int64_t rest = n - done, taken = std::min(block, rest);
    const Id diagonal = m.part(left, {0, taken}, {0, taken});
    if (taken == rest) {
      columns.push_back(m.padded(cholesky_of(edit, diagonal), done, 0, 0));
      break;
    }
    const Id below = m.part(left, {taken, rest}, {0, taken});
    Id lower = -1, panel = -1;
    if (block <= kLargestLoopBlock) {
      const std::vector<Id> factor = factors_of(edit, kCholeskyAndInverse, diagonal,
                                                {edit.shape(diagonal), edit.shape(diagonal)});
      lower = factor[0];
      panel = m.product(below, false, factor[1], true);
    } else {
      lower = cholesky_of(edit, diagonal);
      TriangularOptions options;
      options.is_lower = options.is_transposed = true;
      panel = triangular_solution(edit, lower, below, options);
    }
    columns.push_back(m.padded(m.below(lower, panel), done, 0, 0));
    left =
        m.minus(m.part(left, {taken, rest}, {taken, rest}), m.product(panel, false, panel, true));
  }
  const Id factor = m.beside(columns);
  edit.finish(is_lower ? factor : turned(edit, factor));
}

/// A triangular system by blocks. In the order in which its unknowns become known: op(A) X = B from
/// the first on where op(A) is a lower triangle, X op(A) = B where it is an upper one.
class BlockedSystem {
 public:
  BlockedSystem(GraphEditor& edit, const HloInstruction& old, std::int64_t block)
      : edit_(edit), old_(old), block_(block), m_(edit, old.operands[0]), options_(old) {
    n_ = m_.rows_in(triangle());
  }

  void run() {
    invert_blocks();
    const std::int64_t blocks = ceil_divide(n_, block_);
    edit_.finish(solution({0, blocks}, old_.operands[1]));
  }

 private:
  Id triangle() const { return old_.operands[0]; }
  Range places(Range blocks) const {
    return {blocks.begin * block_, std::min(blocks.end * block_, n_)};
  }

  /// The last one may be smaller: there is 1 on the rest of its diagonal.
  void invert_blocks() {
    std::vector<Id> blocks;
    for (std::int64_t begin = 0; begin < n_; begin += block_) {
      const Range range{begin, std::min(begin + block_, n_)};
      Id taken = m_.part(triangle(), range, range);
      if (range.extent() < block_) {
        const std::int64_t added = block_ - range.extent();
        taken = with_ones(m_.padded(taken, 0, added, added), range.extent());
      }
      blocks.push_back(taken);
    }
    HloInstruction inverses = edit_.start(HloOpcode::kCustomCall, {m_.stacked(blocks)}, {});
    inverses.shape = edit_.shape(inverses.operands[0]);
    inverses.custom_call_target = std::string(kTriangularInverse);
    TriangularOptions options = options_;
    options.is_left = true;
    options.is_transposed = false;
    inverses.raw_attributes = options.attributes();
    inverses_ = edit_.append_instruction(std::move(inverses));
  }
  Id with_ones(Id matrix, std::int64_t from) {
    const Extents extents = edit_.dimensions(matrix);
    const auto last = static_cast<std::int64_t>(extents.size()) - 1;
    const Id row = edit_.iota(ElementType::kS32, extents, last - 1);
    const Id is_added =
        edit_.compare(row, edit_.splat(ElementType::kS32, extents, static_cast<double>(from)),
                      ComparisonDirection::kGe);
    const Id is_diagonal =
        edit_.compare(row, edit_.iota(ElementType::kS32, extents, last), ComparisonDirection::kEq);
    return edit_.select(edit_.binary(HloOpcode::kAnd, is_added, is_diagonal),
                        edit_.splat(ElementType::kF32, extents, 1), matrix);
  }

  /// op(A) times X, or X times op(A): of these rows and columns of op(A).
  Id share(Range rows, Range columns, Id x) {
    const bool is_turned = options_.is_transposed;
    const Id part = is_turned ? m_.part(triangle(), places(columns), places(rows))
                              : m_.part(triangle(), places(rows), places(columns));
    return options_.is_left ? m_.product(part, is_turned, x, false)
                            : m_.product(x, false, part, is_turned);
  }
  Id rights(Id right, Range unknowns) {
    return options_.is_left ? m_.rows_of(right, unknowns) : m_.columns_of(right, unknowns);
  }

  /// The unknowns of these blocks, whose right sides these are.
  Id solution(Range blocks, Id right) {
    if (blocks.extent() == 1) {
      const Id inverse = m_.of_stack(inverses_, blocks.begin, places(blocks).extent());
      return options_.is_left ? m_.product(inverse, options_.is_transposed, right, false)
                              : m_.product(right, false, inverse, options_.is_transposed);
    }
    const std::int64_t middle = blocks.begin + blocks.extent() / 2;
    const Range low{blocks.begin, middle}, high{middle, blocks.end};
    const std::int64_t cut = places(low).extent();
    const Id low_right = rights(right, {0, cut});
    const Id high_right = rights(right, {cut, places(blocks).extent()});
    const bool op_is_lower = options_.is_lower != options_.is_transposed;
    Id first = -1, second = -1;
    if (op_is_lower == options_.is_left) {
      first = solution(low, low_right);
      const Id known = options_.is_left ? share(high, low, first) : share(low, high, first);
      second = solution(high, m_.minus(high_right, known));
    } else {
      second = solution(high, high_right);
      const Id known = options_.is_left ? share(low, high, second) : share(high, low, second);
      first = solution(low, m_.minus(low_right, known));
    }
    return options_.is_left ? m_.below(first, second) : m_.beside({first, second});
  }

  GraphEditor& edit_;
  const HloInstruction& old_;
  std::int64_t block_, n_ = 0;
  MatrixParts m_;
  TriangularOptions options_;
  Id inverses_ = -1;
};

/// Elements from `begin` on of vectors [batch..., elements].
Id elements_of(GraphEditor& edit, Id vectors, Range range) {
  Extents limits = edit.dimensions(vectors), starts(limits.size(), 0);
  starts.back() = range.begin, limits.back() = range.end;
  return edit.slice(vectors, starts, limits);
}

/// LU and QR by halves of the columns: what the first half's factors make of the other columns,
/// and the factors of what is left of those below the first half.
class HalvedColumns {
 public:
  HalvedColumns(GraphEditor& edit, const HloInstruction& old, std::int64_t half)
      : edit_(edit), old_(old), m_(edit, old.operands[0]), half_(half) {
    rows_ = m_.rows_in(old.operands[0]);
    columns_ = m_.columns_in(old.operands[0]);
  }

  /// Factors L U of the rows in order, pivots, the order. Rows of both sides come in the order of
  /// the other one.
  void lu() {
    const Id given = old_.operands[0];
    const std::vector<Id> first = lu_of(m_.columns_of(given, {0, half_}));
    const Id others = in_order(m_.columns_of(given, {half_, columns_}), first[2]);
    TriangularOptions options;
    options.is_left = options.is_lower = options.is_unit = true;
    const Id top = triangular_solution(edit_, m_.rows_of(first[0], {0, half_}),
                                       m_.rows_of(others, {0, half_}), options);
    const Id below = m_.rows_of(first[0], {half_, rows_});
    const std::vector<Id> second =
        lu_of(m_.minus(m_.rows_of(others, {half_, rows_}), m_.product(below, false, top, false)));
    const Id left = m_.below(m_.rows_of(first[0], {0, half_}), in_order(below, second[2]));
    const Id pivots = edit_.binary_with(HloOpcode::kAdd, second[1], static_cast<double>(half_));
    const Id order = elements_of(edit_, first[2], {half_, rows_});
    const auto last = static_cast<std::int64_t>(edit_.dimensions(pivots).size()) - 1;
    edit_.finish_tuple(
        {m_.beside({left, m_.below(top, second[0])}), edit_.concatenate({first[1], pivots}, last),
         edit_.concatenate(
             {elements_of(edit_, first[2], {0, half_}), elements_in_order(order, second[2])},
             last)});
  }

  /// Reflections below the diagonal, their factors. The first half's as I - V T V^T: the factor T^T
  /// of V^T times the other columns is `weights`.
  void qr() {
    const Id given = old_.operands[0];
    const std::vector<Id> first = qr_of(m_.columns_of(given, {0, half_}));
    const Id others = m_.columns_of(given, {half_, columns_});
    const Id vectors = reflection_vectors(edit_, first[0]);
    const Id reflected =
        m_.minus(others, m_.product(vectors, false,
                                    weights(edit_, vectors, first[1],
                                            m_.product(vectors, true, others, false), true),
                                    false));
    const std::vector<Id> second = qr_of(m_.rows_of(reflected, {half_, rows_}));
    const auto last = static_cast<std::int64_t>(edit_.dimensions(first[1]).size()) - 1;
    edit_.finish_tuple(
        {m_.beside({first[0], m_.below(m_.rows_of(reflected, {0, half_}), second[0])}),
         edit_.concatenate({first[1], second[1]}, last)});
  }

  /// Columns of reflections: 1 on the diagonal, 0 above it.
  static Id reflection_vectors(GraphEditor& edit, Id factors) {
    const Extents extents = edit.dimensions(factors);
    const auto last = static_cast<std::int64_t>(extents.size()) - 1;
    const Id row = edit.iota(ElementType::kS32, extents, last - 1);
    const Id column = edit.iota(ElementType::kS32, extents, last);
    const Id rest = edit.select(edit.compare(row, column, ComparisonDirection::kEq),
                                edit.splat(ElementType::kF32, extents, 1),
                                edit.splat(ElementType::kF32, extents, 0));
    return edit.select(edit.compare(row, column, ComparisonDirection::kGt), factors, rest);
  }

  /// T X or T^T X of the reflections' product I - V T V^T. T is D (I + S D)^-1, with S what is
  /// above the diagonal of V^T V and the factors of reflections on the diagonal of D: a factor of
  /// 0, of a reflection that does nothing, is no division by it.
  static Id weights(GraphEditor& edit, Id vectors, Id factors, Id right, bool is_transposed) {
    MatrixParts m(edit, vectors);
    Matrices sides(edit, edit.dimensions(right));
    const Id products = m.product(vectors, true, vectors, false);
    Matrices square(edit, edit.dimensions(products));
    const auto scaled = [&](Id x) {
      return edit.binary(HloOpcode::kMultiply, x, sides.along_rows(factors));
    };
    TriangularOptions options;
    options.is_left = options.is_unit = true;
    options.is_transposed = is_transposed;
    // T^T = (I + D S^T)^-1 D, T = (I + D S)^-1 D.
    const Id triangle =
        edit.binary(HloOpcode::kMultiply, products,
                    is_transposed ? square.along_columns(factors) : square.along_rows(factors));
    return triangular_solution(edit, triangle, scaled(right), options);
  }

 private:
  static hlo::Shape with_last(Extents extents, std::int64_t last, ElementType type) {
    extents.back() = last;
    return hlo::array_shape(type, extents);
  }
  std::vector<Id> lu_of(Id matrix) {
    Extents vectors = edit_.dimensions(matrix);
    vectors.pop_back();
    const std::int64_t rows = m_.rows_in(matrix);
    return factors_of(edit_, "LuDecomposition", matrix,
                      {edit_.shape(matrix),
                       with_last(vectors, std::min(rows, m_.columns_in(matrix)), ElementType::kS32),
                       with_last(vectors, rows, ElementType::kS32)});
  }
  std::vector<Id> qr_of(Id matrix) {
    Extents vectors = edit_.dimensions(matrix);
    vectors.pop_back();
    return factors_of(edit_, "Qr", matrix,
                      {edit_.shape(matrix),
                       with_last(vectors, std::min(m_.rows_in(matrix), m_.columns_in(matrix)),
                                 ElementType::kF32)});
  }

  /// Row i of each matrix is its row order[i].
  Id in_order(Id matrix, Id order) {
    const Extents extents = edit_.dimensions(matrix);
    const auto rank = static_cast<std::int64_t>(extents.size());
    HloInstruction rows = edit_.start(HloOpcode::kGather, {matrix, order}, edit_.shape(matrix));
    hlo::GatherDimensions places;
    places.offset_dims = {rank - 1};
    places.collapsed_slice_dims = places.start_index_map = {rank - 2};
    for (std::int64_t d = 0; d + 2 < rank; ++d) {
      places.operand_batching_dims.push_back(d);
      places.start_indices_batching_dims.push_back(d);
    }
    places.index_vector_dim = rank - 1;
    places.slice_sizes = Extents(extents.size(), 1);
    places.slice_sizes.back() = extents.back();
    rows.gather = places;
    return edit_.append_instruction(std::move(rows));
  }
  Id elements_in_order(Id vectors, Id order) {
    Extents extents = edit_.dimensions(vectors);
    extents.push_back(1);
    return edit_.reshape(in_order(edit_.reshape(vectors, extents), order),
                         edit_.dimensions(vectors));
  }

  GraphEditor& edit_;
  const HloInstruction& old_;
  MatrixParts m_;
  std::int64_t half_, rows_ = 0, columns_ = 0;
};

/// The first columns of the reflections' product I - V T V^T.
void reflectors_at_once(GraphEditor& edit, const HloInstruction& old) {
  const Id factors = old.operands[1];
  MatrixParts m(edit, old.operands[0]);
  const Extents extents = edit.dimensions(old.operands[0]);
  const std::int64_t count = edit.dimensions(factors).back();
  const Id vectors =
      HalvedColumns::reflection_vectors(edit, m.columns_of(old.operands[0], {0, count}));
  const Id top = turned(edit, m.rows_of(vectors, {0, m.columns_in(old.operands[0])}));
  const Id weights = HalvedColumns::weights(edit, vectors, factors, top, false);
  const auto last = static_cast<std::int64_t>(extents.size()) - 1;
  const Id identity = edit.select(
      edit.compare(edit.iota(ElementType::kS32, extents, last - 1),
                   edit.iota(ElementType::kS32, extents, last), ComparisonDirection::kEq),
      edit.splat(ElementType::kF32, extents, 1), edit.splat(ElementType::kF32, extents, 0));
  edit.finish(m.minus(identity, m.product(vectors, false, weights, false)));
}

/// Extents of a call's operands; 0: no blocks. Of LU and QR the columns of the first half.
std::int64_t block_of(const HloInstruction& call, const std::vector<Extents>& operands,
                      const Target& target) {
  const Extents& first = operands[0];
  std::int64_t matrices = 1;
  for (std::size_t d = 0; d + 2 < first.size(); ++d) matrices *= first[d];
  FactorizationEstimate estimate(target, matrices);
  const std::int64_t rows = *(first.end() - 2), columns = first.back();
  if (call.opcode == HloOpcode::kCholesky) return estimate.cholesky(columns).block;
  if (call.opcode == HloOpcode::kTriangularSolve) {
    const Extents& right = operands[1];
    const bool is_left = TriangularOptions(call).is_left;
    return estimate.triangular_system(columns, is_left ? right.back() : *(right.end() - 2)).block;
  }
  if (calls(call, "LuDecomposition")) return estimate.lu(rows, columns).block;
  if (calls(call, "Qr")) return estimate.qr(rows, columns).block;
  if (calls(call, "ProductOfElementaryHouseholderReflectors")) {
    return estimate.reflectors(rows, columns, operands[1].back()).block;
  }
  return 0;
}

}  // namespace

void write_in_blocks(hlo::Module& module, const Target& target) {
  const auto takes = [&target](const hlo::Computation& code, const HloInstruction& call) {
    if (!is_factorization(code, call)) return false;
    std::vector<Extents> operands;
    for (const Id operand : call.operands) operands.push_back(code.at(operand).shape.dimensions);
    return block_of(call, operands, target) > 0;
  };
  const auto rewrite = [&target](GraphEditor& edit, const HloInstruction& old) {
    std::vector<Extents> operands;
    for (const Id operand : old.operands) operands.push_back(edit.dimensions(operand));
    const std::int64_t block = block_of(old, operands, target);
    if (old.opcode == HloOpcode::kCholesky) return cholesky_in_blocks(edit, old, block);
    if (old.opcode == HloOpcode::kTriangularSolve) return BlockedSystem(edit, old, block).run();
    if (calls(old, "LuDecomposition")) return HalvedColumns(edit, old, block).lu();
    if (calls(old, "Qr")) return HalvedColumns(edit, old, block).qr();
    reflectors_at_once(edit, old);
  };
  // Blocks may be large enough for smaller ones.
  while (rewrite_everywhere(module, takes, rewrite)) {
  }
}

}  // namespace tpu::compiler
