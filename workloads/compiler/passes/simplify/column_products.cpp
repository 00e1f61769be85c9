#include "workloads/compiler/passes/simplify/column_products.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "isa/instruction.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/dot_problem.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/operand_precision.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// Of one dimension that is not the long one; their rows fill no more than a tile.
constexpr std::int64_t kLongestOfShort = 8;
/// Multiplications for each element of the long dimension: their factors are operands of a kernel.
constexpr std::int64_t kMostProducts = 16;
/// Elementwise operations that are done column by column, and arrays that they read.
constexpr int kMostByColumns = 16, kMostSources = 3;
/// Instructions of the vector unit that round a register to bf16; two go in a cycle.
constexpr double kRoundingInstructions = 5, kInstructionsInCycle = 2;
/// Kernels that cut out and put together what is not long.
constexpr double kSmallKernels = 3;

/// A dot with one long dimension.
struct LongDot {
  bool is_contracted = false;  ///< The long dimension.
  bool is_left = false;        ///< Where it is free: of the left operand.
  std::int64_t extent = 0;
  std::int64_t left_long = -1, right_long = -1;    ///< Its place; -1: not there.
  std::int64_t left_short = -1, right_short = -1;  ///< The other free dimension.
  std::int64_t products = 1;
};

class ColumnProducts {
 public:
  ColumnProducts(hlo::Module& module, const Target& target)
      : module_(module), target_(target), edit_(module) {}

  void run() {
    const std::size_t count = entry().instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      const HloInstruction dot = entry().instructions[i];
      if (dot.opcode != HloOpcode::kDot) continue;
      if (const auto found = long_dot(dot); found && pays(*found)) rewrite(dot, *found);
    }
    if (entry().instructions.size() > count) {
      tidy(module_.computations[static_cast<std::size_t>(module_.entry)]);
    }
  }

 private:
  const hlo::Computation& entry() const { return module_.entry_computation(); }
  std::optional<LongDot> long_dot(const HloInstruction& dot) const;
  bool pays(const LongDot& dot) const;
  void rewrite(const HloInstruction& dot, const LongDot& found);
  Id rounded(Id value, bool is_rounded);
  bool is_light(Id value, int& operations, int& arrays) const;
  Id column(Id value, std::int64_t along, const Extents& index);
  Id new_column(Id value, std::int64_t along, const Extents& index);
  Id column_of_broadcast(const HloInstruction& broadcast, std::int64_t along, const Extents& index);
  Id element(Id value, const Extents& index);
  Id sum_of_products(const std::vector<std::pair<Id, Id>>& factors);
  void make_columns(const HloInstruction& dot, const LongDot& found);
  void make_sums(const HloInstruction& dot, const LongDot& found);

  hlo::Module& module_;
  const Target& target_;
  GraphEditor edit_;
  /// By value, long dimension and the index of the others.
  std::map<std::tuple<Id, std::int64_t, Extents>, Id> columns_;
  std::map<Id, bool> is_made_of_columns_;
};

std::optional<LongDot> ColumnProducts::long_dot(const HloInstruction& dot) const {
  const hlo::Shape &left = entry().at(dot.operands[0]).shape,
                   &right = entry().at(dot.operands[1]).shape;
  const auto is_f32 = [](const hlo::Shape& shape) { return shape.type == ElementType::kF32; };
  if (!is_f32(dot.shape) || !is_f32(left) || !is_f32(right)) return std::nullopt;
  const hlo::DotDimensions& dims = dot.dot;
  if (!dims.lhs_batch.empty()) return std::nullopt;
  const Extents left_free = free_dimensions(left, {}, dims.lhs_contracting);
  const Extents right_free = free_dimensions(right, {}, dims.rhs_contracting);
  if (left_free.size() != 1 || right_free.size() != 1) return std::nullopt;
  const auto extent = [](const hlo::Shape& shape, std::int64_t d) {
    return shape.dimensions[static_cast<std::size_t>(d)];
  };
  const std::int64_t rows = extent(left, left_free[0]), columns = extent(right, right_free[0]);
  std::int64_t terms = 1;
  for (const std::int64_t d : dims.lhs_contracting) terms *= extent(left, d);
  LongDot found;
  found.left_short = left_free[0];
  found.right_short = right_free[0];
  const auto is_short = [](std::int64_t count) { return count > 1 && count <= kLongestOfShort; };
  if (is_short(rows) && is_short(columns) && dims.lhs_contracting.size() == 1) {
    found.is_contracted = true;
    found.extent = terms;
    found.left_long = dims.lhs_contracting[0];
    found.right_long = dims.rhs_contracting[0];
    found.products = rows * columns;
  } else if (is_short(columns) && is_short(terms)) {
    found.is_left = true;
    found.extent = rows;
    found.left_long = std::exchange(found.left_short, -1);
    found.products = columns * terms;
  } else if (is_short(rows) && is_short(terms)) {
    found.extent = columns;
    found.right_long = std::exchange(found.right_short, -1);
    found.products = rows * terms;
  } else {
    return std::nullopt;
  }
  return found.products <= kMostProducts ? std::optional(found) : std::nullopt;
}

