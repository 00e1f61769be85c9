#include "workloads/compiler/passes/expand/indexed_access.h"

#include <algorithm>
#include <array>
#include <cmath>
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

/// An array seen as [batch, outer, indexed, inner]: `order` brings its dimensions there. Selections
/// keep the extents that batch, outer, inner and shared picks are products of: joining those that
/// fill no tiles would move the whole array.
struct IndexedView {
  Extents order;
  std::int64_t batch = 1, outer = 1, indexed = 1, inner = 1;
  Extents batches, outers, inners;
  Extents picks;  ///< Of each batch.
};

/// Cycles of a selection: of a vector register of it about 4, measured on kernels of this compiler.
double selection_cycles(const IndexedView& view, std::int64_t picks) {
  constexpr double kRegisterCycles = 4;
  const std::int64_t outside = view.batch * view.outer;
  const std::int64_t registers =
      view.inner > 1 ? outside * picks * ceil_divide(view.indexed, 8) * ceil_divide(view.inner, 128)
                     : outside * ceil_divide(picks, 8) * ceil_divide(view.indexed, 128);
  return kRegisterCycles * static_cast<double>(registers);
}

/// What the kernels of rows say of themselves.
using RowsCycles = double (*)(std::int64_t table_rows, std::int64_t lane_tiles, std::int64_t count,
                              const Target& target);

/// Cycles of picks by rows; what is no matrix becomes one first, 512 bytes in a cycle.
double cycles_by_rows(RowsCycles of_kernel, const IndexedView& view, std::int64_t picks,
                      bool is_matrix, const Target& target) {
  const std::int64_t table_rows = view.batch * view.indexed;
  const std::int64_t width = ceil_divide(view.outer * view.inner, 128);
  const double rows = kKernelCycles + of_kernel(table_rows, width, view.batch * picks, target);
  return is_matrix ? rows : rows + kKernelCycles + static_cast<double>(table_rows * width);
}

/// Cycles of picks of single elements, see gather_lanes(): a row of 128 of them each, and 20 to
/// bring the lane's number to all lanes and the element to its place; elements of several batches
/// become one line first, ten of them in a cycle (both measured).
double lane_cycles(const IndexedView& view, std::int64_t picks, const Target& target) {
  constexpr double kPickedLaneCycles = 20;
  const std::int64_t rows = ceil_divide(view.batch * view.indexed, std::int64_t{isa::kLanes});
  const std::int64_t count = view.batch * picks;
  const double line =
      view.batch > 1 ? kKernelCycles + static_cast<double>(view.batch * view.indexed) / 10 : 0;
  return 2 * kKernelCycles + line + gathered_rows_cycles(rows, 1, count, target) +
         kPickedLaneCycles * static_cast<double>(count);
}

/// A row of a table in VMEM that a kernel copies, or adds to, by its width in tiles.
constexpr double kCopiedRowCycles = 7, kAddedRowCycles = 11;

