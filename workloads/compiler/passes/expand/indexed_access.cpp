#include "workloads/compiler/passes/expand/indexed_access.h"

#include <algorithm>
#include <numeric>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/indexed_rows.h"
#include "workloads/compiler/passes/expand/window_shifts.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/refusal_list.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Shape;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

std::int64_t product(const Extents& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

Extents joined(std::initializer_list<Extents> parts) {
  Extents all;
  for (const Extents& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Dimensions of an array accessed by index vectors, sorted by what they are.
struct Roles {
  Extents batching, outer, indexed, inner;
  IndexedView view;

  void sort(const Extents& extents, const Extents& is_batching, const Extents& is_indexed) {
    batching = is_batching;
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(extents.size()); ++d) {
      if (contains(batching, d)) continue;
      if (contains(is_indexed, d)) {
        indexed.push_back(d);
      } else {
        (indexed.empty() ? outer : inner).push_back(d);
      }
    }
    view.order = joined({batching, outer, indexed, inner});
    const auto extents_of = [&](const Extents& list) {
      Extents own;
      for (std::int64_t d : list) own.push_back(extents[static_cast<std::size_t>(d)]);
      return own;
    };
    view.batches = extents_of(batching);
    view.outers = extents_of(outer);
    view.inners = extents_of(inner);
    view.batch = product(view.batches);
    view.outer = product(view.outers);
    view.indexed = product(extents_of(indexed));
    view.inner = product(view.inners);
  }
  /// Extents of the batches, then of the picks of each; returns how many these are.
  std::int64_t set_picks(const Extents& extents) {
    view.picks.assign(extents.begin() + static_cast<std::ptrdiff_t>(batching.size()),
                      extents.end());
    return product(view.picks);
  }
};

/// Dimensions that a dynamic slice does not take whole.
Extents sliced_dimensions(const Extents& array, const Extents& slice) {
  Extents sliced;
  for (std::size_t d = 0; d < array.size(); ++d) {
    if (array[d] != slice[d]) sliced.push_back(static_cast<std::int64_t>(d));
  }
  return sliced;
}

bool are_major(const Extents& dimensions, std::size_t rank) {
  return std::all_of(dimensions.begin(), dimensions.end(),
                     [rank](std::int64_t d) { return d + 2 < static_cast<std::int64_t>(rank); });
}

class IndexedAccess {
 public:
  IndexedAccess(hlo::Module& module, const Target& target)
      : module_(module), target_(target), edit_(module), rows_(module, edit_, target) {}

  void run(Refusals& refusals) {
    rewrite_each(module_, refusals, [this](Id id) { visit(id); });
  }

 private:
  void visit(Id id);
  void visit_gather(Id id);
  Extents own_picks(const HloInstruction& gather) const;
  Id start_of(const HloInstruction& gather, const Extents& extents, std::int64_t dimension);
  bool take_blocks(const HloInstruction& gather, double otherwise);
  double slabs_cycles(const HloInstruction& gather, const Roles& roles, std::int64_t picks) const;
  void take_slabs(const HloInstruction& gather, Id array, Roles roles, const Extents& extents,
                  const Extents& picks);
  std::optional<Id> block_numbers(const HloInstruction& gather, std::int64_t inner);
  bool cut_windows(const HloInstruction& gather, Id array, const Extents& extents,
                   const Extents& windows, double otherwise);
  Id in_result_order(const HloInstruction& gather, Id result, const Roles& roles,
                     const Extents& extents, const Extents& pick_extents);
  void visit_scatter(Id id);
  Extents window_of(const HloInstruction& scatter) const;
  Extents indexed_in(const HloInstruction& scatter) const;
  bool update_window(const HloInstruction& scatter, HloOpcode opcode);
  bool add_windows(const HloInstruction& scatter, HloOpcode opcode);
  Id rows_of_updates(const HloInstruction& scatter, const Roles& roles, const Extents& extents,
                     const Extents& sizes, std::size_t own, const Extents& pick_extents,
                     const Extents& pick_labels);
  Id ordered_updates(const HloInstruction& scatter, Id updates, const Roles& roles,
                     const Extents& extents, const Extents& pick_labels);
  Id in_array_order(Id result, const Roles& roles, const Extents& extents, const Extents& shorter,
                    Id whole);
  void visit_dynamic_slice(Id id);
  double take_cycles(Id value, std::int64_t dimension, std::int64_t picks) const;
  void visit_dynamic_update(Id id);
  bool update_rows(const HloInstruction& update);

  const HloInstruction& at(Id id) const { return module_.entry_computation().at(id); }

  Id component(Id indices, std::int64_t vector_dim, std::int64_t k, const Extents& batching);
  Id linear(const std::vector<Id>& components, const Extents& extents);

  hlo::Module& module_;
  const Target& target_;
  GraphEditor edit_;
  IndexedRows rows_;
};

/// Component k of the index vectors as s32 [batching dimensions..., others...].
Id IndexedAccess::component(Id indices, std::int64_t vector_dim, std::int64_t k,
                            const Extents& batching) {
  Extents extents = edit_.dimensions(indices);
  Id value = indices;
  const auto rank = static_cast<std::int64_t>(extents.size());
  Extents kept;
  for (std::int64_t d : batching) kept.push_back(d);
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d != vector_dim && !contains(batching, d)) kept.push_back(d);
  }
  if (vector_dim < rank) {
    Extents starts(extents.size(), 0), limits = extents;
    starts[static_cast<std::size_t>(vector_dim)] = k;
    limits[static_cast<std::size_t>(vector_dim)] = k + 1;
    value = edit_.slice(value, starts, limits);
    Extents without;
    for (std::int64_t d = 0; d < rank; ++d) {
      if (d != vector_dim) without.push_back(extents[static_cast<std::size_t>(d)]);
    }
    value = edit_.reshape(value, without);
    for (std::int64_t& d : kept) d -= d > vector_dim ? 1 : 0;
  }
  return edit_.convert(edit_.transpose(value, kept), ElementType::kS32);
}

