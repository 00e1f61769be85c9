#pragma once

#include <cstdint>
#include <utility>

#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

/// Matrices [batch..., rows, columns] and vectors [batch..., rows or columns] in the terms of an
/// editor.
class Matrices {
 public:
  using Id = GraphEditor::Id;
  using Extents = GraphEditor::Extents;

  Matrices(GraphEditor& edit, Id matrix) : Matrices(edit, edit.dimensions(matrix)) {}
  Matrices(GraphEditor& edit, Extents extents) : edit_(edit), extents_(std::move(extents)) {
    rank_ = static_cast<std::int64_t>(extents_.size());
    row_ = rank_ - 2;
    column_ = rank_ - 1;
  }

  std::int64_t rows() const { return extents_[static_cast<std::size_t>(row_)]; }
  std::int64_t columns() const { return extents_[static_cast<std::size_t>(column_)]; }
  Extents row_vectors() const { return without(column_); }  ///< An element for each row.
  Extents column_vectors() const { return without(row_); }  ///< One for each column.
  Extents batch() const { return {extents_.begin(), extents_.end() - 2}; }

  /// Compares the row (column) number with a scalar, or with one of each matrix.
  Id rows_that(hlo::ComparisonDirection direction, Id number) {
    return number_compared(extents_, row_, direction, number);
  }
  Id columns_that(hlo::ComparisonDirection direction, Id number) {
    return number_compared(extents_, column_, direction, number);
  }
  /// The same of the elements of vectors with an element for each row.
  Id elements_that(const Extents& vectors, hlo::ComparisonDirection direction, Id number) {
    return number_compared(vectors, static_cast<std::int64_t>(vectors.size()) - 1, direction,
                           number);
  }
  /// A vector all over the matrices.
  Id along_rows(Id of_each_row) { return spread(of_each_row, row_); }
  Id along_columns(Id of_each_column) { return spread(of_each_column, column_); }
  /// A number of each matrix all over vectors.
  Id all_over(Id number, const Extents& extents) {
    Extents places;
    for (std::size_t d = 0; d < edit_.dimensions(number).size(); ++d) {
      places.push_back(static_cast<std::int64_t>(d));
    }
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
    const auto last = static_cast<std::int64_t>(edit_.dimensions(vectors).size()) - 1;
    return edit_.reduce(kept(chosen, vectors), hlo::HloOpcode::kAdd, {last}, 0);
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
    Extents places;
    for (std::int64_t d = 0; d < row_; ++d) places.push_back(d);
    places.push_back(dimension);
    return edit_.broadcast(vectors, extents_, places);
  }

  GraphEditor& edit_;
  Extents extents_;
  std::int64_t rank_ = 0, row_ = 0, column_ = 0;
};

/// The matrices with rows and columns exchanged.
GraphEditor::Id turned(GraphEditor& edit, GraphEditor::Id matrix);

}  // namespace tpu::compiler
