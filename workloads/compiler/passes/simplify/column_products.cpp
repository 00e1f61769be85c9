#include "workloads/compiler/passes/simplify/column_products.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
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

/// Elements along the short dimensions, and multiplications for each element of the long ones,
/// whose factors are operands of a kernel. Vectors are cut out of the rows of tiles, and put into
/// them, by kernels of up to eight; planes lie apart from each other.
struct Limits {
  std::int64_t elements, products;
};
constexpr Limits kOfVectors{8, 16}, kOfPlanes{16, 64};
/// Elementwise operations that are done column by column, and arrays that they read.
constexpr int kMostByColumns = 16, kMostSources = 3;
/// Instructions of the vector unit that round a register to bf16; two go in a cycle.
constexpr double kRoundingInstructions = 5, kInstructionsInCycle = 2;

/// A dot with few elements along all but the long dimensions: those that one operand keeps, or
/// those that are contracted.
struct LongDot {
  bool is_contracted = false;                      ///< The long dimensions.
  bool is_left = false;                            ///< Where they are free: of the left operand.
  Extents extents;                                 ///< Theirs.
  Extents left_long, right_long;                   ///< Their places; empty: not there.
  std::int64_t left_short = -1, right_short = -1;  ///< The other free dimension.
  /// For each of their elements: those of both arrays, of those that are rounded, and products.
  std::int64_t first = 0, second = 0, rounded = 0, products = 1;
};

std::int64_t elements(const Extents& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

bool has_order(const Extents& dimensions) {
  return std::is_sorted(dimensions.begin(), dimensions.end());
}

class ColumnProducts {
 public:
  ColumnProducts(hlo::Module& module, const Target& target)
      : module_(module),
        target_(target),
        edit_(module),
        users_(users_of(module.entry_computation())) {}

  void run() {
    const std::size_t count = entry().instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      const HloInstruction dot = entry().instructions[i];
      if (dot.opcode != HloOpcode::kDot) continue;
      if (const auto found = long_dot(dot); found && pays(dot, *found)) rewrite(dot, *found);
    }
    if (entry().instructions.size() > count) {
      tidy(module_.computations[static_cast<std::size_t>(module_.entry)]);
    }
  }

 private:
  const hlo::Computation& entry() const { return module_.entry_computation(); }
  std::optional<LongDot> long_dot(const HloInstruction& dot) const;
  bool pays(const HloInstruction& dot, const LongDot& found);
  bool is_column_of_others(Id value) const;
  bool is_read_by_columns(Id value);
  void rewrite(const HloInstruction& dot, const LongDot& found);
  Id rounded(Id value, bool is_rounded);
  bool is_light(Id value, int& operations, int& arrays) const;
  Id column(Id value, const Extents& along, const Extents& index);
  Id new_column(Id value, const Extents& along, const Extents& index);
  Id column_of_broadcast(const HloInstruction& broadcast, const Extents& along,
                         const Extents& index);
  Id element(Id value, const Extents& index);
  Id sum_of_products(const std::vector<std::pair<Id, Id>>& factors);
  void make_columns(const HloInstruction& dot, const LongDot& found);
  void make_sums(const HloInstruction& dot, const LongDot& found);

  hlo::Module& module_;
  const Target& target_;
  GraphEditor edit_;
  std::vector<std::vector<Id>> users_;  ///< Before the pass.
  /// By value, long dimensions and the index of the others.
  std::map<std::tuple<Id, Extents, Extents>, Id> columns_;
  std::map<Id, bool> is_made_of_columns_, are_read_by_columns_;
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
  const auto extents = [](const hlo::Shape& shape, const Extents& dimensions) {
    Extents found;
    for (const std::int64_t d : dimensions) {
      found.push_back(shape.dimensions[static_cast<std::size_t>(d)]);
    }
    return found;
  };
  const auto count = [&](const hlo::Shape& shape, const Extents& dimensions) {
    return elements(extents(shape, dimensions));
  };
  const std::int64_t rows = left_free.size() == 1 ? count(left, left_free) : 0;
  const std::int64_t columns = right_free.size() == 1 ? count(right, right_free) : 0;
  const std::int64_t terms = count(left, dims.lhs_contracting);
  LongDot found;
  const auto are_short = [&](std::int64_t first, std::int64_t second, const Extents& along) {
    const Limits& limits = along.size() == 1 ? kOfVectors : kOfPlanes;
    const std::int64_t most = limits.elements;
    found.first = first;
    found.second = second;
    found.products = first * second;
    return first > 1 && first <= most && second > 1 && second <= most &&
           found.products <= limits.products;
  };
  if (rows > 0) found.left_short = left_free[0];
  if (columns > 0) found.right_short = right_free[0];
  if (are_short(rows, columns, dims.lhs_contracting) && has_order(dims.lhs_contracting) &&
      has_order(dims.rhs_contracting)) {
    found.is_contracted = true;
    found.extents = extents(left, dims.lhs_contracting);
    found.left_long = dims.lhs_contracting;
    found.right_long = dims.rhs_contracting;
    found.rounded = rows + columns;
    return found;
  }
  found.rounded = terms;
  if (are_short(terms, columns, left_free)) {
    found.is_left = true;
    found.extents = extents(left, left_free);
    found.left_long = left_free;
    return found;
  }
  if (!are_short(terms, rows, right_free)) return std::nullopt;
  found.extents = extents(right, right_free);
  found.right_long = right_free;
  return found;
}