/// Row-major number of an element of an array of these extents.
Id IndexedAccess::linear(const std::vector<Id>& components, const Extents& extents) {
  Id sum = components.at(0);
  for (std::size_t k = 1; k < components.size(); ++k) {
    const Extents shape = edit_.dimensions(sum);
    const Id factor = edit_.splat(ElementType::kS32, shape, static_cast<double>(extents[k]));
    sum = edit_.binary(HloOpcode::kAdd, edit_.binary(HloOpcode::kMultiply, sum, factor),
                       components[k]);
  }
  return sum;
}

/// Whole rows of a matrix, one index each, that a kernel takes in `row_cycles` each; `picked` has
/// the slices or updates.
bool is_rows_already(const HloInstruction& instruction, const Shape& table, const Shape& indices,
                     const Shape& picked, double row_cycles) {
  const hlo::GatherDimensions& dims = instruction.gather;
  const std::int64_t rank = indices.rank();
  const bool one_number = dims.index_vector_dim == rank ||
                          (dims.index_vector_dim == rank - 1 && indices.dimensions.back() == 1);
  const std::int64_t batch_rank = rank - (dims.index_vector_dim < rank ? 1 : 0);
  return table.rank() == 2 && hlo::byte_size(table.type) == 4 && one_number &&
         table.dimensions[1] > 1 && dims.offset_dims == Extents{batch_rank} &&
         dims.collapsed_slice_dims == Extents{0} && dims.start_index_map == Extents{0} &&
         dims.operand_batching_dims.empty() &&
         picked.dimensions[static_cast<std::size_t>(batch_rank)] == table.dimensions[1] &&
         !is_short_table(table.dimensions[0], table.dimensions[1], row_cycles);
}

/// [batching, outer, picks, expanded, inner] into the order of a gather's result.
Id IndexedAccess::in_result_order(const HloInstruction& gather, Id result, const Roles& roles,
                                  const Extents& extents, const Extents& pick_extents) {
  const hlo::GatherDimensions& dims = gather.gather;
  const auto rank = static_cast<std::int64_t>(extents.size());
  const auto index_rank = static_cast<std::int64_t>(edit_.dimensions(gather.operands[1]).size());
  Extents free_dims, expanded;
  for (std::int64_t d = 0; d < index_rank; ++d) {
    if (d == dims.index_vector_dim || contains(dims.start_indices_batching_dims, d)) continue;
    free_dims.push_back(d);
  }
  for (std::int64_t d : roles.indexed) {
    if (dims.slice_sizes[static_cast<std::size_t>(d)] > 1) expanded.push_back(d);
  }
  Extents made_extents, label;  // Labels: operand dimension d, or rank + index dimension.
  const auto add = [&](std::int64_t tag, std::int64_t extent) {
    label.push_back(tag);
    made_extents.push_back(extent);
  };
  for (std::size_t i = 0; i < dims.operand_batching_dims.size(); ++i) {
    add(rank + dims.start_indices_batching_dims[i], pick_extents[i]);
  }
  for (std::int64_t d : roles.outer) add(d, extents[static_cast<std::size_t>(d)]);
  for (std::size_t i = 0; i < free_dims.size(); ++i) {
    add(rank + free_dims[i], pick_extents[dims.start_indices_batching_dims.size() + i]);
  }
  for (std::int64_t d : expanded) add(d, dims.slice_sizes[static_cast<std::size_t>(d)]);
  for (std::int64_t d : roles.inner) add(d, extents[static_cast<std::size_t>(d)]);
  result = edit_.reshape(result, made_extents);
  Extents permutation, windows, batches;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(dims.collapsed_slice_dims, d) && !contains(dims.operand_batching_dims, d)) {
      windows.push_back(d);
    }
  }
  for (std::int64_t d = 0; d < index_rank; ++d) {
    if (d != dims.index_vector_dim) batches.push_back(rank + d);
  }
  std::size_t window = 0, batch = 0;
  for (std::int64_t d = 0; d < gather.shape.rank(); ++d) {
    const bool is_window = contains(dims.offset_dims, d);
    const std::int64_t tag = is_window ? windows.at(window++) : batches.at(batch++);
    // An indexed dimension that keeps an extent of 1 has no label: a reshape adds it.
    if (contains(label, tag)) permutation.push_back(place_in(label, tag));
  }
  // Collapsed dimensions that nothing moves have extent 1 and no place in the result.
  for (std::size_t i = 0; i < label.size(); ++i) {
    if (!contains(permutation, static_cast<std::int64_t>(i))) {
      permutation.push_back(static_cast<std::int64_t>(i));
    }
  }
  return edit_.reshape(edit_.transpose(result, permutation), gather.shape.dimensions);
}

/// The extents of a gather's indices but for their vectors: batches first.
Extents IndexedAccess::own_picks(const HloInstruction& gather) const {
  const hlo::GatherDimensions& dims = gather.gather;
  const Extents index_extents = edit_.dimensions(gather.operands[1]);
  Extents picks;
  for (std::int64_t d : dims.start_indices_batching_dims) {
    picks.push_back(index_extents[static_cast<std::size_t>(d)]);
  }
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(index_extents.size()); ++d) {
    if (d == dims.index_vector_dim || contains(dims.start_indices_batching_dims, d)) continue;
    picks.push_back(index_extents[static_cast<std::size_t>(d)]);
  }
  return picks;
}

/// Where the slices of a gather begin along a dimension, for each of its own picks.
Id IndexedAccess::start_of(const HloInstruction& gather, const Extents& extents,
                           std::int64_t dimension) {
  const hlo::GatherDimensions& dims = gather.gather;
  const auto at_d = static_cast<std::size_t>(dimension);
  const Id number =
      component(gather.operands[1], dims.index_vector_dim,
                place_in(dims.start_index_map, dimension), dims.start_indices_batching_dims);
  return rows_.clamp(number, extents[at_d] - dims.slice_sizes[at_d]);
}

