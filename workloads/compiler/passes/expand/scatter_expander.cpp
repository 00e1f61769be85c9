#include "workloads/compiler/passes/expand/scatter_expander.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/passes/edit.h"
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

/// Updates that one iteration applies at most: fewer make more iterations, more do not help where
/// updates meet the same places.
constexpr std::int64_t kUpdatesAtOnce = 256;

std::int64_t count_of(const Extents& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

/// Whether the kernels, or the passes behind, do the scatter as it is.
bool is_known(const hlo::Module& module, const HloInstruction& scatter) {
  if (scatter.shape.is_tuple()) return false;
  const HloOpcode opcode = scatter_operation(module.computation(scatter.called.at(0)));
  if (scatter.shape.type == ElementType::kU64) return opcode == HloOpcode::kParameter;
  if (scatter.shape.type == ElementType::kC64) {
    return opcode == HloOpcode::kParameter || opcode == HloOpcode::kAdd;
  }
  return opcode != HloOpcode::kCount;
}

/// Numbers of the parameters that an instruction of a computation depends on.
std::set<std::int64_t> parameters_of(const hlo::Computation& code, Id id) {
  std::set<std::int64_t> numbers;
  std::set<Id> seen{id};
  std::vector<Id> work{id};
  while (!work.empty()) {
    const HloInstruction& instruction = code.at(work.back());
    work.pop_back();
    if (instruction.opcode == HloOpcode::kParameter) numbers.insert(instruction.parameter_number);
    for (const Id operand : instruction.operands) {
      if (seen.insert(operand).second) work.push_back(operand);
    }
  }
  return numbers;
}

class ScatterExpander {
 public:
  ScatterExpander(hlo::Module& module, hlo::ComputationId computation, Id id)
      : module_(module),
        edit_(module, computation),
        scatter_(module.computation(computation).at(id)),
        count_(scatter_.operands.size() / 2) {
    edit_.stand_for(id);
  }

  void run() {
    if (scatter_.shape.is_tuple() && is_separable()) return separate();
    sort_dimensions();
    const Id numbers = numbers_of_rows();
    std::vector<Id> arrays, updates;
    for (std::size_t i = 0; i < count_; ++i) {
      arrays.push_back(rows_of_array(scatter_.operands[i]));
      updates.push_back(rows_of_updates(scatter_.operands[count_ + 1 + i]));
    }
    const bool is_once =
        scatter_.raw_attributes->find("unique_indices=true") != std::string::npos || picks_ == 1;
    std::vector<Id> made = is_once ? applied(edit_, arrays, numbers, updates)
                                   : applied_in_order(arrays, numbers, updates);
    for (std::size_t i = 0; i < count_; ++i) made[i] = as_array(made[i], scatter_.operands[i]);
    scatter_.shape.is_tuple() ? edit_.finish_tuple(made) : edit_.finish(made.at(0));
  }

 private:
  bool is_separable() const;
  void separate();
  void sort_dimensions();
  Id component(std::int64_t k);
  Id numbers_of_rows();
  Id rows_of_array(Id array);
  Id rows_of_updates(Id updates);
  Id as_array(Id rows, Id whole);
  std::vector<Id> applied(GraphEditor& edit, const std::vector<Id>& arrays, Id numbers,
                          const std::vector<Id>& updates);
  std::vector<Id> applied_in_order(const std::vector<Id>& arrays, Id numbers,
                                   const std::vector<Id>& updates);
  std::vector<Id> sorted_by_first(const std::vector<Id>& arrays);
  Id rows_at(GraphEditor& edit, Id table, Id numbers) const;

  hlo::Module& module_;
  GraphEditor edit_;
  const HloInstruction scatter_;
  const std::size_t count_;  ///< Of arrays.
  Extents extents_, sizes_;  ///< Of the arrays, as far as windows reach, and of the windows.
  /// Dimensions of the arrays: those that say which row, of them those with a place in the
  /// updates, and the others, which lie within a row.
  Extents row_dims_, moved_, inner_;
  Extents batches_;  ///< Extents of the indices without their vectors.
  std::int64_t rows_ = 1, picks_ = 1, width_ = 1;
};

bool ScatterExpander::is_separable() const {
  const hlo::Computation& code = module_.computation(scatter_.called.at(0));
  const HloInstruction& root = code.at(code.root);
  if (root.opcode != HloOpcode::kTuple || root.operands.size() != count_) return false;
  for (std::size_t i = 0; i < count_; ++i) {
    for (const std::int64_t number : parameters_of(code, root.operands[i])) {
      if (static_cast<std::size_t>(number) % count_ != i) return false;
    }
  }
  return true;
}

/// What a computation makes of one of its arrays, as a computation of that array alone.
hlo::ComputationId part_of(hlo::Module& module, hlo::ComputationId of, std::size_t array,
                           std::size_t count) {
  const hlo::Computation old = module.computation(of);
  const Id wanted = old.at(old.root).operands.at(array);
  hlo::Computation made;
  made.name = old.name + "." + std::to_string(module.computations.size());
  std::vector<Id> now(old.instructions.size(), -1);
  for (const std::size_t number : {array, count + array}) {
    HloInstruction parameter = old.at(old.parameters().at(number));
    const auto id = static_cast<std::size_t>(parameter.id);
    parameter.parameter_number = number == array ? 0 : 1;
    now[id] = append(made, std::move(parameter));
  }
  const std::function<Id(Id)> copied = [&](Id id) {
    Id& copy = now[static_cast<std::size_t>(id)];
    if (copy >= 0) return copy;
    HloInstruction instruction = old.at(id);
    for (Id& operand : instruction.operands) operand = copied(operand);
    return copy = append(made, std::move(instruction));
  };
  made.root = copied(wanted);
  module.computations.push_back(std::move(made));
  return static_cast<hlo::ComputationId>(module.computations.size() - 1);
}

/// A scatter for each array, with its part of the computation.
void ScatterExpander::separate() {
  std::vector<Id> made;
  for (std::size_t i = 0; i < count_; ++i) {
    HloInstruction one = scatter_;
    one.name += ".array." + std::to_string(i);
    one.operands = {scatter_.operands[i], scatter_.operands[count_],
                    scatter_.operands[count_ + 1 + i]};
    one.called = {part_of(module_, scatter_.called.at(0), i, count_)};
    one.shape = scatter_.shape.elements[i];
    made.push_back(edit_.append_instruction(std::move(one)));
  }
  edit_.finish_tuple(made);
}

void ScatterExpander::sort_dimensions() {
  const hlo::GatherDimensions& dims = scatter_.gather;
  extents_ = edit_.dimensions(scatter_.operands[0]);
  const Extents updates = edit_.dimensions(scatter_.operands[count_ + 1]);
  sizes_.assign(extents_.size(), 1);
  row_dims_ = dims.operand_batching_dims;
  std::size_t window = 0;
  for (std::size_t at = 0; at < extents_.size(); ++at) {
    const auto d = static_cast<std::int64_t>(at);
    if (contains(dims.operand_batching_dims, d)) continue;
    const bool is_window = !contains(dims.collapsed_slice_dims, d);
    if (is_window) {
      sizes_[at] = updates[static_cast<std::size_t>(dims.offset_dims.at(window++))];
    }
    if (is_window && !contains(dims.start_index_map, d)) {
      inner_.push_back(d);
      extents_[at] = sizes_[at];
      width_ *= sizes_[at];
    } else {
      row_dims_.push_back(d);
      if (is_window) moved_.push_back(d);
    }
  }
  for (const std::int64_t d : row_dims_) rows_ *= extents_[static_cast<std::size_t>(d)];
  const Extents indices = edit_.dimensions(scatter_.operands[count_]);
  for (std::size_t d = 0; d < indices.size(); ++d) {
    if (static_cast<std::int64_t>(d) != dims.index_vector_dim) batches_.push_back(indices[d]);
  }
  picks_ = count_of(batches_);
  for (const std::int64_t d : moved_) picks_ *= sizes_[static_cast<std::size_t>(d)];
}

/// Component k of the index vectors, as s32.
Id ScatterExpander::component(std::int64_t k) {
  const Id indices = scatter_.operands[count_];
  const std::int64_t vector = scatter_.gather->index_vector_dim;
  Extents starts(edit_.dimensions(indices).size(), 0), limits = edit_.dimensions(indices);
  if (vector < static_cast<std::int64_t>(limits.size())) {
    starts[static_cast<std::size_t>(vector)] = k;
    limits[static_cast<std::size_t>(vector)] = k + 1;
  }
  const Id one = edit_.reshape(edit_.slice(indices, starts, limits), batches_);
  return edit_.convert(one, ElementType::kS32);
}

/// For each update the row that it meets; -1 where its window does not lie within the array.
Id ScatterExpander::numbers_of_rows() {
  const hlo::GatherDimensions& dims = scatter_.gather;
  Extents box = batches_, own(batches_.size());
  std::iota(own.begin(), own.end(), 0);
  for (const std::int64_t d : moved_) box.push_back(sizes_[static_cast<std::size_t>(d)]);
  const auto number = [&](double value) { return edit_.splat(ElementType::kS32, box, value); };
  Id row = number(0), inside = -1;
  for (const std::int64_t d : row_dims_) {
    const auto at_d = static_cast<std::size_t>(d);
    row = edit_.binary(HloOpcode::kMultiply, row, number(static_cast<double>(extents_[at_d])));
    if (contains(dims.operand_batching_dims, d)) {
      std::int64_t of = dims.start_indices_batching_dims.at(
          static_cast<std::size_t>(place_in(dims.operand_batching_dims, d)));
      of -= of > dims.index_vector_dim ? 1 : 0;
      row = edit_.binary(HloOpcode::kAdd, row, edit_.iota(ElementType::kS32, box, of));
    } else if (contains(dims.start_index_map, d)) {
      const Id start = edit_.broadcast(component(place_in(dims.start_index_map, d)), box, own);
      const Id last = number(static_cast<double>(extents_[at_d] - sizes_[at_d]));
      const Id fits =
          edit_.binary(HloOpcode::kAnd, edit_.compare(start, number(0), ComparisonDirection::kGe),
                       edit_.compare(start, last, ComparisonDirection::kLe));
      inside = inside < 0 ? fits : edit_.binary(HloOpcode::kAnd, inside, fits);
      row = edit_.binary(HloOpcode::kAdd, row, start);
    }
    if (contains(moved_, d)) {
      const auto place = static_cast<std::int64_t>(batches_.size()) + place_in(moved_, d);
      row = edit_.binary(HloOpcode::kAdd, row, edit_.iota(ElementType::kS32, box, place));
    }
  }
  if (inside >= 0) row = edit_.select(inside, row, number(-1));
  return edit_.reshape(row, {picks_});
}

/// A matrix of rows; a vector where a row is one element.
Extents rows_of(std::int64_t rows, std::int64_t width) {
  return width == 1 ? Extents{rows} : Extents{rows, width};
}

Id ScatterExpander::rows_of_array(Id array) {
  Extents order = row_dims_;
  order.insert(order.end(), inner_.begin(), inner_.end());
  const Id covered = edit_.slice(array, Extents(extents_.size(), 0), extents_);
  return edit_.reshape(edit_.transpose(covered, order), rows_of(rows_, width_));
}

/// The updates in the order of their numbers.
Id ScatterExpander::rows_of_updates(Id updates) {
  const hlo::GatherDimensions& dims = scatter_.gather;
  const auto rank = static_cast<std::int64_t>(edit_.dimensions(updates).size());
  Extents order, windows;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(dims.offset_dims, d)) order.push_back(d);
  }
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(extents_.size()); ++d) {
    if (contains(moved_, d) || contains(inner_, d)) windows.push_back(d);
  }
  for (const Extents* list : {&moved_, &inner_}) {
    for (const std::int64_t d : *list) {
      order.push_back(dims.offset_dims.at(static_cast<std::size_t>(place_in(windows, d))));
    }
  }
  return edit_.reshape(edit_.transpose(updates, order), rows_of(picks_, width_));
}

