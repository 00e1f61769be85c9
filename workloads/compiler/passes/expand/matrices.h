#pragma once

#include <cstdint>
#include <numeric>
#include <utility>

#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

/// Where the dimensions of a batch stand: before those of the matrices, or behind them, one for
/// all. There the lanes of a register are matrices of the batch, and nothing crosses them.
enum class BatchPlace : std::uint8_t { kFirst, kLast };

/// Matrices [batch..., rows, columns] and vectors [batch..., rows or columns] in the terms of an
/// editor; or [rows, columns, batch] and [rows or columns, batch].
class Matrices {
 public:
  using Id = GraphEditor::Id;
  using Extents = GraphEditor::Extents;

  Matrices(GraphEditor& edit, Extents extents, BatchPlace place = BatchPlace::kFirst)
      : edit_(edit), extents_(std::move(extents)), place_(place) {
    const auto rank = static_cast<std::int64_t>(extents_.size());
    row_ = place_ == BatchPlace::kFirst ? rank - 2 : 0;
    column_ = row_ + 1;
  }

  std::int64_t row_dimension() const { return row_; }
  std::int64_t column_dimension() const { return column_; }
  std::int64_t rows() const { return extents_[static_cast<std::size_t>(row_)]; }
  std::int64_t columns() const { return extents_[static_cast<std::size_t>(column_)]; }
  Extents row_vectors() const { return without(column_); }  ///< An element for each row.
  Extents column_vectors() const { return without(row_); }  ///< One for each column.
  Extents batch() const {
    Extents rest = extents_;
    rest.erase(rest.begin() + row_, rest.begin() + row_ + 2);
    return rest;
  }
  /// Vectors of so many elements, and matrices of so many columns.
  Extents vectors_of(std::int64_t elements) const {
    Extents vectors = batch();
    vectors.insert(vectors.begin() + row_, elements);
    return vectors;
  }
  Extents with_columns(std::int64_t columns) const {
    Extents changed = extents_;
    changed[static_cast<std::size_t>(column_)] = columns;
    return changed;
  }
  /// Some of the columns.
  Id columns_from(Id matrix, std::int64_t begin, std::int64_t end) {
    Extents limits = edit_.dimensions(matrix), starts(limits.size(), 0);
    starts[static_cast<std::size_t>(column_)] = begin;
    limits[static_cast<std::size_t>(column_)] = end;
    return edit_.slice(matrix, starts, limits);
  }
  /// Compares the row and the column number of each element.
  Id elements_on(hlo::ComparisonDirection side) {
    return edit_.compare(edit_.iota(hlo::ElementType::kS32, extents_, row_),
                         edit_.iota(hlo::ElementType::kS32, extents_, column_), side);
  }
  /// Rows and columns exchanged.
  Id turned(Id matrix) {
    Extents order(extents_.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[static_cast<std::size_t>(row_)], order[static_cast<std::size_t>(column_)]);
    return edit_.transpose(matrix, order);
  }

  /// Compares the row (column) number with a scalar, or with one of each matrix.
  Id rows_that(hlo::ComparisonDirection direction, Id number) {
    return number_compared(extents_, row_, direction, number);
  }
  Id columns_that(hlo::ComparisonDirection direction, Id number) {
    return number_compared(extents_, column_, direction, number);
  }
  /// The same of the elements of vectors with an element for each row.
  Id elements_that(const Extents& vectors, hlo::ComparisonDirection direction, Id number) {
    return number_compared(vectors, row_, direction, number);
  }
  /// A vector all over the matrices.
  Id along_rows(Id of_each_row) { return spread(of_each_row, row_); }
  Id along_columns(Id of_each_column) { return spread(of_each_column, column_); }
  /// A number of each matrix all over vectors.
  Id all_over(Id number, const Extents& extents) {
    Extents places(edit_.dimensions(number).size());
    const std::size_t behind = extents.size() - places.size();
    std::iota(places.begin(), places.end(), place_ == BatchPlace::kFirst ? 0 : behind);
    return edit_.broadcast(number, extents, places);
  }
  /// What is chosen of each row (of each column), added up: one column (row) of the matrix.
  Id sum_of_rows(Id chosen, Id matrix) {
    return edit_.reduce(kept(chosen, matrix), hlo::HloOpcode::kAdd, {column_}, 0);
  }
  Id sum_of_columns(Id chosen, Id matrix) {
    return edit_.reduce(kept(chosen, matrix), hlo::HloOpcode::kAdd, {row_}, 0);
  }
  /// An element of each matrix.
  Id element_at(Id is_row, Id is_column, Id matrix) {
    return edit_.reduce(kept(edit_.binary(hlo::HloOpcode::kAnd, is_row, is_column), matrix),
                        hlo::HloOpcode::kAdd, {row_, column_}, 0);
  }
  Id reciprocal(Id of_each_matrix) {
    return edit_.binary(hlo::HloOpcode::kDivide,
                        edit_.splat(hlo::ElementType::kF32, edit_.dimensions(of_each_matrix), 1),
                        of_each_matrix);
  }
  /// One element of each row, chosen by its column, times a number of each matrix, all over the
  /// row. A kernel that knows the number finds the element where it needs it.
  Id scaled_column(Id chosen, Id matrix, Id number) {
    const Id scaled = edit_.binary(hlo::HloOpcode::kMultiply, matrix, all_over(number, extents_));
    return along_rows(sum_of_rows(chosen, scaled));
  }
  /// The chosen element of each vector.
  Id element(Id chosen, Id vectors) {
    return edit_.reduce(kept(chosen, vectors), hlo::HloOpcode::kAdd, {row_}, 0);
  }
  /// The value where it is chosen, 0 elsewhere.
  Id kept(Id chosen, Id value) {
    return edit_.select(chosen, value,
                        edit_.splat(hlo::ElementType::kF32, edit_.dimensions(value), 0));
  }

 private:
  Extents without(std::int64_t dimension) const {
    Extents rest = extents_;
    rest.erase(rest.begin() + dimension);
    return rest;
  }
  Id number_compared(const Extents& extents, std::int64_t dimension,
                     hlo::ComparisonDirection direction, Id number) {
    const hlo::ElementType type = edit_.shape(number).type;
    return edit_.compare(edit_.iota(type, extents, dimension), all_over(number, extents),
                         direction);
  }
  Id spread(Id vectors, std::int64_t dimension) {
    Extents places(extents_.size());
    std::iota(places.begin(), places.end(), 0);
    places.erase(places.begin() + (dimension == row_ ? column_ : row_));
    return edit_.broadcast(vectors, extents_, places);
  }

  GraphEditor& edit_;
  Extents extents_;
  BatchPlace place_;
  std::int64_t row_ = 0, column_ = 0;
};

/// Rows and columns exchanged of matrices whose batch comes first.
inline GraphEditor::Id turned(GraphEditor& edit, GraphEditor::Id matrix) {
  return Matrices(edit, edit.dimensions(matrix)).turned(matrix);
}

}  // namespace tpu::compiler