/// For each block of the result, that many inner dimensions, its number among the operand's blocks:
/// the row-major place of their other dimensions. None: the windows are parts of those, or the
/// result has its dimensions in another order.
std::optional<Id> IndexedAccess::block_numbers(const HloInstruction& gather, std::int64_t inner) {
  const hlo::GatherDimensions& dims = gather.gather;
  const Extents extents = edit_.dimensions(gather.operands[0]);
  const Extents& made = gather.shape.dimensions;
  const Extents blocks(made.begin(), made.end() - inner);
  const auto rank = static_cast<std::int64_t>(blocks.size());
  Extents own;  // The result's dimensions of the indices, batches first, as starts have them.
  for (std::int64_t d = 0; d < gather.shape.rank(); ++d) {
    if (!contains(dims.offset_dims, d)) own.push_back(d);
  }
  const auto of_index = [&](std::int64_t d) {
    return own[static_cast<std::size_t>(d - (d > dims.index_vector_dim ? 1 : 0))];
  };
  Extents starts;
  for (std::int64_t d : dims.start_indices_batching_dims) starts.push_back(of_index(d));
  for (std::int64_t d : own) {
    if (!contains(starts, d)) starts.push_back(d);
  }
  if (!std::is_sorted(starts.begin(), starts.end())) return std::nullopt;
  std::vector<Id> components;
  std::size_t windows = 0;
  for (std::size_t d = 0; d + static_cast<std::size_t>(inner) < extents.size(); ++d) {
    const auto dimension = static_cast<std::int64_t>(d);
    const bool is_batching = contains(dims.operand_batching_dims, dimension);
    const bool is_whole = dims.slice_sizes[d] == extents[d];
    if (!is_batching && !is_whole && dims.slice_sizes[d] != 1) return std::nullopt;
    const bool is_window = !is_batching && !contains(dims.collapsed_slice_dims, dimension);
    const std::int64_t place =
        is_window     ? dims.offset_dims[windows++]
        : is_batching ? of_index(dims.start_indices_batching_dims[static_cast<std::size_t>(
                            place_in(dims.operand_batching_dims, dimension))])
                      : -1;
    if (place >= rank) return std::nullopt;
    const bool is_indexed = !is_batching && !is_whole;
    if (is_indexed && !contains(dims.start_index_map, dimension)) return std::nullopt;
    components.push_back(is_indexed
                             ? edit_.broadcast(start_of(gather, extents, dimension), blocks, starts)
                         : place < 0 ? edit_.splat(ElementType::kS32, blocks, 0)
                                     : edit_.iota(ElementType::kS32, blocks, place));
  }
  return edit_.reshape(linear(components, extents), {product(blocks)});
}

/// A gather of all that the dimensions behind the last one with an index have, where these are two
/// or more: blocks, which lie together. False where that takes more cycles than `otherwise`.
bool IndexedAccess::take_blocks(const HloInstruction& gather, double otherwise) {
  const hlo::GatherDimensions& dims = gather.gather;
  const Extents extents = edit_.dimensions(gather.operands[0]);
  const Extents& made = gather.shape.dimensions;
  const ElementType type = gather.shape.type;
  if (hlo::byte_size(type) != 4 && type != ElementType::kBf16) return false;
  std::int64_t inner = 0;
  const auto stays = [&](std::int64_t behind) {
    const auto d = static_cast<std::int64_t>(extents.size()) - 1 - behind;
    return d >= 0 &&
           dims.slice_sizes[static_cast<std::size_t>(d)] == extents[static_cast<std::size_t>(d)] &&
           !contains(dims.operand_batching_dims, d) && !contains(dims.collapsed_slice_dims, d) &&
           contains(dims.offset_dims, gather.shape.rank() - 1 - behind);
  };
  while (stays(inner)) ++inner;
  const Extents block(extents.end() - inner, extents.end());
  const std::int64_t count = gather.shape.element_count() / product(block);
  if (inner < 2 || gathered_blocks_cycles(block, type, count, target_) >= otherwise) return false;
  const std::optional<Id> numbers = block_numbers(gather, inner);
  if (!numbers) return false;
  const std::int64_t blocks = product(extents) / product(block);
  const Id table = edit_.reshape(gather.operands[0], joined({{blocks}, block}));
  edit_.finish(edit_.reshape(rows_.append_gather(table, *numbers), made));
  return true;
}

/// Cycles of a gather of all that the array has at the numbers, as blocks of the dimensions without
/// numbers; without end where that is no way. What an earlier step made may have to be turned.
double IndexedAccess::slabs_cycles(const HloInstruction& gather, const Roles& roles,
                                   std::int64_t picks) const {
  const bool takes_one = std::all_of(roles.indexed.begin(), roles.indexed.end(), [&](auto d) {
    return gather.gather->slice_sizes[static_cast<std::size_t>(d)] == 1;
  });
  if (!takes_one || roles.indexed.empty()) return std::numeric_limits<double>::infinity();
  const bool is_given = at(gather.operands[0]).opcode == HloOpcode::kParameter;
  return rows_.gathered_blocks_cycles(roles.view, gather.shape.type, picks, !is_given);
}

void IndexedAccess::take_slabs(const HloInstruction& gather, Id array, Roles roles,
                               const Extents& extents, const Extents& picks) {
  std::vector<Id> components;
  Extents indexed;
  for (std::int64_t d : roles.indexed) {
    components.push_back(start_of(gather, extents, d));
    indexed.push_back(extents[static_cast<std::size_t>(d)]);
  }
  roles.inner = joined({roles.outer, roles.inner});
  roles.outer = {};
  const Id turned = edit_.transpose(array, joined({roles.indexed, roles.inner}));
  const Extents block = joined({roles.view.outers, roles.view.inners});
  const Id table = edit_.reshape(turned, joined({{product(indexed)}, block}));
  const Id numbers = edit_.reshape(linear(components, indexed), {product(picks)});
  edit_.finish(in_result_order(gather, rows_.append_gather(table, numbers), roles, extents, picks));
}