/// The rows as the array has them, and what no window reaches.
Id ScatterExpander::as_array(Id rows, Id whole) {
  Extents order = row_dims_, ordered, back(extents_.size());
  order.insert(order.end(), inner_.begin(), inner_.end());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto d = static_cast<std::size_t>(order[i]);
    ordered.push_back(extents_[d]);
    back[d] = static_cast<std::int64_t>(i);
  }
  Id made = edit_.transpose(edit_.reshape(rows, ordered), back);
  const Extents all = edit_.dimensions(whole);
  for (const std::int64_t d : inner_) {
    const auto at_d = static_cast<std::size_t>(d);
    if (all[at_d] == extents_[at_d]) continue;
    Extents starts(extents_.size(), 0), limits = edit_.dimensions(made);
    starts[at_d] = extents_[at_d];
    limits[at_d] = all[at_d];
    made = edit_.concatenate({made, edit_.slice(whole, starts, limits)}, d);
  }
  return made;
}

hlo::GatherDimensions access_to_rows(std::int64_t width) {
  hlo::GatherDimensions access;
  if (width > 1) access.offset_dims = {1};
  access.collapsed_slice_dims = {0};
  access.start_index_map = {0};
  access.index_vector_dim = 1;
  return access;
}

Id ScatterExpander::rows_at(GraphEditor& edit, Id table, Id numbers) const {
  const Extents found = rows_of(edit.dimensions(numbers)[0], width_);
  HloInstruction gather = edit.start(HloOpcode::kGather, {table, numbers},
                                     hlo::array_shape(edit.shape(table).type, found));
  gather.gather = access_to_rows(width_);
  gather.gather.edit().slice_sizes = rows_of(1, width_);
  return edit.append_instruction(std::move(gather));
}

