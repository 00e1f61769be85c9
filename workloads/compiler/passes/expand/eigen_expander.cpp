#include "workloads/compiler/passes/expand/eigen_expander.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/rotations.h"
#include "workloads/compiler/passes/expand/counted_loop.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// One rotation of all pairs, in the terms of an editor. Matrices are [batch..., n, n], vectors
/// have an element for each row.
class JacobiRotation {
 public:
  JacobiRotation(GraphEditor& edit, Extents extents)
      : edit_(edit), extents_(std::move(extents)), vectors_(extents_.begin(), extents_.end() - 1) {
    column_ = static_cast<std::int64_t>(extents_.size()) - 1;
    row_ = column_ - 1;
    size_ = extents_.back();
  }

  /// The elements of each row in the column that is `distance` further, round the end.
  Id diagonal(Id matrix, std::int64_t distance) {
    Id column = edit_.iota(ElementType::kS32, extents_, row_);
    if (distance > 0) {
      const Id moved = edit_.binary_with(HloOpcode::kAdd, column, static_cast<double>(distance));
      const Id back = edit_.binary_with(HloOpcode::kSubtract, moved, static_cast<double>(size_));
      const Id end = edit_.splat(ElementType::kS32, extents_, static_cast<double>(size_));
      column = edit_.select(edit_.compare(moved, end, ComparisonDirection::kLt), moved, back);
    }
    const Id chosen = edit_.compare(edit_.iota(ElementType::kS32, extents_, column_), column,
                                    ComparisonDirection::kEq);
    const Id zeros = edit_.splat(ElementType::kF32, extents_, 0);
    return edit_.reduce(edit_.select(chosen, matrix, zeros), HloOpcode::kAdd, {column_}, 0);
  }

  /// Sine and cosine of the angle that makes the element of each pair zero; rows of a pair have
  /// opposite sines.
  void find_angles(Id matrix) {
    const std::int64_t half = size_ / 2;
    const Id own = diagonal(matrix, 0), between = diagonal(matrix, half);
    const Id partners = diagonal(parted(matrix, row_, {half, 0}), half);
    const Id difference = edit_.binary(HloOpcode::kSubtract, partners, own);
    const Id cotangent = edit_.binary(HloOpcode::kDivide, difference,
                                      edit_.binary(HloOpcode::kAdd, between, between));
    const Id is_first =
        edit_.compare(edit_.iota(ElementType::kS32, vectors_, row_),
                      edit_.splat(ElementType::kS32, vectors_, static_cast<double>(half)),
                      ComparisonDirection::kLt);
    const Id x = edit_.select(is_first, cotangent, edit_.unary(HloOpcode::kNegate, cotangent));
    const Id one = edit_.splat(ElementType::kF32, vectors_, 1);
    const Id root = length(x, one);
    const Id zero = edit_.splat(ElementType::kF32, vectors_, 0);
    const Id signed_root = edit_.select(edit_.compare(x, zero, ComparisonDirection::kGe), root,
                                        edit_.unary(HloOpcode::kNegate, root));
    const Id smaller =
        edit_.binary(HloOpcode::kDivide, one, edit_.binary(HloOpcode::kAdd, x, signed_root));
    const Id tangent = edit_.select(is_first, smaller, edit_.unary(HloOpcode::kNegate, smaller));
    const Id is_zero = edit_.compare(between, zero, ComparisonDirection::kEq);
    const Id chosen = edit_.select(is_zero, zero, tangent);
    cosine_ = edit_.binary(HloOpcode::kDivide, one, length(chosen, one));
    sine_ = edit_.binary(HloOpcode::kMultiply, chosen, cosine_);
  }

  Id turned_rows(Id matrix) { return turned(matrix, row_); }
  Id turned_columns(Id matrix) { return turned(matrix, column_); }
  /// Rows (columns) in places where each has another partner: the first stays, the others go round.
  Id moved_rows(Id matrix) { return moved(matrix, row_); }
  Id moved_columns(Id matrix) { return moved(matrix, column_); }