/// A gather of windows by halves of their places (window_shifts.h), single elements along other
/// dimensions first; false where that takes more cycles than `otherwise`.
bool IndexedAccess::cut_windows(const HloInstruction& gather, Id array, const Extents& extents,
                                const Extents& windows, double otherwise) {
  const hlo::GatherDimensions& dims = gather.gather;
  const Extents picks = own_picks(gather);
  Extents singles;
  for (std::int64_t d : dims.start_index_map) {
    const auto at_d = static_cast<std::size_t>(d);
    if (dims.slice_sizes[at_d] < extents[at_d] && !contains(windows, d)) singles.push_back(d);
  }
  std::sort(singles.begin(), singles.end());
  Roles roles;
  roles.sort(extents, dims.operand_batching_dims, singles);
  const std::int64_t count = roles.set_picks(picks);
  // [batches, outer, the batches' picks, inner].
  const std::size_t batches = roles.batching.size(), own = picks.size() - batches;
  Extents stages =
      joined({roles.view.batches, roles.view.outers, roles.view.picks, roles.view.inners});
  Extents places(picks.size());
  std::iota(places.begin(), places.end(), 0);
  for (std::size_t i = batches; i < places.size(); ++i) {
    places[i] += static_cast<std::int64_t>(roles.outer.size());
  }
  const auto place_of = [&](std::int64_t d) {
    return contains(roles.outer, d)
               ? static_cast<std::int64_t>(batches) + place_in(roles.outer, d)
               : static_cast<std::int64_t>(batches + roles.outer.size() + own) +
                     place_in(roles.inner, d);
  };
  std::vector<WindowShifts::Window> all;
  for (std::int64_t d : windows) {
    all.push_back({place_of(d), dims.slice_sizes[static_cast<std::size_t>(d)], -1});
  }
  WindowShifts shifts(edit_, target_);
  double cycles = shifts.cut_cycles(stages, all);
  const bool is_word = hlo::byte_size(gather.shape.type) == 4;
  if (!singles.empty()) cycles += rows_.pick_cycles(roles.view, count, false, is_word);
  if (cycles >= otherwise) return false;
  Id result = edit_.transpose(array, roles.view.order);
  if (singles.empty()) {
    for (std::size_t i = 0; i < own; ++i) {
      stages[batches + roles.outer.size() + i] = 1;
    }
  } else {
    std::vector<Id> components;
    Extents indexed_extents;
    for (std::int64_t d : roles.indexed) {
      components.push_back(start_of(gather, extents, d));
      indexed_extents.push_back(extents[static_cast<std::size_t>(d)]);
    }
    result = rows_.pick(result, roles.view, linear(components, indexed_extents), count, false);
  }
  result = edit_.reshape(result, stages);
  Extents made = extents;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    all[i].start = start_of(gather, extents, windows[i]);
    made[static_cast<std::size_t>(windows[i])] = all[i].size;
  }
  result = shifts.cut(result, all, places);
  edit_.finish(in_result_order(gather, result, roles, made, picks));
  return true;
}

void IndexedAccess::visit_gather(Id id) {
  const HloInstruction gather = at(id);
  const hlo::GatherDimensions& dims = gather.gather;
  Id array = gather.operands[0];
  const Id indices = gather.operands[1];
  if (is_rows_already(gather, at(array).shape, at(indices).shape, gather.shape, kCopiedRowCycles)) {
    edit_.stand_for(id);
    return rows_.clamp_indices(id);
  }
  edit_.stand_for(id);
  Extents extents = edit_.dimensions(array);
  // Dimensions that no index moves are cut first; those whose slice is everything are windows.
  Extents indexed, starts(extents.size(), 0), limits = extents;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const auto dimension = static_cast<std::int64_t>(d);
    if (contains(dims.operand_batching_dims, dimension)) continue;
    const bool moves =
        contains(dims.start_index_map, dimension) && dims.slice_sizes[d] < extents[d];
    if (moves) {
      indexed.push_back(dimension);
    } else {
      limits[d] = dims.slice_sizes[d];
    }
  }
  array = edit_.slice(array, starts, limits);
  extents = edit_.dimensions(array);
  Roles roles;
  roles.sort(extents, dims.operand_batching_dims, indexed);

  // The picks: indices' own dimensions, then a dimension for each slice of more than one.
  Extents pick_extents = own_picks(gather), expanded;
  const std::size_t own = pick_extents.size();
  for (std::int64_t d : roles.indexed) {
    const std::int64_t size = dims.slice_sizes[static_cast<std::size_t>(d)];
    if (size == 1) continue;
    expanded.push_back(d);
    pick_extents.push_back(size);
  }
  Extents own_places(own);
  std::iota(own_places.begin(), own_places.end(), 0);
  std::vector<Id> components;
  Extents indexed_extents;
  const bool is_matrix = extents.size() == 2 && roles.indexed == Extents{0};
  const bool is_word = hlo::byte_size(gather.shape.type) == 4;
  const double cycles = rows_.pick_cycles(roles.view, product(pick_extents), is_matrix, is_word);
  const double slabs = slabs_cycles(gather, roles, product(pick_extents));
  if (!indexed.empty() && take_blocks(gather, std::min(cycles, slabs))) return;
  if (slabs < cycles) return take_slabs(gather, array, roles, extents, pick_extents);
  if (!expanded.empty() && cut_windows(gather, array, extents, expanded, cycles)) return;
  for (std::int64_t d : roles.indexed) {
    const auto at_d = static_cast<std::size_t>(d);
    Id number = edit_.broadcast(start_of(gather, extents, d), pick_extents, own_places);
    if (dims.slice_sizes[at_d] > 1) {
      const auto place = static_cast<std::int64_t>(own) + place_in(expanded, d);
      number =
          edit_.binary(HloOpcode::kAdd, number, edit_.iota(ElementType::kS32, pick_extents, place));
    }
    components.push_back(number);
    indexed_extents.push_back(extents[at_d]);
  }
  const std::int64_t picks = roles.set_picks(pick_extents);
  Id result = edit_.transpose(array, roles.view.order);
  if (components.empty()) {
    // Every index can only be 0: each pick is the array itself.
    result = edit_.reshape(result, {roles.view.batch, roles.view.outer, 1, roles.view.inner});
    const Extents box{roles.view.batch, roles.view.outer, picks, roles.view.inner};
    result = edit_.broadcast(
        edit_.reshape(result, {roles.view.batch, roles.view.outer, roles.view.inner}), box,
        {0, 1, 3});
  } else {
    result = rows_.pick(result, roles.view, linear(components, indexed_extents), picks, is_matrix);
  }
  edit_.finish(in_result_order(gather, result, roles, extents, pick_extents));
}