/// Whether a table that all picks share has so few elements that each pick compares itself with all
/// its rows in less time than a row takes. A selection has registers full of picks and of elements
/// of rows, or of the latter alone: for each row a compare, a select and a sum in memory.
bool is_short_table(std::int64_t rows, std::int64_t width, double row_cycles) {
  constexpr double kRowRegisterCycles = 6, kRegisterElements = 1024;
  const std::int64_t tiles = ceil_divide(width, isa::kLanes);
  const std::int64_t filled = width < isa::kLanes ? width : tiles * isa::kLanes;
  return kRowRegisterCycles * static_cast<double>(rows * filled) / kRegisterElements <=
         row_cycles * static_cast<double>(tiles);
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

class IndexedAccess {
 public:
  IndexedAccess(hlo::Module& module, const Target& target)
      : module_(module), target_(target), edit_(module) {}

  void run(Refusals& refusals) {
    rewrite_each(module_, refusals, [this](Id id) { visit(id); });
  }

 private:
  /// Indices of one access, flattened to [batch, picks]: s32 numbers along the indexed dimension.
  struct Picks {
    Id numbers = -1;
    std::int64_t count = 1;
  };

  void visit(Id id);
  void visit_gather(Id id);
  Id in_result_order(const HloInstruction& gather, Id result, const Roles& roles,
                     const Extents& extents, const Extents& pick_extents);
  void visit_scatter(Id id);
  Id rows_of_updates(const HloInstruction& scatter, const Roles& roles, const Extents& extents,
                     const Extents& sizes, std::size_t own, const Extents& pick_extents,
                     const Extents& pick_labels);
  Id ordered_updates(const HloInstruction& scatter, Id updates, const Roles& roles,
                     const Extents& extents, const Extents& pick_labels);
  Id in_array_order(Id result, const Roles& roles, const Extents& extents, const Extents& shorter,
                    Id whole);
  void visit_dynamic_slice(Id id);
  void visit_dynamic_update(Id id);
  bool update_rows(const HloInstruction& update);

  const HloInstruction& at(Id id) const { return module_.entry_computation().at(id); }

  Id component(Id indices, std::int64_t vector_dim, std::int64_t k, const Extents& batching);
  Id clamp(Id value, std::int64_t last);
  Id linear(const std::vector<Id>& components, const Extents& extents);
  Id pick(Id array, const IndexedView& view, Id numbers, std::int64_t picks, bool is_matrix);
  Id append_gather(Id table, Id numbers);
  Id pick_by_rows(Id array, const IndexedView& view, Id numbers, std::int64_t picks);
  Id pick_by_selection(Id array, const IndexedView& view, Id numbers);
  Id select_floats(Id array, const IndexedView& view, Id numbers);
  Id take(Id array, std::int64_t dimension, Id numbers);
  /// What a scatter does, seen as [batch, outer, indexed or picks, inner].
  struct Scattering {
    HloOpcode opcode = HloOpcode::kAdd;  ///< kParameter: the update alone.
    Id array = -1, updates = -1, numbers = -1;
    IndexedView view;
    std::int64_t picks = 1;
  };
  Id scatter_to(const Scattering& scattering, bool is_matrix);
  Id scatter_rows(const Scattering& scattering);
  Id scatter_elements(const Scattering& scattering);
  Id scatter_selected(const Scattering& scattering);
  Id scatter_last(const Scattering& scattering);
  Id rows_or_none(const Scattering& scattering);
  Id append_scatter(const Scattering& scattering, Id table, Id numbers, Id rows);
  Id gather_lanes(Id array, const IndexedView& view, Id numbers, std::int64_t picks);

  hlo::Module& module_;
  const Target& target_;
  GraphEditor edit_;
};

Id IndexedAccess::clamp(Id value, std::int64_t last) {
  const Extents extents = edit_.dimensions(value);
  const Id low =
      edit_.binary(HloOpcode::kMaximum, value, edit_.splat(ElementType::kS32, extents, 0));
  return edit_.binary(HloOpcode::kMinimum, low,
                      edit_.splat(ElementType::kS32, extents, static_cast<double>(last)));
}

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

/// [batch, outer, indexed, inner] by numbers [batch, picks] -> [batch, outer, picks, inner], the
/// latter in that order but with any extents.
Id IndexedAccess::pick(Id array, const IndexedView& view, Id numbers, std::int64_t picks,
                       bool is_matrix) {
  const bool is_short = is_short_table(view.indexed, view.outer * view.inner, kCopiedRowCycles);
  const bool is_single =
      view.outer * view.inner == 1 && hlo::byte_size(edit_.shape(array).type) == 4;
  const double rows = is_single
                          ? lane_cycles(view, picks, target_)
                          : cycles_by_rows(gathered_rows_cycles, view, picks, is_matrix, target_);
  if (is_short || selection_cycles(view, picks) <= rows) {
    return pick_by_selection(array, view, numbers);
  }
  return is_single ? gather_lanes(array, view, numbers, picks)
                   : pick_by_rows(array, view, numbers, picks);
}

Id with_batch_offset(GraphEditor& edit, Id numbers, const IndexedView& view, std::int64_t picks) {
  const Extents extents{view.batch, picks};
  const Id flat = edit.reshape(numbers, extents);
  if (view.batch == 1) return edit.reshape(flat, {picks});
  const Id row = edit.iota(ElementType::kS32, extents, 0);
  const Id begin =
      edit.binary(HloOpcode::kMultiply, row,
                  edit.splat(ElementType::kS32, extents, static_cast<double>(view.indexed)));
  return edit.reshape(edit.binary(HloOpcode::kAdd, flat, begin), {view.batch * picks});
}

/// An array of four extents in another order; it has no dimensions of extent 1, whose tiles would
/// be mostly padding.
Id reordered(GraphEditor& edit, Id array, const Extents& extents, const Extents& order) {
  Extents kept, number(extents.size(), -1), permutation;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 1) continue;
    number[d] = static_cast<std::int64_t>(kept.size());
    kept.push_back(extents[d]);
  }
  for (std::int64_t d : order) {
    const std::int64_t place = number[static_cast<std::size_t>(d)];
    if (place >= 0) permutation.push_back(place);
  }
  return edit.transpose(edit.reshape(array, kept), permutation);
}