/// Updates that meet different rows, or none.
std::vector<Id> ScatterExpander::applied(GraphEditor& edit, const std::vector<Id>& arrays,
                                         Id numbers, const std::vector<Id>& updates) {
  std::vector<Id> given;
  for (const Id array : arrays) given.push_back(rows_at(edit, array, numbers));
  given.insert(given.end(), updates.begin(), updates.end());
  std::vector<Id> made = edit.apply(scatter_.called.at(0), given);
  for (std::size_t i = 0; i < count_; ++i) {
    const hlo::Shape shape = edit.shape(arrays[i]);
    HloInstruction put = edit.start(HloOpcode::kScatter, {arrays[i], numbers, made.at(i)}, shape);
    put.gather = access_to_rows(width_);
    put.called = {edit.scalar_computation(HloOpcode::kParameter, shape.type)};
    made[i] = edit.append_instruction(std::move(put));
  }
  return made;
}

/// Vectors of s32 in the order of the first, equal ones as they stand.
std::vector<Id> ScatterExpander::sorted_by_first(const std::vector<Id>& arrays) {
  hlo::Computation order;
  order.name = scatter_.name + ".order." + std::to_string(module_.computations.size());
  for (std::size_t i = 0; i < 2 * arrays.size(); ++i) {
    HloInstruction parameter;
    parameter.opcode = HloOpcode::kParameter;
    parameter.parameter_number = static_cast<std::int64_t>(i);
    parameter.name = "p" + std::to_string(i);
    parameter.shape = hlo::array_shape(ElementType::kS32, {});
    append(order, std::move(parameter));
  }
  HloInstruction compare;
  compare.opcode = HloOpcode::kCompare;
  compare.name = "comes_first";
  compare.operands = {0, 1};
  compare.shape = hlo::array_shape(ElementType::kPred, {});
  compare.direction = ComparisonDirection::kLt;
  order.root = append(order, std::move(compare));
  module_.computations.push_back(std::move(order));
  hlo::Shape shapes;
  shapes.type = ElementType::kTuple;
  for (const Id array : arrays) shapes.elements.push_back(edit_.shape(array));
  HloInstruction sort = edit_.start(HloOpcode::kSort, arrays, shapes);
  sort.dimensions = {0};
  sort.raw_attributes = std::string("is_stable=true");
  sort.called = {static_cast<hlo::ComputationId>(module_.computations.size() - 1)};
  const Id sorted = edit_.append_instruction(std::move(sort));
  std::vector<Id> results;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    HloInstruction element = edit_.start(HloOpcode::kGetTupleElement, {sorted}, shapes.elements[i]);
    element.tuple_index = static_cast<std::int64_t>(i);
    results.push_back(edit_.append_instruction(std::move(element)));
  }
  return results;
}