/// For each pick of a scatter the row of the array that its update meets; -1: none, for a window
/// that lies partly outside has no effect. The first `own` dimensions of the picks are the
/// indices'.
Id IndexedAccess::rows_of_updates(const HloInstruction& scatter, const Roles& roles,
                                  const Extents& extents, const Extents& sizes, std::size_t own,
                                  const Extents& pick_extents, const Extents& pick_labels) {
  const hlo::GatherDimensions& dims = scatter.gather;
  const Id indices = scatter.operands[1];
  const auto is_window = [&](std::int64_t d) {
    return !contains(dims.collapsed_slice_dims, d) && !contains(dims.operand_batching_dims, d);
  };
  Extents own_places(own);
  std::iota(own_places.begin(), own_places.end(), 0);
  std::vector<Id> components;
  Extents indexed_extents;
  Id inside = -1;
  for (std::int64_t d : roles.indexed) {
    const auto at_d = static_cast<std::size_t>(d);
    const std::int64_t k = place_in(dims.start_index_map, d);
    Id number = component(indices, dims.index_vector_dim, k, dims.start_indices_batching_dims);
    number = edit_.broadcast(number, pick_extents, own_places);
    const Id zero = edit_.splat(ElementType::kS32, pick_extents, 0);
    const Id last = edit_.splat(ElementType::kS32, pick_extents,
                                static_cast<double>(extents[at_d] - sizes[at_d]));
    const Id fits =
        edit_.binary(HloOpcode::kAnd, edit_.compare(number, zero, ComparisonDirection::kGe),
                     edit_.compare(number, last, ComparisonDirection::kLe));
    inside = inside < 0 ? fits : edit_.binary(HloOpcode::kAnd, inside, fits);
    if (is_window(d)) {
      number = edit_.binary(HloOpcode::kAdd, number,
                            edit_.iota(ElementType::kS32, pick_extents, place_in(pick_labels, d)));
    }
    components.push_back(number);
    indexed_extents.push_back(extents[at_d]);
  }
  if (components.empty()) refuse("expected an index");
  for (std::int64_t d : dims.start_index_map) {
    if (contains(roles.indexed, d)) continue;
    // The window is all of the dimension.
    const Id number = component(indices, dims.index_vector_dim, place_in(dims.start_index_map, d),
                                dims.start_indices_batching_dims);
    const Id zero = edit_.splat(ElementType::kS32, edit_.dimensions(number), 0);
    const Id fits = edit_.compare(number, zero, ComparisonDirection::kEq);
    inside = edit_.binary(HloOpcode::kAnd, inside, edit_.broadcast(fits, pick_extents, own_places));
  }
  return edit_.select(inside, linear(components, indexed_extents),
                      edit_.splat(ElementType::kS32, pick_extents, -1));
}

/// Updates as [batching, outer, picks, inner]; windows of a sum are filled up with zeros.
Id IndexedAccess::ordered_updates(const HloInstruction& scatter, Id updates, const Roles& roles,
                                  const Extents& extents, const Extents& pick_labels) {
  const hlo::GatherDimensions& dims = scatter.gather;
  const auto rank = static_cast<std::int64_t>(extents.size());
  const Extents update_extents = edit_.dimensions(updates);
  Extents windows, batches;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (contains(dims.collapsed_slice_dims, d) || contains(dims.operand_batching_dims, d)) continue;
    windows.push_back(d);
  }
  const auto index_rank = static_cast<std::int64_t>(edit_.dimensions(scatter.operands[1]).size());
  for (std::int64_t d = 0; d < index_rank; ++d) {
    if (d != dims.index_vector_dim) batches.push_back(d);
  }
  Extents labels(update_extents.size());
  std::size_t window = 0, batch = 0;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(update_extents.size()); ++d) {
    labels[static_cast<std::size_t>(d)] =
        contains(dims.offset_dims, d) ? windows[window++] : rank + batches[batch++];
  }
  Extents high(update_extents.size(), 0);
  for (std::size_t d = 0; d < labels.size(); ++d) {
    if (labels[d] >= rank || contains(roles.indexed, labels[d])) continue;
    high[d] = extents[static_cast<std::size_t>(labels[d])] - update_extents[d];
  }
  updates = edit_.pad_high(updates, high);
  Extents wanted;
  for (std::size_t i = 0; i < dims.start_indices_batching_dims.size(); ++i) {
    wanted.push_back(pick_labels[i]);
  }
  for (std::int64_t d : roles.outer) wanted.push_back(d);
  for (std::size_t i = dims.start_indices_batching_dims.size(); i < pick_labels.size(); ++i) {
    wanted.push_back(pick_labels[i]);
  }
  for (std::int64_t d : roles.inner) wanted.push_back(d);
  Extents permutation;
  for (std::int64_t tag : wanted) {
    // Inserted dimensions that no index moves have extent 1 and are not in the updates.
    if (contains(labels, tag)) permutation.push_back(place_in(labels, tag));
  }
  return edit_.transpose(updates, permutation);
}

/// The scattered rows as the array lies; behind windows that are shorter than it along `shorter`
/// comes what they do not cover.
Id IndexedAccess::in_array_order(Id result, const Roles& roles, const Extents& extents,
                                 const Extents& shorter, Id whole) {
  Extents ordered, back(extents.size());
  for (std::size_t i = 0; i < roles.view.order.size(); ++i) {
    const auto d = static_cast<std::size_t>(roles.view.order[i]);
    ordered.push_back(extents[d]);
    back[d] = static_cast<std::int64_t>(i);
  }
  result = edit_.transpose(edit_.reshape(result, ordered), back);
  for (std::int64_t d : shorter) {
    const auto at_d = static_cast<std::size_t>(d);
    Extents starts(extents.size(), 0), limits = edit_.dimensions(result);
    starts[at_d] = extents[at_d];
    limits[at_d] = edit_.dimensions(whole)[at_d];
    result = edit_.concatenate({result, edit_.slice(whole, starts, limits)}, d);
  }
  return result;
}