/// Rows of a table by a vector of numbers.
Id IndexedAccess::append_gather(Id table, Id numbers) {
  const std::int64_t width = edit_.dimensions(table)[1];
  HloInstruction gather;
  gather.opcode = HloOpcode::kGather;
  gather.name =
      at(table).name + ".rows." + std::to_string(module_.entry_computation().instructions.size());
  gather.metadata = at(table).metadata;
  gather.operands = {table, numbers};
  gather.shape = hlo::array_shape(edit_.shape(table).type, {edit_.dimensions(numbers)[0], width});
  gather.gather.edit().offset_dims = {1};
  gather.gather.edit().collapsed_slice_dims = {0};
  gather.gather.edit().start_index_map = {0};
  gather.gather.edit().index_vector_dim = 1;
  gather.gather.edit().slice_sizes = {1, width};
  return edit_.append_instruction(std::move(gather));
}

Id IndexedAccess::pick_by_rows(Id array, const IndexedView& view, Id numbers, std::int64_t picks) {
  const ElementType type = edit_.shape(array).type;
  const bool narrow = hlo::byte_size(type) != 4 && type != ElementType::kBf16;
  Id table =
      reordered(edit_, array, {view.batch, view.outer, view.indexed, view.inner}, {0, 2, 1, 3});
  if (narrow) table = edit_.convert(table, ElementType::kF32);
  table = edit_.reshape(table, {view.batch * view.indexed, view.outer * view.inner});
  Id rows = append_gather(table, with_batch_offset(edit_, numbers, view, picks));
  rows = edit_.convert(rows, type);
  return reordered(edit_, rows, {view.batch, picks, view.outer, view.inner}, {0, 2, 1, 3});
}

/// Single elements: 128 of them are a row of the table, of which one lane is taken.
Id IndexedAccess::gather_lanes(Id array, const IndexedView& view, Id numbers, std::int64_t picks) {
  const std::int64_t elements = view.batch * view.indexed,
                     rows = ceil_divide(elements, isa::kLanes);
  const Id flat = edit_.pad_high(edit_.reshape(array, {elements}), {rows * isa::kLanes - elements});
  const Id places = with_batch_offset(edit_, numbers, view, picks);
  const Id row = edit_.binary_with(HloOpcode::kShiftRightArithmetic, places, 7);
  const Id lane = edit_.binary_with(HloOpcode::kAnd, places, isa::kLanes - 1);
  const Id table = append_gather(edit_.reshape(flat, {rows, isa::kLanes}), row);
  IndexedView within;
  within.batch = view.batch * picks;
  within.batches = {within.batch};
  within.indexed = isa::kLanes;
  return pick_by_selection(table, within, edit_.reshape(lane, {within.batch, 1}));
}

/// A space of named lists of extents without those of 1: which dimensions each name has in it.
struct Box {
  using Names = std::array<Extents, 6>;
  Extents extents;
  Names places;

  /// Of `always` an extent of 1 stays, too.
  explicit Box(const Names& all, std::size_t always) {
    for (std::size_t name = 0; name < all.size(); ++name) {
      for (std::int64_t extent : all[name]) {
        if (extent == 1 && name != always) continue;
        places[name].push_back(static_cast<std::int64_t>(extents.size()));
        extents.push_back(extent);
      }
    }
  }
  /// The value, whose dimensions are some of the names in order, all over the box.
  Id spread(GraphEditor& edit, Id value, const std::vector<std::size_t>& names) const {
    Extents own, own_places;
    for (std::size_t name : names) {
      for (std::int64_t place : places[name]) {
        own.push_back(extents[static_cast<std::size_t>(place)]);
        own_places.push_back(place);
      }
    }
    return edit.broadcast(edit.reshape(value, own), extents, own_places);
  }
};