/// The MXUs take a row of operands a cycle each, however few its elements.
bool ColumnProducts::pays(const LongDot& dot) const {
  const auto length = static_cast<double>(dot.extent);
  const auto products = static_cast<double>(dot.products);
  const double registers = length / (isa::kSublanes * isa::kLanes);
  const double instructions = 2 * products + 2 * kLongestOfShort * kRoundingInstructions;
  const double vector_unit = registers * instructions / kInstructionsInCycle;
  return length / target_.mxu_count > vector_unit + kSmallKernels * kKernelCycles;
}

/// As an operand of the MXU.
Id ColumnProducts::rounded(Id value, bool is_rounded) {
  if (!is_rounded) return value;
  return edit_.convert(edit_.convert(value, ElementType::kBf16), ElementType::kF32);
}

/// Whether few elementwise operations make the value of few arrays, and of columns.
bool ColumnProducts::is_light(Id value, int& operations, int& arrays) const {
  const HloInstruction& made = entry().at(value);
  if (is_made_of_columns_.count(value) > 0 || made.opcode == HloOpcode::kBroadcast) return true;
  if (!hlo::is_elementwise(made.opcode)) return ++arrays <= kMostSources;
  if (++operations > kMostByColumns) return false;
  return std::all_of(made.operands.begin(), made.operands.end(), [&](Id operand) {
    return entry().at(operand).shape.dimensions == made.shape.dimensions &&
           is_light(operand, operations, arrays);
  });
}

/// The elements along a dimension at an index of the others, which stands there in their order.
Id ColumnProducts::column(Id value, std::int64_t along, const Extents& index) {
  const auto key = std::make_tuple(value, along, index);
  const auto found = columns_.find(key);
  if (found != columns_.end()) return found->second;
  const Id made = new_column(value, along, index);
  columns_[key] = made;
  return made;
}

Id ColumnProducts::new_column(Id value, std::int64_t along, const Extents& index) {
  const HloInstruction given = entry().at(value);
  const std::int64_t extent = given.shape.dimensions[static_cast<std::size_t>(along)];
  if (given.opcode == HloOpcode::kBroadcast) return column_of_broadcast(given, along, index);
  int operations = 0, arrays = 0;
  if (hlo::is_elementwise(given.opcode) && is_light(value, operations, arrays)) {
    std::vector<Id> operands;
    for (const Id operand : given.operands) operands.push_back(column(operand, along, index));
    return edit_.apply_again(given, operands, {extent});
  }
  Extents starts = index, limits;
  starts.insert(starts.begin() + along, 0);
  for (const std::int64_t start : starts) limits.push_back(start + 1);
  limits[static_cast<std::size_t>(along)] = extent;
  return edit_.reshape(edit_.slice(value, starts, limits), {extent});
}

Id ColumnProducts::column_of_broadcast(const HloInstruction& broadcast, std::int64_t along,
                                       const Extents& index) {
  const std::int64_t extent = broadcast.shape.dimensions[static_cast<std::size_t>(along)];
  Extents places = index, inside;
  places.insert(places.begin() + along, -1);
  std::int64_t long_dimension = -1;
  for (std::size_t d = 0; d < broadcast.dimensions.size(); ++d) {
    if (broadcast.dimensions[d] == along) {
      long_dimension = static_cast<std::int64_t>(d);
    } else {
      inside.push_back(places[static_cast<std::size_t>(broadcast.dimensions[d])]);
    }
  }
  const Id operand = broadcast.operands[0];
  if (long_dimension < 0) return edit_.broadcast(element(operand, inside), {extent}, {});
  return inside.empty() ? operand : column(operand, long_dimension, inside);
}

/// A scalar.
Id ColumnProducts::element(Id value, const Extents& index) {
  if (index.empty()) return value;
  Extents limits = index;
  for (std::int64_t& limit : limits) ++limit;
  return edit_.reshape(edit_.slice(value, index, limits), {});
}