/// Extents of a window in a scatter's array.
Extents IndexedAccess::window_of(const HloInstruction& scatter) const {
  const hlo::GatherDimensions& dims = scatter.gather;
  const Extents updates = edit_.dimensions(scatter.operands[2]);
  Extents sizes(scatter.shape.dimensions.size(), 1);
  std::size_t window = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const auto dimension = static_cast<std::int64_t>(d);
    const bool is_window = !contains(dims.collapsed_slice_dims, dimension) &&
                           !contains(dims.operand_batching_dims, dimension);
    if (is_window) sizes[d] = updates[static_cast<std::size_t>(dims.offset_dims.at(window++))];
  }
  return sizes;
}

/// A scatter of one window along major dimensions: what stands there is combined with the update
/// where the window lies in the array, and put back. False for others.
bool IndexedAccess::update_window(const HloInstruction& scatter, HloOpcode opcode) {
  const hlo::GatherDimensions& dims = scatter.gather;
  const std::int64_t numbers_of_one = static_cast<std::int64_t>(dims.start_index_map.size());
  if (edit_.shape(scatter.operands[1]).element_count() != numbers_of_one) return false;
  const Extents sizes = window_of(scatter);
  if (!are_major(sliced_dimensions(scatter.shape.dimensions, sizes), sizes.size())) return false;
  const Id array = scatter.operands[0];
  const Extents extents = edit_.dimensions(array);
  const Id numbers =
      edit_.convert(edit_.reshape(scatter.operands[1], {numbers_of_one}), ElementType::kS32);
  std::vector<Id> starts(extents.size(), edit_.scalar(ElementType::kS32, 0));
  Id inside = -1;
  for (std::size_t k = 0; k < dims.start_index_map.size(); ++k) {
    const auto d = static_cast<std::size_t>(dims.start_index_map[k]);
    const auto place = static_cast<std::int64_t>(k);
    const Id number = edit_.reshape(edit_.slice(numbers, {place}, {place + 1}), {});
    const std::int64_t last = extents[d] - sizes[d];
    const Id fits = edit_.binary(
        HloOpcode::kAnd,
        edit_.compare(number, edit_.scalar(ElementType::kS32, 0), ComparisonDirection::kGe),
        edit_.compare(number, edit_.scalar(ElementType::kS32, static_cast<double>(last)),
                      ComparisonDirection::kLe));
    inside = inside < 0 ? fits : edit_.binary(HloOpcode::kAnd, inside, fits);
    starts[d] = rows_.clamp(number, last);
  }
  const auto start = [&](HloOpcode access, const std::vector<Id>& arrays) {
    std::vector<Id> operands = arrays;
    operands.insert(operands.end(), starts.begin(), starts.end());
    return edit_.start(access, operands, scatter.shape);
  };
  const bool is_whole = sizes == extents;
  Id present = array;
  if (!is_whole) {
    HloInstruction slice = start(HloOpcode::kDynamicSlice, {array});
    slice.shape = hlo::array_shape(scatter.shape.type, sizes);
    slice.dynamic_slice_sizes = sizes;
    present = edit_.append_instruction(std::move(slice));
  }
  const Id update = edit_.reshape(scatter.operands[2], sizes);
  const Id combined =
      opcode == HloOpcode::kParameter ? update : edit_.binary(opcode, present, update);
  const Id kept = edit_.select(edit_.broadcast(inside, sizes, {}), combined, present);
  edit_.finish(
      is_whole ? kept
               : edit_.append_instruction(start(HloOpcode::kDynamicUpdateSlice, {array, kept})));
  return true;
}

/// What adding elements one by one, or in rows of what their windows take whole, would take.
double added_cycles(const Extents& extents, const Extents& sizes, std::int64_t windows) {
  std::int64_t width = 1;
  for (std::size_t d = extents.size(); d-- > 0 && sizes[d] == extents[d];) width *= sizes[d];
  const auto rows = static_cast<double>(windows * (product(sizes) / width));
  return kAddedRowCycles * rows * static_cast<double>(ceil_divide(width, isa::kLanes));
}

/// Sums of windows at places of their own: each is put in its place by halves (window_shifts.h),
/// then they are added up. False for others, and where that takes more cycles than adding their
/// rows.
bool IndexedAccess::add_windows(const HloInstruction& scatter, HloOpcode opcode) {
  const hlo::GatherDimensions& dims = scatter.gather;
  const Extents extents = scatter.shape.dimensions, sizes = window_of(scatter);
  const ElementType type = scatter.shape.type;
  const bool is_floating = type == ElementType::kF32 || type == ElementType::kBf16;
  if (opcode != HloOpcode::kAdd || !is_floating || !dims.operand_batching_dims.empty() ||
      !dims.collapsed_slice_dims.empty()) {
    return false;
  }
  const Extents picks = own_picks(scatter);
  const auto own = static_cast<std::int64_t>(picks.size());
  std::vector<WindowShifts::Window> windows;
  for (std::int64_t d : dims.start_index_map) {
    const auto at_d = static_cast<std::size_t>(d);
    if (sizes[at_d] < extents[at_d]) windows.push_back({own + d, sizes[at_d], -1});
  }
  WindowShifts shifts(edit_, target_);
  const Extents stages = joined({picks, extents});
  if (shifts.put_cycles(stages, windows) >= added_cycles(extents, sizes, product(picks))) {
    return false;
  }
  Extents permutation, high(stages.size(), 0), reduced;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(stages.size()); ++d) {
    if (!contains(dims.offset_dims, d)) permutation.push_back(d);
    if (d < own) reduced.push_back(d);
  }
  permutation.insert(permutation.end(), dims.offset_dims.begin(), dims.offset_dims.end());
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const bool is_indexed = contains(dims.start_index_map, static_cast<std::int64_t>(d));
    if (!is_indexed) high[picks.size() + d] = extents[d] - sizes[d];
  }
  Id inside = -1;
  std::size_t next = 0;
  for (std::int64_t d : dims.start_index_map) {
    const auto at_d = static_cast<std::size_t>(d);
    const Id given = component(scatter.operands[1], dims.index_vector_dim,
                               place_in(dims.start_index_map, d), {});
    const Id start = rows_.clamp(given, extents[at_d] - sizes[at_d]);
    const Id fits = edit_.compare(given, start, ComparisonDirection::kEq);
    inside = inside < 0 ? fits : edit_.binary(HloOpcode::kAnd, inside, fits);
    if (sizes[at_d] < extents[at_d]) windows[next++].start = start;
  }
  Id value = edit_.convert(scatter.operands[2], ElementType::kF32);
  value = edit_.pad_high(edit_.transpose(value, permutation), high);
  const Extents covered = edit_.dimensions(value);
  value = edit_.select(edit_.broadcast(inside, covered, reduced), value,
                       edit_.splat(ElementType::kF32, covered, 0));
  value = edit_.reduce(shifts.put(value, stages, windows, reduced), HloOpcode::kAdd, reduced, 0);
  value =
      edit_.binary(HloOpcode::kAdd, edit_.convert(scatter.operands[0], ElementType::kF32), value);
  edit_.finish(edit_.convert(value, type));
  return true;
}