/// Names of the space of a selection.
enum : std::size_t { kBatch, kOuter, kPicks, kIndexed, kLastPicks, kInner };

/// The space of a selection. A table that all picks share is compared with a register of picks row
/// by row; otherwise picks are one dimension, and the gathered one stands in the lanes where there
/// is no inner one. `in_lanes`: all picks do.
Box selection_space(const IndexedView& view, bool in_lanes) {
  Extents picks = view.picks, last;
  if (view.batch > 1) picks = {product(picks)};
  if (in_lanes) {
    picks.swap(last);
  } else if (view.batch == 1 && view.inner > 1 && !picks.empty()) {
    last = {picks.back()};
    picks.pop_back();
  }
  return Box({view.batches, view.outers, picks, Extents{view.indexed}, last, view.inners},
             kIndexed);
}

/// The selection of floating values: exactly one element of the sum is not 0.
Id IndexedAccess::select_floats(Id array, const IndexedView& view, Id numbers) {
  const Box box = selection_space(view, false);
  const std::int64_t indexed = box.places[kIndexed].front();
  const Id place = edit_.iota(ElementType::kS32, box.extents, indexed);
  const Id wanted = box.spread(edit_, numbers, {kBatch, kPicks, kLastPicks});
  const Id value = box.spread(edit_, array, {kBatch, kOuter, kIndexed, kInner});
  const Id hit = edit_.compare(place, wanted, ComparisonDirection::kEq);
  const Id chosen = edit_.select(hit, value, edit_.splat(ElementType::kF32, box.extents, 0));
  return edit_.reduce(chosen, HloOpcode::kAdd, {indexed}, 0);
}

Id IndexedAccess::pick_by_selection(Id array, const IndexedView& view, Id numbers) {
  const ElementType type = edit_.shape(array).type;
  if (type == ElementType::kF32) return select_floats(array, view, numbers);
  if (type == ElementType::kBf16) {
    const Id wide = edit_.convert(array, ElementType::kF32);
    return edit_.convert(select_floats(wide, view, numbers), type);
  }
  if (type == ElementType::kPred) {
    const Id wide = edit_.convert(array, ElementType::kF32);
    const Id chosen = select_floats(wide, view, numbers);
    return edit_.compare(chosen, edit_.splat(ElementType::kF32, edit_.dimensions(chosen), 0),
                         ComparisonDirection::kNe);
  }
  // Integers in two halves, which fp32 holds exactly.
  const Id words = edit_.reinterpret(array, ElementType::kS32);
  const auto part = [&](HloOpcode opcode, double amount) {
    const Id operand = edit_.splat(ElementType::kS32, edit_.dimensions(words), amount);
    const Id half = edit_.convert(edit_.binary(opcode, words, operand), ElementType::kF32);
    return edit_.convert(select_floats(half, view, numbers), ElementType::kS32);
  };
  const Id high = part(HloOpcode::kShiftRightArithmetic, 16);
  const Id low = part(HloOpcode::kAnd, 0xffff);
  const Id shifted = edit_.binary(HloOpcode::kShiftLeft, high,
                                  edit_.splat(ElementType::kS32, edit_.dimensions(high), 16));
  return edit_.reinterpret(edit_.binary(HloOpcode::kOr, shifted, low), type);
}

/// The array with one dimension replaced by what the numbers (a vector, in range) pick of it.
Id IndexedAccess::take(Id array, std::int64_t dimension, Id numbers) {
  const Extents extents = edit_.dimensions(array);
  IndexedView view;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(extents.size()); ++d) {
    const std::int64_t extent = extents[static_cast<std::size_t>(d)];
    (d < dimension ? view.outer : d == dimension ? view.indexed : view.inner) *= extent;
    if (d != dimension) (d < dimension ? view.outers : view.inners).push_back(extent);
  }
  const std::int64_t picks = edit_.dimensions(numbers).at(0);
  view.picks = {picks};
  const bool is_matrix = extents.size() == 2 && dimension == 0;
  const Id picked = pick(array, view, numbers, picks, is_matrix);
  Extents result = extents;
  result[static_cast<std::size_t>(dimension)] = picks;
  return edit_.reshape(picked, result);
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