/// How many updates of the same row come before each of these sorted numbers; 0 for no row.
Id ranks_of(GraphEditor& edit, Id numbers) {
  const Extents extents = edit.dimensions(numbers);
  const std::int64_t count = extents[0];
  const auto number = [&](double value) { return edit.splat(ElementType::kS32, extents, value); };
  const Id before = edit.concatenate(
      {edit.splat(ElementType::kS32, {1}, -2), edit.slice(numbers, {0}, {count - 1})}, 0);
  const Id place = edit.iota(ElementType::kS32, extents, 0);
  const Id begins = edit.compare(numbers, before, ComparisonDirection::kNe);
  HloInstruction first = edit.start(
      HloOpcode::kReduceWindow,
      {edit.select(begins, place, number(0)), edit.scalar(ElementType::kS32, -2147483648.0)},
      edit.shape(numbers));
  hlo::WindowDimension all_before;
  all_before.size = count;
  all_before.padding_low = count - 1;
  first.window = {all_before};
  first.called = {edit.scalar_computation(HloOpcode::kMaximum, ElementType::kS32)};
  const Id rank =
      edit.binary(HloOpcode::kSubtract, place, edit.append_instruction(std::move(first)));
  const Id is_none = edit.compare(numbers, number(0), ComparisonDirection::kLt);
  return edit.select(is_none, number(0), rank);
}