Id ColumnProducts::sum_of_products(const std::vector<std::pair<Id, Id>>& factors) {
  Id sum = -1;
  for (const auto& [a, b] : factors) {
    const Id product = edit_.binary(HloOpcode::kMultiply, a, b);
    sum = sum < 0 ? product : edit_.binary(HloOpcode::kAdd, sum, product);
  }
  return sum;
}

/// Of a free long dimension: a column of the result for each index of the short one.
void ColumnProducts::make_columns(const HloInstruction& dot, const LongDot& found) {
  const bool rounds = !asks_for_precision(dot);
  const Id array = dot.operands[found.is_left ? 0 : 1];
  const Id matrix = rounded(dot.operands[found.is_left ? 1 : 0], rounds);
  const hlo::DotDimensions& dims = dot.dot;
  const Extents& contracted = found.is_left ? dims.lhs_contracting : dims.rhs_contracting;
  const Extents& of_matrix = found.is_left ? dims.rhs_contracting : dims.lhs_contracting;
  const auto along = static_cast<std::size_t>(found.is_left ? found.left_long : found.right_long);
  const auto kept = static_cast<std::size_t>(found.is_left ? found.right_short : found.left_short);
  const Extents extents = edit_.dimensions(array), matrix_extents = edit_.dimensions(matrix);
  const std::int64_t count = matrix_extents[kept];
  const std::int64_t dimension = found.is_left ? 1 : 0;  // Of the result.
  std::vector<Id> parts;
  for (std::int64_t j = 0; j < count; ++j) {
    std::vector<std::pair<Id, Id>> factors;
    Extents place(extents.size(), 0), there(matrix_extents.size(), 0);
    there[kept] = j;
    // Contracted dimensions count, the last one fastest.
    for (bool has_next = true; has_next;) {
      Extents index = place;
      index.erase(index.begin() + static_cast<std::ptrdiff_t>(along));
      const Id of_array = rounded(column(array, static_cast<std::int64_t>(along), index), rounds);
      factors.emplace_back(of_array, edit_.broadcast(element(matrix, there), {found.extent}, {}));
      has_next = false;
      for (std::size_t c = contracted.size(); c-- > 0 && !has_next;) {
        const auto d = static_cast<std::size_t>(contracted[c]);
        has_next = ++place[d] < extents[d];
        if (!has_next) place[d] = 0;
        there[static_cast<std::size_t>(of_matrix[c])] = place[d];
      }
    }
    const Id made = sum_of_products(factors);
    columns_[std::make_tuple(dot.id, 1 - dimension, Extents{j})] = made;
    parts.push_back(
        edit_.reshape(made, dimension == 1 ? Extents{found.extent, 1} : Extents{1, found.extent}));
  }
  is_made_of_columns_[dot.id] = true;
  edit_.finish(edit_.concatenate(parts, dimension));
}

/// Of a contracted one: a sum for each element of the result.
void ColumnProducts::make_sums(const HloInstruction& dot, const LongDot& found) {
  const bool rounds = !asks_for_precision(dot);
  const auto columns = [&](std::size_t side, std::int64_t along, std::int64_t other) {
    std::vector<Id> made;
    const Id value = dot.operands[side];
    const std::int64_t count = edit_.dimensions(value)[static_cast<std::size_t>(other)];
    for (std::int64_t i = 0; i < count; ++i) {
      made.push_back(rounded(column(value, along, {i}), rounds));
    }
    return made;
  };
  const std::vector<Id> left = columns(0, found.left_long, found.left_short);
  const std::vector<Id> right = columns(1, found.right_long, found.right_short);
  std::vector<Id> rows;
  for (const Id a : left) {
    std::vector<Id> elements;
    for (const Id b : right) {
      const Id sum =
          edit_.reduce(edit_.binary(HloOpcode::kMultiply, a, b), HloOpcode::kAdd, {0}, 0);
      elements.push_back(edit_.reshape(sum, {1, 1}));
    }
    rows.push_back(edit_.concatenate(elements, 1));
  }
  edit_.finish(edit_.concatenate(rows, 0));
}

void ColumnProducts::rewrite(const HloInstruction& dot, const LongDot& found) {
  edit_.stand_for(dot.id);
  if (found.is_contracted) {
    make_sums(dot, found);
  } else {
    make_columns(dot, found);
  }
}

}  // namespace

void multiply_columns(hlo::Module& module, const Target& target) {
  ColumnProducts(module, target).run();
}

}  // namespace tpu::compiler