void IndexedAccess::visit_gather(Id id) {
  const HloInstruction gather = at(id);
  const hlo::GatherDimensions& dims = gather.gather;
  Id array = gather.operands[0];
  const Id indices = gather.operands[1];
  if (is_rows_already(gather, at(array).shape, at(indices).shape, gather.shape, kCopiedRowCycles)) {
    return;
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
  Extents pick_extents, expanded;
  const Extents index_extents = edit_.dimensions(indices);
  for (std::int64_t d : dims.start_indices_batching_dims) {
    pick_extents.push_back(index_extents[static_cast<std::size_t>(d)]);
  }
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(index_extents.size()); ++d) {
    if (d == dims.index_vector_dim || contains(dims.start_indices_batching_dims, d)) continue;
    pick_extents.push_back(index_extents[static_cast<std::size_t>(d)]);
  }
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
  for (std::int64_t d : roles.indexed) {
    const auto at_d = static_cast<std::size_t>(d);
    const std::int64_t k = place_in(dims.start_index_map, d);
    Id number = component(indices, dims.index_vector_dim, k, dims.start_indices_batching_dims);
    number = clamp(number, extents[at_d] - dims.slice_sizes[at_d]);
    number = edit_.broadcast(number, pick_extents, own_places);
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
    const bool is_matrix = extents.size() == 2 && roles.indexed == Extents{0};
    result = pick(result, roles.view, linear(components, indexed_extents), picks, is_matrix);
  }
  edit_.finish(in_result_order(gather, result, roles, extents, pick_extents));
}

/// What an update must be to change nothing.
double neutral_of(HloOpcode opcode, ElementType type) {
  const bool is_float = type == ElementType::kF32;
  switch (opcode) {
    case HloOpcode::kMaximum:
      return is_float ? -HUGE_VAL : type == ElementType::kU32 ? 0 : -2147483648.0;
    case HloOpcode::kMinimum:
      return is_float ? HUGE_VAL : type == ElementType::kU32 ? 4294967295.0 : 2147483647.0;
    default:
      return 0;
  }
}

/// Sums and extremes: each update where its index is, all of them reduced.
Id IndexedAccess::scatter_selected(const Scattering& scattering) {
  const IndexedView& view = scattering.view;
  const bool in_lanes = view.inner == 1 && scattering.picks > 1;  // The picks, which are reduced.
  const Box box = selection_space(view, in_lanes);
  const ElementType type = edit_.shape(scattering.updates).type;
  const double neutral = neutral_of(scattering.opcode, type);
  const Id place = edit_.iota(ElementType::kS32, box.extents, box.places[kIndexed].front());
  const Id wanted = box.spread(edit_, scattering.numbers, {kBatch, kPicks, kLastPicks});
  const Id value =
      box.spread(edit_, scattering.updates, {kBatch, kOuter, kPicks, kLastPicks, kInner});
  const Id hit = edit_.compare(place, wanted, ComparisonDirection::kEq);
  Id sum = edit_.select(hit, value, edit_.splat(type, box.extents, neutral));
  if (scattering.picks > 1) {
    sum = edit_.reduce(sum, scattering.opcode, joined({box.places[kPicks], box.places[kLastPicks]}),
                       neutral);
  }
  return edit_.binary(scattering.opcode, edit_.reshape(scattering.array, edit_.dimensions(sum)),
                      sum);
}