Id sliced_from(GraphEditor& edit, Id array, Id begin, std::int64_t count) {
  hlo::Shape shape = edit.shape(array);
  shape.dimensions[0] = count;
  std::vector<Id> operands{array, begin};
  if (shape.rank() == 2) operands.push_back(edit.scalar(ElementType::kS32, 0));
  HloInstruction slice = edit.start(HloOpcode::kDynamicSlice, operands, shape);
  slice.dynamic_slice_sizes = shape.dimensions;
  return edit.append_instruction(std::move(slice));
}

/// Of each row first its first update, then its second one. An iteration takes the next updates
/// that are all the first, or all the second, or ... of their rows.
std::vector<Id> ScatterExpander::applied_in_order(const std::vector<Id>& arrays, Id numbers,
                                                  const std::vector<Id>& updates) {
  const std::int64_t at_once = std::min(picks_, kUpdatesAtOnce);
  const Id place = edit_.iota(ElementType::kS32, {picks_}, 0);
  const std::vector<Id> by_row = sorted_by_first({numbers, place});
  const std::vector<Id> by_rank =
      sorted_by_first({ranks_of(edit_, by_row[0]), by_row[0], by_row[1]});
  // Behind the last update stand others, whose ranks are none.
  const auto longer = [&](Id value) {
    Extents first = edit_.dimensions(value);
    first[0] = at_once;
    return edit_.concatenate({value, edit_.slice(value, Extents(first.size(), 0), first)}, 0);
  };
  const Id no_rank = edit_.splat(ElementType::kS32, {at_once}, -1);
  std::vector<Id> state{edit_.scalar(ElementType::kS32, 0)};
  state.insert(state.end(), arrays.begin(), arrays.end());
  state.push_back(edit_.concatenate({by_rank[0], no_rank}, 0));
  state.push_back(longer(by_rank[1]));
  for (const Id update : updates) state.push_back(longer(rows_at(edit_, update, by_rank[2])));
  const auto goes_on = [&](GraphEditor& test, Id begin) {
    return test.compare(begin, test.scalar(ElementType::kS32, static_cast<double>(picks_)),
                        ComparisonDirection::kLt);
  };
  const auto iteration = [&](GraphEditor& inside, const std::vector<Id>& values) {
    const std::vector<Id> present(values.begin() + 1,
                                  values.begin() + 1 + static_cast<std::ptrdiff_t>(count_));
    const auto next = [&](std::size_t value) {
      return sliced_from(inside, values.at(1 + count_ + value), values[0], at_once);
    };
    const Id rank = next(0);
    const Id first = inside.reshape(inside.slice(rank, {0}, {1}), {});
    const Id is_alike =
        inside.compare(rank, inside.broadcast(first, {at_once}, {}), ComparisonDirection::kEq);
    const Id rows =
        inside.select(is_alike, next(1), inside.splat(ElementType::kS32, {at_once}, -1));
    std::vector<Id> now;
    for (std::size_t i = 0; i < count_; ++i) now.push_back(next(2 + i));
    std::vector<Id> all = values;
    now = applied(inside, present, rows, now);
    std::copy(now.begin(), now.end(), all.begin() + 1);
    const Id taken = inside.convert(
        inside.reduce(inside.convert(is_alike, ElementType::kF32), HloOpcode::kAdd, {0}, 0),
        ElementType::kS32);
    all[0] = inside.binary(HloOpcode::kAdd, values[0], taken);
    return all;
  };
  std::vector<Id> made = loop_while(module_, edit_, scatter_, state, goes_on, iteration);
  made.resize(count_);
  return made;
}

}  // namespace

void expand_scatters(hlo::Module& module) {
  // Scatters that are separated stand behind those that were there, parts that no kernel knows,
  // too.
  for (std::size_t c = 0; c < module.computations.size(); ++c) {
    const auto in = static_cast<hlo::ComputationId>(c);
    bool found = false;
    for (std::size_t i = 0; i < module.computation(in).instructions.size(); ++i) {
      const HloInstruction& instruction = module.computation(in).instructions[i];
      if (instruction.opcode != HloOpcode::kScatter || is_known(module, instruction)) continue;
      ScatterExpander(module, in, static_cast<Id>(i)).run();
      found = true;
    }
    if (found) tidy(module.computations[c]);
  }
}

}  // namespace tpu::compiler