/// Whether columns that are there make the value.
bool ColumnProducts::is_column_of_others(Id value) const {
  int operations = 0, arrays = 0;
  return is_light(value, operations, arrays) && arrays == 0;
}

/// Whether elementwise operations and dots like this one read the value, and nothing else.
bool ColumnProducts::is_read_by_columns(Id value) {
  const auto [known, is_new] = are_read_by_columns_.try_emplace(value, false);
  if (!is_new) return known->second;
  const std::vector<Id>& users = users_[static_cast<std::size_t>(value)];
  const bool found = !users.empty() && std::all_of(users.begin(), users.end(), [&](Id id) {
    const HloInstruction& user = entry().at(id);
    if (user.opcode == HloOpcode::kDot) return long_dot(user).has_value();
    return hlo::is_elementwise(user.opcode) && is_read_by_columns(id);
  });
  return are_read_by_columns_[value] = found;
}

/// For the MXUs both arrays stand in rows of tiles, of which granules of padding are not moved, and
/// a tile of either is a push each; of several long dimensions the last one alone is in tiles.
/// Columns that other columns make, or that such are made of, need not be moved.
bool ColumnProducts::pays(const HloInstruction& dot, const LongDot& found) {
  const auto length = static_cast<double>(elements(found.extents));
  const auto last = static_cast<double>(found.extents.back());
  const double padding =
      found.extents.size() < 2
          ? 1
          : static_cast<double>(round_up(found.extents.back(), std::int64_t{isa::kLanes})) / last;
  const auto moved = [&](std::int64_t first, std::int64_t second) {
    return length * static_cast<double>(first + second) * sizeof(float) /
           target_.hbm_bytes_per_cycle;
  };
  const auto rows = [](std::int64_t count) {
    return round_up(count, std::int64_t{isa::kSublanes});
  };
  const auto moved_rows = [&](std::int64_t count) {
    return count < isa::kSublanes ? round_up(count, std::int64_t{2}) : rows(count);
  };
  const auto pushes = static_cast<double>(std::max(rows(found.first), rows(found.second)));
  const double matrix_units = length / isa::kLanes * pushes / isa::kSublanes *
                              target_.push_interval_cycles / target_.mxu_count;
  const double instructions = 2 * static_cast<double>(found.products) +
                              static_cast<double>(found.rounded) * kRoundingInstructions;
  const auto registers = static_cast<double>(fewest_registers(found.extents));
  const double vector_unit = registers * instructions / kInstructionsInCycle;
  const bool right_first = !found.is_contracted && !found.is_left;
  const Id first = dot.operands[right_first ? 1 : 0];
  const bool second_stays =
      found.is_contracted ? is_column_of_others(dot.operands[1]) : is_read_by_columns(dot.id);
  const double columns = std::max(vector_unit, moved(is_column_of_others(first) ? 0 : found.first,
                                                     second_stays ? 0 : found.second));
  const double small_kernels = found.is_contracted ? static_cast<double>(found.products) : 1;
  return padding *
             std::max(matrix_units, moved(moved_rows(found.first), moved_rows(found.second))) >
         columns + small_kernels * kKernelCycles;
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

/// The elements along some dimensions at an index of the others, both in their order.
Id ColumnProducts::column(Id value, const Extents& along, const Extents& index) {
  const auto key = std::make_tuple(value, along, index);
  const auto found = columns_.find(key);
  if (found != columns_.end()) return found->second;
  const Id made = new_column(value, along, index);
  columns_[key] = made;
  return made;
}

Id ColumnProducts::new_column(Id value, const Extents& along, const Extents& index) {
  const HloInstruction given = entry().at(value);
  if (given.opcode == HloOpcode::kBroadcast) return column_of_broadcast(given, along, index);
  Extents starts, limits, extents;
  auto next = index.begin();
  for (std::size_t d = 0; d < given.shape.dimensions.size(); ++d) {
    const bool is_along = contains(along, static_cast<std::int64_t>(d));
    starts.push_back(is_along ? 0 : *next++);
    limits.push_back(is_along ? given.shape.dimensions[d] : starts.back() + 1);
    if (is_along) extents.push_back(limits.back());
  }
  int operations = 0, arrays = 0;
  if (hlo::is_elementwise(given.opcode) && is_light(value, operations, arrays)) {
    std::vector<Id> operands;
    for (const Id operand : given.operands) operands.push_back(column(operand, along, index));
    return edit_.apply_again(given, operands, extents);
  }
  return edit_.reshape(edit_.slice(value, starts, limits), extents);
}

Id ColumnProducts::column_of_broadcast(const HloInstruction& broadcast, const Extents& along,
                                       const Extents& index) {
  /// Of the operand's dimensions: those that are kept, their places in the column, the index of the
  /// others.
  Extents kept, places, inside, extents;
  std::vector<std::int64_t> of_result(broadcast.shape.dimensions.size());
  std::int64_t next_along = 0;
  auto next = index.begin();
  for (std::size_t d = 0; d < of_result.size(); ++d) {
    const bool is_along = contains(along, static_cast<std::int64_t>(d));
    of_result[d] = is_along ? next_along++ : *next++;
    if (is_along) extents.push_back(broadcast.shape.dimensions[d]);
  }
  for (std::size_t d = 0; d < broadcast.dimensions.size(); ++d) {
    const std::int64_t there = broadcast.dimensions[d];
    if (contains(along, there)) {
      kept.push_back(static_cast<std::int64_t>(d));
      places.push_back(of_result[static_cast<std::size_t>(there)]);
    } else {
      inside.push_back(of_result[static_cast<std::size_t>(there)]);
    }
  }
  const Id operand = broadcast.operands[0];
  if (kept.empty()) return edit_.broadcast(element(operand, inside), extents, {});
  const Id part = inside.empty() ? operand : column(operand, kept, inside);
  return kept.size() == extents.size() ? part : edit_.broadcast(part, extents, places);
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
  const Extents& along = found.is_left ? found.left_long : found.right_long;
  const auto kept = static_cast<std::size_t>(found.is_left ? found.right_short : found.left_short);
  const Extents extents = edit_.dimensions(array), matrix_extents = edit_.dimensions(matrix);
  const std::int64_t count = matrix_extents[kept];
  // The short dimension of the result, and its long ones.
  const std::int64_t dimension = found.is_left ? static_cast<std::int64_t>(along.size()) : 0;
  Extents long_of_result(along.size()), part_extents = found.extents;
  std::iota(long_of_result.begin(), long_of_result.end(), found.is_left ? 0 : 1);
  part_extents.insert(part_extents.begin() + dimension, 1);
  std::vector<Id> parts;
  for (std::int64_t j = 0; j < count; ++j) {
    std::vector<std::pair<Id, Id>> factors;
    Extents place(extents.size(), 0), there(matrix_extents.size(), 0);
    there[kept] = j;
    // Contracted dimensions count, the last one fastest.
    for (bool has_next = true; has_next;) {
      Extents index;
      for (std::size_t d = 0; d < place.size(); ++d) {
        if (!contains(along, static_cast<std::int64_t>(d))) index.push_back(place[d]);
      }
      const Id of_array = rounded(column(array, along, index), rounds);
      factors.emplace_back(of_array, edit_.broadcast(element(matrix, there), found.extents, {}));
      has_next = false;
      for (std::size_t c = contracted.size(); c-- > 0 && !has_next;) {
        const auto d = static_cast<std::size_t>(contracted[c]);
        has_next = ++place[d] < extents[d];
        if (!has_next) place[d] = 0;
        there[static_cast<std::size_t>(of_matrix[c])] = place[d];
      }
    }
    const Id made = sum_of_products(factors);
    columns_[std::make_tuple(dot.id, long_of_result, Extents{j})] = made;
    parts.push_back(edit_.reshape(made, part_extents));
  }
  is_made_of_columns_[dot.id] = true;
  edit_.finish(edit_.concatenate(parts, dimension));
}

/// Of a contracted one: a sum for each element of the result.
void ColumnProducts::make_sums(const HloInstruction& dot, const LongDot& found) {
  const bool rounds = !asks_for_precision(dot);
  Extents all(found.extents.size());
  std::iota(all.begin(), all.end(), 0);
  const auto columns = [&](std::size_t side, const Extents& along, std::int64_t other) {
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
          edit_.reduce(edit_.binary(HloOpcode::kMultiply, a, b), HloOpcode::kAdd, all, 0);
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