/// Updates that replace: the number of the last one of each place, then its update.
Id IndexedAccess::scatter_last(const Scattering& scattering) {
  const IndexedView& view = scattering.view;
  const Extents box{view.batch, view.indexed, scattering.picks}, places{view.batch, view.indexed};
  const Id wanted = edit_.broadcast(
      edit_.reshape(scattering.numbers, {view.batch, scattering.picks}), box, {0, 2});
  const Id hit =
      edit_.compare(edit_.iota(ElementType::kS32, box, 1), wanted, ComparisonDirection::kEq);
  const Id numbers = edit_.select(hit, edit_.iota(ElementType::kF32, box, 2),
                                  edit_.splat(ElementType::kF32, box, -1));
  const Id last =
      edit_.convert(edit_.reduce(numbers, HloOpcode::kMaximum, {2}, -HUGE_VAL), ElementType::kS32);
  IndexedView source = view;
  source.indexed = scattering.picks;
  source.picks = {view.indexed};
  const Id value = pick(scattering.updates, source, clamp(last, scattering.picks - 1), view.indexed,
                        view.batch == 1 && view.outer == 1);
  const Id changes =
      edit_.compare(last, edit_.splat(ElementType::kS32, places, 0), ComparisonDirection::kGe);
  const Extents all{view.batch, view.outer, view.indexed, view.inner};
  return edit_.select(edit_.broadcast(changes, all, {0, 2}), edit_.reshape(value, all),
                      edit_.reshape(scattering.array, all));
}

/// Numbers [batch * picks] of rows of all batches; -1 for what lies outside.
Id IndexedAccess::rows_or_none(const Scattering& scattering) {
  const IndexedView& view = scattering.view;
  // What lies outside must not fall into another batch's part of the table.
  const Extents extents{view.batch, scattering.picks};
  const Id flat = edit_.reshape(scattering.numbers, extents);
  const Id zero = edit_.splat(ElementType::kS32, extents, 0);
  const Id last = edit_.splat(ElementType::kS32, extents, static_cast<double>(view.indexed));
  const Id inside =
      edit_.binary(HloOpcode::kAnd, edit_.compare(flat, zero, ComparisonDirection::kGe),
                   edit_.compare(flat, last, ComparisonDirection::kLt));
  const Id offset = edit_.reshape(with_batch_offset(edit_, flat, view, scattering.picks), extents);
  const Id safe = edit_.select(inside, offset, edit_.splat(ElementType::kS32, extents, -1));
  return edit_.reshape(safe, {view.batch * scattering.picks});
}

Id IndexedAccess::append_scatter(const Scattering& scattering, Id table, Id numbers, Id rows) {
  HloInstruction scatter;
  scatter.opcode = HloOpcode::kScatter;
  scatter.name = at(scattering.array).name + ".rows." +
                 std::to_string(module_.entry_computation().instructions.size());
  scatter.metadata = at(scattering.array).metadata;
  scatter.operands = {table, numbers, rows};
  const ElementType type = edit_.shape(table).type;
  scatter.shape = hlo::array_shape(type, edit_.dimensions(table));
  scatter.gather.edit().offset_dims = {1};
  scatter.gather.edit().collapsed_slice_dims = {0};
  scatter.gather.edit().start_index_map = {0};
  scatter.gather.edit().index_vector_dim = 1;
  scatter.called = {edit_.scalar_computation(scattering.opcode, type)};
  return edit_.append_instruction(std::move(scatter));
}

Id IndexedAccess::scatter_rows(const Scattering& scattering) {
  const IndexedView& view = scattering.view;
  const std::int64_t width = view.outer * view.inner;
  const auto as_rows = [&](Id value, std::int64_t rows) {
    const Id box =
        reordered(edit_, value, {view.batch, view.outer, rows, view.inner}, {0, 2, 1, 3});
    return edit_.reshape(box, {view.batch * rows, width});
  };
  const Id rows =
      append_scatter(scattering, as_rows(scattering.array, view.indexed), rows_or_none(scattering),
                     as_rows(scattering.updates, scattering.picks));
  return reordered(edit_, rows, {view.batch, view.indexed, view.outer, view.inner}, {0, 2, 1, 3});
}

/// Single elements of a vector.
Id IndexedAccess::scatter_elements(const Scattering& scattering) {
  const IndexedView& view = scattering.view;
  const Id numbers = rows_or_none(scattering);
  const Id table = edit_.reshape(scattering.array, {view.batch * view.indexed});
  const Id updates = edit_.reshape(scattering.updates, {view.batch * scattering.picks});
  const Id made = append_scatter(scattering, table, numbers, updates);
  module_.entry_computation().at(made).gather.edit().offset_dims.clear();
  return made;
}