 private:
  /// sqrt(x^2 + 1).
  Id length(Id x, Id one) {
    const Id square = edit_.binary(HloOpcode::kMultiply, x, x);
    return edit_.unary(HloOpcode::kSqrt, edit_.binary(HloOpcode::kAdd, square, one));
  }
  Id spread(Id vector, std::int64_t dimension) {
    Extents places;
    for (std::int64_t d = 0; d < row_; ++d) places.push_back(d);
    places.push_back(dimension);
    return edit_.broadcast(vector, extents_, places);
  }
  Id turned(Id matrix, std::int64_t dimension) {
    const Id partner = parted(matrix, dimension, {size_ / 2, 0});
    return edit_.binary(HloOpcode::kSubtract,
                        edit_.binary(HloOpcode::kMultiply, spread(cosine_, dimension), matrix),
                        edit_.binary(HloOpcode::kMultiply, spread(sine_, dimension), partner));
  }
  Id moved(Id matrix, std::int64_t dimension) {
    const std::int64_t half = size_ / 2;
    if (half < 2) return matrix;
    const auto part = [&](std::int64_t from, std::int64_t to) {
      return slice(matrix, dimension, from, to);
    };
    std::vector<Id> parts{part(0, 1), part(half, half + 1)};
    if (half > 2) parts.push_back(part(1, half - 1));
    parts.push_back(part(half + 1, size_));
    parts.push_back(part(half - 1, half));
    return edit_.concatenate(parts, dimension);
  }
  /// Halves that begin at these places, one behind the other.
  Id parted(Id value, std::int64_t dimension, const Extents& begins) {
    std::vector<Id> parts;
    for (std::int64_t begin : begins) {
      parts.push_back(slice(value, dimension, begin, begin + size_ / 2));
    }
    return edit_.concatenate(parts, dimension);
  }
  Id slice(Id value, std::int64_t dimension, std::int64_t from, std::int64_t to) {
    Extents limits = edit_.dimensions(value);
    Extents starts(limits.size(), 0);
    starts[static_cast<std::size_t>(dimension)] = from;
    limits[static_cast<std::size_t>(dimension)] = to;
    return edit_.slice(value, starts, limits);
  }

  GraphEditor& edit_;
  Extents extents_, vectors_;
  std::int64_t row_ = 0, column_ = 0, size_ = 0;
  Id sine_ = -1, cosine_ = -1;
};

/// A symmetric matrix of an even size from one triangle; what is added is zero and meets nothing.
Id padded_matrix(GraphEditor& edit, Id given, bool is_lower) {
  const Extents extents = edit.dimensions(given);
  const auto last = static_cast<std::int64_t>(extents.size()) - 1;
  Extents order;
  for (std::int64_t d = 0; d <= last; ++d) order.push_back(d);
  std::swap(order[static_cast<std::size_t>(last)], order[static_cast<std::size_t>(last - 1)]);
  const Id is_given = edit.compare(edit.iota(ElementType::kS32, extents, last - 1),
                                   edit.iota(ElementType::kS32, extents, last),
                                   is_lower ? ComparisonDirection::kGe : ComparisonDirection::kLe);
  const Id matrix = edit.select(is_given, given, edit.transpose(given, order));
  if (extents.back() % 2 == 0) return matrix;
  Extents high(extents.size(), 0);
  high[static_cast<std::size_t>(last)] = high[static_cast<std::size_t>(last - 1)] = 1;
  return edit.pad_high(matrix, high);
}

Id identity(GraphEditor& edit, const Extents& extents) {
  const auto last = static_cast<std::int64_t>(extents.size()) - 1;
  return edit.select(
      edit.compare(edit.iota(ElementType::kS32, extents, last - 1),
                   edit.iota(ElementType::kS32, extents, last), ComparisonDirection::kEq),
      edit.splat(ElementType::kF32, extents, 1), edit.splat(ElementType::kF32, extents, 0));
}

/// Vectors (columns) and values in ascending order of the values: the place of each is how many
/// are smaller, or equal and in front of it.
std::vector<Id> sorted(GraphEditor& edit, Id vectors, Id values) {
  using Direction = ComparisonDirection;
  const Extents extents = edit.dimensions(vectors);
  const auto last = static_cast<std::int64_t>(extents.size()) - 1;
  Extents batch, of_rows, of_columns;
  for (std::int64_t d = 0; d + 1 < last; ++d) batch.push_back(d);
  of_rows = of_columns = batch;
  of_rows.push_back(last - 1);
  of_columns.push_back(last);
  const Id own = edit.broadcast(values, extents, of_rows);
  const Id other = edit.broadcast(values, extents, of_columns);
  const Id row = edit.iota(ElementType::kS32, extents, last - 1);
  const Id column = edit.iota(ElementType::kS32, extents, last);
  const Id before =
      edit.binary(HloOpcode::kOr, edit.compare(other, own, Direction::kLt),
                  edit.binary(HloOpcode::kAnd, edit.compare(other, own, Direction::kEq),
                              edit.compare(column, row, Direction::kLt)));
  const Id place = edit.reduce(edit.convert(before, ElementType::kF32), HloOpcode::kAdd, {last}, 0);
  const Id chosen = edit.compare(edit.broadcast(place, extents, of_rows),
                                 edit.convert(column, ElementType::kF32), Direction::kEq);
  const Id zeros = edit.splat(ElementType::kF32, extents, 0);
  const Id in_order = edit.reduce(edit.select(chosen, own, zeros), HloOpcode::kAdd, {last - 1}, 0);
  Extents all = extents;
  all.push_back(extents.back());
  Extents vector_places = batch, chosen_places = batch;
  vector_places.insert(vector_places.end(), {last - 1, last});
  chosen_places.insert(chosen_places.end(), {last, last + 1});
  const Id picked = edit.select(edit.broadcast(chosen, all, chosen_places),
                                edit.broadcast(vectors, all, vector_places),
                                edit.splat(ElementType::kF32, all, 0));
  return {edit.reduce(picked, HloOpcode::kAdd, {last}, 0), in_order};
}