/// Dimensions along which the updates of a scatter have places: what windows take whole has one.
Extents IndexedAccess::indexed_in(const HloInstruction& scatter) const {
  const Extents& extents = scatter.shape.dimensions;
  const Extents sizes = window_of(scatter);
  Extents indexed;
  for (std::int64_t d : scatter.gather->start_index_map) {
    const auto at_d = static_cast<std::size_t>(d);
    if (extents[at_d] == 1 || sizes[at_d] < extents[at_d]) indexed.push_back(d);
  }
  if (indexed.empty()) indexed = scatter.gather->start_index_map;
  std::sort(indexed.begin(), indexed.end());
  return indexed;
}

void IndexedAccess::visit_scatter(Id id) {
  const HloInstruction scatter = at(id);
  const hlo::GatherDimensions& dims = scatter.gather;
  if (scatter.operands.size() != 3) refuse("expected one array to scatter into");
  const HloOpcode opcode = scatter_operation(module_.computation(scatter.called.at(0)));
  if (opcode == HloOpcode::kCount) {
    refuse("expected the update alone, a sum, product, maximum, minimum, and or or");
  }
  const ElementType type = scatter.shape.type;
  const Id indices = scatter.operands[1];
  if (is_rows_already(scatter, at(scatter.operands[0]).shape, at(indices).shape,
                      at(scatter.operands[2]).shape, kAddedRowCycles) &&
      hlo::byte_size(type) == 4) {
    return;
  }
  edit_.stand_for(id);
  if (update_window(scatter, opcode) || add_windows(scatter, opcode)) return;
  const ElementType word = type == ElementType::kBf16   ? ElementType::kF32
                           : type == ElementType::kPred ? ElementType::kS32
                                                        : type;
  const Id whole = edit_.convert(scatter.operands[0], word);
  Id array = whole;
  Id updates = edit_.convert(scatter.operands[2], word);
  Extents extents = edit_.dimensions(array);
  const auto rank = static_cast<std::int64_t>(extents.size());

  // Which dimension of the array each window dimension of the updates is.
  const Extents sizes = window_of(scatter);
  Extents windows;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (contains(dims.collapsed_slice_dims, d) || contains(dims.operand_batching_dims, d)) continue;
    windows.push_back(d);
  }
  const Extents indexed = indexed_in(scatter);
  // Windows that start at 0 and are shorter than the array: a sum adds zeros to the rest, other
  // operations work on what the windows cover.
  Extents shorter;
  for (std::int64_t d : windows) {
    const auto at_d = static_cast<std::size_t>(d);
    if (contains(indexed, d) || sizes[at_d] == extents[at_d] || opcode == HloOpcode::kAdd) continue;
    shorter.push_back(d);
    extents[at_d] = sizes[at_d];
  }
  if (!shorter.empty()) array = edit_.slice(whole, Extents(extents.size(), 0), extents);
  Roles roles;
  roles.sort(extents, dims.operand_batching_dims, indexed);

  // The picks: dimensions of the indices, then one for each indexed dimension with a window.
  const Extents index_extents = edit_.dimensions(indices);
  Extents pick_extents, pick_labels, batches;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(index_extents.size()); ++d) {
    if (d != dims.index_vector_dim) batches.push_back(d);
  }
  for (std::int64_t d : dims.start_indices_batching_dims) {
    pick_extents.push_back(index_extents[static_cast<std::size_t>(d)]);
    pick_labels.push_back(rank + d);
  }
  for (std::int64_t d : batches) {
    if (contains(dims.start_indices_batching_dims, d)) continue;
    pick_extents.push_back(index_extents[static_cast<std::size_t>(d)]);
    pick_labels.push_back(rank + d);
  }
  const std::size_t own = pick_extents.size();
  for (std::int64_t d : roles.indexed) {
    if (!contains(windows, d)) continue;
    pick_extents.push_back(sizes[static_cast<std::size_t>(d)]);
    pick_labels.push_back(d);
  }
  const Id numbers =
      rows_of_updates(scatter, roles, extents, sizes, own, pick_extents, pick_labels);
  const std::int64_t picks = roles.set_picks(pick_extents);
  updates = ordered_updates(scatter, updates, roles, extents, pick_labels);
  const Id seen = edit_.transpose(array, roles.view.order);
  Id result = rows_.scatter({opcode, seen, updates, numbers, roles.view, picks},
                            rank == 2 && roles.indexed == Extents{0});
  result = in_array_order(result, roles, extents, shorter, whole);
  edit_.finish(edit_.convert(result, type));
}

void IndexedAccess::visit_dynamic_slice(Id id) {
  const HloInstruction slice = at(id);
  const Extents extents = edit_.dimensions(slice.operands[0]);
  if (slice.operands.size() != extents.size() + 1) refuse("expected a start per dimension");
  const Extents sliced = sliced_dimensions(extents, slice.shape.dimensions);
  if (!sliced.empty() && are_major(sliced, extents.size())) return;
  edit_.stand_for(id);
  Id value = slice.operands[0];
  for (std::int64_t d : sliced) {
    const auto at_d = static_cast<std::size_t>(d);
    const std::int64_t size = slice.shape.dimensions[at_d];
    Id start = edit_.convert(slice.operands[1 + at_d], ElementType::kS32);
    start = edit_.broadcast(rows_.clamp(start, extents[at_d] - size), {size}, {});
    if (size > 1) {
      start = edit_.binary(HloOpcode::kAdd, start, edit_.iota(ElementType::kS32, {size}, 0));
    }
    value = rows_.take(value, d, start);
  }
  edit_.finish(value);
}