/// The way that takes the fewest cycles of those that the operation has.
Id IndexedAccess::scatter_to(const Scattering& scattering, bool is_matrix) {
  const IndexedView& view = scattering.view;
  const ElementType type = edit_.shape(scattering.array).type;
  const HloOpcode opcode = scattering.opcode;
  const double rows =
      cycles_by_rows(scattered_rows_cycles, view, scattering.picks, is_matrix, target_);
  const bool is_single = view.outer * view.inner == 1;
  const double by_element =
      2 * kKernelCycles +
      kScatteredElementCycles * static_cast<double>(view.batch * scattering.picks) +
      static_cast<double>(view.batch * view.indexed) / 32;
  if (opcode == HloOpcode::kParameter) {
    IndexedView numbers = view;
    numbers.outer = numbers.inner = 1;
    const double selection = selection_cycles(numbers, scattering.picks);
    const bool fits = scattering.picks < (1 << 24);
    if (is_single && (!fits || by_element < selection)) return scatter_elements(scattering);
    if (fits && (selection < rows || is_single)) return scatter_last(scattering);
    return scatter_rows(scattering);
  }
  const bool is_sum = opcode == HloOpcode::kAdd;
  const bool is_extreme = opcode == HloOpcode::kMaximum || opcode == HloOpcode::kMinimum;
  // Integers are reduced as several digits.
  const double digits = type == ElementType::kF32 ? 1 : 4;
  const bool is_short = digits == 1 && view.batch == 1 &&
                        is_short_table(view.indexed, view.outer * view.inner,
                                       is_single ? kScatteredElementCycles : kAddedRowCycles);
  if ((is_sum || is_extreme) && (is_short || digits * selection_cycles(view, scattering.picks) <=
                                                 (is_single ? by_element : rows))) {
    return scatter_selected(scattering);
  }
  return is_single ? scatter_elements(scattering) : scatter_rows(scattering);
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
  const ElementType word = type == ElementType::kBf16   ? ElementType::kF32
                           : type == ElementType::kPred ? ElementType::kS32
                                                        : type;
  const Id whole = edit_.convert(scatter.operands[0], word);
  Id array = whole;
  Id updates = edit_.convert(scatter.operands[2], word);
  Extents extents = edit_.dimensions(array);
  const Extents update_extents = edit_.dimensions(updates);
  const auto rank = static_cast<std::int64_t>(extents.size());

  // Which dimension of the array each window dimension of the updates is.
  Extents windows, sizes(extents.size(), 1), indexed;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (contains(dims.collapsed_slice_dims, d) || contains(dims.operand_batching_dims, d)) continue;
    const std::int64_t place = dims.offset_dims.at(windows.size());
    windows.push_back(d);
    sizes[static_cast<std::size_t>(d)] = update_extents[static_cast<std::size_t>(place)];
  }
  for (std::int64_t d : dims.start_index_map) indexed.push_back(d);
  std::sort(indexed.begin(), indexed.end());
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
  Id result = scatter_to({opcode, seen, updates, numbers, roles.view, picks},
                         rank == 2 && roles.indexed == Extents{0});
  result = in_array_order(result, roles, extents, shorter, whole);
  edit_.finish(edit_.convert(result, type));
}

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
    start = edit_.broadcast(clamp(start, extents[at_d] - size), {size}, {});
    if (size > 1) {
      start = edit_.binary(HloOpcode::kAdd, start, edit_.iota(ElementType::kS32, {size}, 0));
    }
    value = take(value, d, start);
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
      clamp(edit_.convert(update.operands[2 + d], ElementType::kS32), view.indexed - size);
  const Extents numbers{view.batch, size};
  const Id rows = edit_.binary(HloOpcode::kAdd, edit_.broadcast(start, numbers, {}),
                               edit_.iota(ElementType::kS32, numbers, 1));
  const Id made = scatter_rows(
      {HloOpcode::kParameter, update.operands[0], update.operands[1], rows, view, size});
  edit_.finish(edit_.reshape(made, extents));
  return true;
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
    const Id start = clamp(given, extent - size);
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
    if (size > 1) value = take(value, d, clamp(distance({extent}, 0), size - 1));
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