bool is_eigen(const hlo::Computation& code, const HloInstruction& call) {
  if (call.opcode != HloOpcode::kCustomCall || call.custom_call_target.get() != "Eigh" ||
      call.operands.size() != 1 || call.shape.elements.size() != 2) {
    return false;
  }
  const hlo::Shape& matrix = code.at(call.operands[0]).shape;
  return matrix.type == ElementType::kF32 && matrix.rank() >= 2 && matrix.element_count() > 0 &&
         *(matrix.dimensions.end() - 1) == *(matrix.dimensions.end() - 2) &&
         same_extent(call.shape.elements[0], matrix);
}

/// What Jacobi's method finds, of the size of what is given, in no order.
struct Found {
  Id vectors = -1, values = -1;
};

Found rotated_by_kernel(GraphEditor& edit, Id matrix, const Extents& given) {
  Extents extents = edit.dimensions(matrix);
  const std::size_t row = extents.size() - 2;
  const std::int64_t last = extents[row]++;
  HloInstruction call =
      edit.start(HloOpcode::kCustomCall, {matrix}, hlo::array_shape(ElementType::kF32, extents));
  call.custom_call_target = std::string(kRotations);
  const Id both = edit.append_instruction(std::move(call));
  Extents starts(given.size(), 0), limits = given, rows = given;
  starts[row] = last, limits[row] = last + 1;
  rows.pop_back();
  Found found;
  found.values = edit.reshape(edit.slice(both, starts, limits), rows);
  found.vectors = edit.slice(both, Extents(given.size(), 0), given);
  return found;
}

Found rotated_in_loop(hlo::Module& module, GraphEditor& edit, const HloInstruction& call, Id matrix,
                      const Extents& given) {
  const Extents extents = edit.dimensions(matrix);
  const auto body = [&](GraphEditor& inner, Id, const std::vector<Id>& state) {
    JacobiRotation rotation(inner, extents);
    rotation.find_angles(state[0]);
    const Id turned = rotation.turned_columns(rotation.turned_rows(state[0]));
    return std::vector<Id>{rotation.moved_columns(rotation.moved_rows(turned)),
                           rotation.moved_columns(rotation.turned_columns(state[1]))};
  };
  const std::vector<Id> left = counted_loop(module, edit, call, rotation_steps(extents.back()),
                                            {matrix, identity(edit, extents)}, body);
  const Extents starts(given.size(), 0);
  Found found;
  found.values = edit.slice(JacobiRotation(edit, extents).diagonal(left[0], 0),
                            Extents(starts.begin(), starts.end() - 1),
                            Extents(given.begin(), given.end() - 1));
  found.vectors = edit.slice(left[1], starts, given);
  return found;
}

/// Unless so many matrices fill fewer tiles with one in each lane: there a loop takes less.
bool has_kernel(const Extents& extents) {
  const std::int64_t rows = extents.back();
  const std::int64_t count =
      std::accumulate(extents.begin(), extents.end() - 2, std::int64_t{1}, std::multiplies<>());
  const std::int64_t row_tiles = ceil_divide(rows, std::int64_t{isa::kSublanes});
  const std::int64_t in_lanes = rows * row_tiles * ceil_divide(count, std::int64_t{isa::kLanes});
  return rows <= kMostRotatedRows && count * row_tiles <= in_lanes;
}

void expand(hlo::Module& module, GraphEditor& edit, const HloInstruction& call) {
  // "lower,sort,...".
  const bool is_lower = call.raw_attributes->find("backend_config=\"0,") == std::string::npos;
  const Extents given = edit.dimensions(call.operands[0]);
  const Id matrix = padded_matrix(edit, call.operands[0], is_lower);
  const Found found = has_kernel(edit.dimensions(matrix))
                          ? rotated_by_kernel(edit, matrix, given)
                          : rotated_in_loop(module, edit, call, matrix, given);
  edit.finish_tuple(sorted(edit, found.vectors, found.values));
}

}  // namespace

void expand_eigenvalues(hlo::Module& module) {
  rewrite_everywhere(module, is_eigen, [&](GraphEditor& edit, const HloInstruction& call) {
    expand(module, edit, call);
  });
}

}  // namespace tpu::compiler