/// An update along the dimension above the lanes: its rows are scattered, where that and a copy of
/// the array, which may be needed elsewhere, take less than a select of the whole array and, of
/// several rows, moving them to their places. Returns whether.
bool IndexedAccess::update_rows(const HloInstruction& update) {
  const Extents extents = edit_.dimensions(update.operands[0]);
  if (hlo::byte_size(update.shape.type) != 4 || extents.back() == 1) return false;
  const std::size_t d = extents.size() - 2;
  const std::int64_t size = edit_.dimensions(update.operands[1])[d];
  IndexedView view;
  view.batch = product(extents) / (extents[d] * extents.back());
  view.indexed = extents[d];
  view.inner = extents.back();
  const double bytes = static_cast<double>(view.batch * view.indexed) * isa::kVmemRowBytes *
                       static_cast<double>(ceil_divide(view.inner, std::int64_t{isa::kLanes}));
  const double scatter = cycles_by_rows(scattered_rows_cycles, view, size, true, target_) +
                         kKernelCycles + 2 * bytes / target_.hbm_bytes_per_cycle;
  double select = kKernelCycles + 3 * bytes / target_.hbm_bytes_per_cycle;
  if (size > 1) {
    IndexedView of_update = view;
    of_update.indexed = size;
    select +=
        std::min(selection_cycles(of_update, view.indexed),
                 cycles_by_rows(gathered_rows_cycles, of_update, view.indexed, true, target_));
  }
  if (select <= scatter) return false;
  const Id start =
      rows_.clamp(edit_.convert(update.operands[2 + d], ElementType::kS32), view.indexed - size);
  const Extents numbers{view.batch, size};
  const Id rows = edit_.binary(HloOpcode::kAdd, edit_.broadcast(start, numbers, {}),
                               edit_.iota(ElementType::kS32, numbers, 1));
  const Id made = rows_.scatter_rows(
      {HloOpcode::kParameter, update.operands[0], update.operands[1], rows, view, size});
  edit_.finish(edit_.reshape(made, extents));
  return true;
}

/// Cycles to pick so many elements along a dimension.
double IndexedAccess::take_cycles(Id value, std::int64_t dimension, std::int64_t picks) const {
  const Extents extents = edit_.dimensions(value);
  const auto at_d = extents.begin() + static_cast<std::ptrdiff_t>(dimension);
  IndexedView view;
  view.outer = product(Extents(extents.begin(), at_d));
  view.indexed = *at_d;
  view.inner = product(Extents(at_d + 1, extents.end()));
  const bool is_word = hlo::byte_size(edit_.shape(value).type) == 4;
  return rows_.pick_cycles(view, picks, extents.size() == 2 && dimension == 0, is_word);
}

void IndexedAccess::visit_dynamic_update(Id id) {
  const HloInstruction update = at(id);
  const Extents extents = edit_.dimensions(update.operands[0]);
  const Extents sizes = edit_.dimensions(update.operands[1]);
  if (update.operands.size() != extents.size() + 2) refuse("expected a start per dimension");
  const Extents sliced = sliced_dimensions(extents, sizes);
  if (!sliced.empty() && are_major(sliced, extents.size())) return;
  edit_.stand_for(id);
  if (sliced.empty()) return edit_.finish(update.operands[1]);
  const auto above_lanes = static_cast<std::int64_t>(extents.size()) - 2;
  if (sliced == Extents{above_lanes} && update_rows(update)) return;
  Id value = update.operands[1], inside = -1;
  for (std::int64_t d : sliced) {
    const auto at_d = static_cast<std::size_t>(d);
    const std::int64_t extent = extents[at_d], size = sizes[at_d];
    const Id given = edit_.convert(update.operands[2 + at_d], ElementType::kS32);
    const Id start = rows_.clamp(given, extent - size);
    // Where along the update each place of the array lies.
    const auto distance = [&](const Extents& box, std::int64_t dimension) {
      return edit_.binary(HloOpcode::kSubtract, edit_.iota(ElementType::kS32, box, dimension),
                          edit_.broadcast(start, box, {}));
    };
    const Id place = distance(extents, d);
    const Id zero = edit_.splat(ElementType::kS32, extents, 0);
    const Id end = edit_.splat(ElementType::kS32, extents, static_cast<double>(size));
    const Id fits =
        edit_.binary(HloOpcode::kAnd, edit_.compare(place, zero, ComparisonDirection::kGe),
                     edit_.compare(place, end, ComparisonDirection::kLt));
    inside = inside < 0 ? fits : edit_.binary(HloOpcode::kAnd, inside, fits);
    if (size == 1) continue;
    Extents made = edit_.dimensions(value);
    made[at_d] = extent;
    const std::vector<WindowShifts::Window> window{{d, size, start}};
    WindowShifts shifts(edit_, target_);
    value = shifts.put_cycles(made, window) < take_cycles(value, d, extent)
                ? shifts.put(value, made, window, {})
                : rows_.take(value, d, rows_.clamp(distance({extent}, 0), size - 1));
  }
  // Dimensions of extent 1 are broadcast.
  Extents kept, places;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (edit_.dimensions(value)[d] != extents[d]) continue;
    kept.push_back(extents[d]);
    places.push_back(static_cast<std::int64_t>(d));
  }
  value = edit_.broadcast(edit_.reshape(value, kept), extents, places);
  edit_.finish(edit_.select(inside, value, update.operands[0]));
}

void IndexedAccess::visit(Id id) {
  switch (at(id).opcode) {
    case HloOpcode::kGather:
      return visit_gather(id);
    case HloOpcode::kScatter:
      return visit_scatter(id);
    case HloOpcode::kDynamicSlice:
      return visit_dynamic_slice(id);
    case HloOpcode::kDynamicUpdateSlice:
      return visit_dynamic_update(id);
    default:
      return;
  }
}

}  // namespace

void rewrite_indexed_access(hlo::Module& module, const Target& target, Refusals& refusals) {
  IndexedAccess(module, target).run(refusals);
}

}  // namespace tpu::compiler
