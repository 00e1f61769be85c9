#include "workloads/compiler/passes/expand/indexed_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {
using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;
}  // namespace

double selection_cycles(const IndexedView& view, std::int64_t picks) {
  constexpr double kRegisterCycles = 4;
  const std::int64_t outside = view.batch * view.outer;
  const std::int64_t registers =
      view.inner > 1 ? outside * picks * ceil_divide(view.indexed, 8) * ceil_divide(view.inner, 128)
                     : outside * ceil_divide(picks, 8) * ceil_divide(view.indexed, 128);
  return kRegisterCycles * static_cast<double>(registers);
}

namespace {

bool is_long(std::int64_t extent) { return extent > 1; }

/// Cycles in which so many rows become a matrix, or are no longer one: read and written; where
/// dimensions are joined, as rows that fill no tiles and once more behind that (measured).
double turned_cycles(const IndexedView& view, std::int64_t rows, const Target& target) {
  constexpr double kTurnedPasses = 2, kJoinedPasses = 6;
  const auto joined = std::count_if(view.outers.begin(), view.outers.end(), is_long) +
                      std::count_if(view.inners.begin(), view.inners.end(), is_long);
  const std::int64_t width = ceil_divide(view.outer * view.inner, 128);
  const auto bytes = static_cast<double>(rows * width * isa::kVmemRowBytes);
  const double passes = joined > 1 ? kJoinedPasses : kTurnedPasses;
  return kKernelCycles + passes * bytes / target.hbm_bytes_per_cycle;
}

/// What the dimensions without numbers have; nothing where they are not two or more, or several
/// batches have tables of their own.
Extents block_of(const IndexedView& view) {
  Extents block = view.outers;
  block.insert(block.end(), view.inners.begin(), view.inners.end());
  const bool is_block = std::count_if(block.begin(), block.end(), is_long) > 1;
  return view.batch == 1 && is_block ? block : Extents{};
}

}  // namespace

double cycles_by_rows(RowsCycles of_kernel, const IndexedView& view, std::int64_t picks,
                      bool is_matrix, const Target& target) {
  const std::int64_t table_rows = view.batch * view.indexed, count = view.batch * picks;
  const std::int64_t width = ceil_divide(view.outer * view.inner, 128);
  double cycles = kKernelCycles + of_kernel(table_rows, width, count, target);
  if (!is_matrix) cycles += turned_cycles(view, table_rows, target);
  if (std::count_if(view.inners.begin(), view.inners.end(), is_long) > 1) {
    cycles += turned_cycles(view, count, target);
  }
  return cycles;
}

bool is_short_table(std::int64_t rows, std::int64_t width, double row_cycles) {
  constexpr double kRowRegisterCycles = 6, kRegisterElements = 1024;
  const std::int64_t tiles = ceil_divide(width, isa::kLanes);
  const std::int64_t filled = width < isa::kLanes ? width : tiles * isa::kLanes;
  return kRowRegisterCycles * static_cast<double>(rows * filled) / kRegisterElements <=
         row_cycles * static_cast<double>(tiles);
}

namespace {

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
  if (view.batch > 1)
    picks = {std::accumulate(picks.begin(), picks.end(), std::int64_t{1}, std::multiplies<>())};
  if (in_lanes) {
    picks.swap(last);
  } else if (view.batch == 1 && view.inner > 1 && !picks.empty()) {
    last = {picks.back()};
    picks.pop_back();
  }
  return Box({view.batches, view.outers, picks, Extents{view.indexed}, last, view.inners},
             kIndexed);
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

}  // namespace

Id IndexedRows::clamp(Id value, std::int64_t last) {
  const Extents extents = edit_.dimensions(value);
  const Id low =
      edit_.binary(HloOpcode::kMaximum, value, edit_.splat(ElementType::kS32, extents, 0));
  return edit_.binary(HloOpcode::kMinimum, low,
                      edit_.splat(ElementType::kS32, extents, static_cast<double>(last)));
}

void IndexedRows::clamp_indices(Id gather) {
  constexpr std::int64_t kFewestOfAKernel = 1024;
  const Id indices = at(gather).operands[1];
  const hlo::Shape& shape = edit_.shape(indices);
  const bool is_given = at(indices).opcode == HloOpcode::kParameter;
  if (at(gather).gather->indices_in_range || shape.type != ElementType::kS32 ||
      (is_given && shape.element_count() < kFewestOfAKernel)) {
    return;
  }
  const std::int64_t rows = edit_.dimensions(at(gather).operands[0])[0];
  const Id clamped = clamp(indices, rows - 1);
  HloInstruction& kept = module_.entry_computation().at(gather);
  kept.operands[1] = clamped;
  kept.gather.edit().indices_in_range = true;
}

namespace {

/// Without a selection.
double table_cycles(const IndexedView& view, std::int64_t picks, bool is_matrix, bool is_single,
                    const Target& target) {
  return is_single ? lane_cycles(view, picks, target)
                   : cycles_by_rows(gathered_rows_cycles, view, picks, is_matrix, target);
}

/// Whether rows that each batch picks for itself come by DMAs in less time than they are selected:
/// what a selection has found so far of them goes through VMEM with each row of the table (29
/// cycles a register of beams' keys).
bool are_large(const IndexedView& view, std::int64_t picks) {
  constexpr std::int64_t kWideRow = 4096, kManyElements = 1 << 18;
  const std::int64_t row = view.outer * view.inner;
  return view.batch > 1 && row >= kWideRow && view.batch * picks * row >= kManyElements;
}

}  // namespace

double IndexedRows::pick_cycles(const IndexedView& view, std::int64_t picks, bool is_matrix,
                                bool is_word) const {
  const bool is_single = view.outer * view.inner == 1 && is_word;
  const double rows = table_cycles(view, picks, is_matrix, is_single, target_);
  return are_large(view, picks) ? rows : std::min(selection_cycles(view, picks), rows);
}

Id IndexedRows::pick(Id array, const IndexedView& view, Id numbers, std::int64_t picks,
                     bool is_matrix) {
  const bool is_short = is_short_table(view.indexed, view.outer * view.inner, kCopiedRowCycles);
  const bool is_single =
      view.outer * view.inner == 1 && hlo::byte_size(edit_.shape(array).type) == 4;
  const double rows = table_cycles(view, picks, is_matrix, is_single, target_);
  if (!are_large(view, picks) && (is_short || selection_cycles(view, picks) <= rows)) {
    return pick_by_selection(array, view, numbers);
  }
  return is_single ? gather_lanes(array, view, numbers, picks)
                   : pick_by_rows(array, view, numbers, picks);
}

Id IndexedRows::append_gather(Id table, Id numbers) {
  Extents window = edit_.dimensions(table), made = window, offsets(window.size() - 1);
  window[0] = 1;
  made[0] = edit_.dimensions(numbers)[0];
  std::iota(offsets.begin(), offsets.end(), 1);
  HloInstruction gather;
  gather.opcode = HloOpcode::kGather;
  gather.name =
      at(table).name + ".rows." + std::to_string(module_.entry_computation().instructions.size());
  gather.metadata = at(table).metadata;
  gather.operands = {table, numbers};
  gather.shape = hlo::array_shape(edit_.shape(table).type, made);
  gather.gather.edit().offset_dims = offsets;
  gather.gather.edit().collapsed_slice_dims = {0};
  gather.gather.edit().start_index_map = {0};
  gather.gather.edit().index_vector_dim = 1;
  gather.gather.edit().slice_sizes = window;
  gather.gather.edit().indices_in_range = true;
  return edit_.append_instruction(std::move(gather));
}

Id IndexedRows::pick_by_rows(Id array, const IndexedView& view, Id numbers, std::int64_t picks) {
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
Id IndexedRows::gather_lanes(Id array, const IndexedView& view, Id numbers, std::int64_t picks) {
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

/// The selection of floating values: exactly one element of the sum is not 0.
Id IndexedRows::select_floats(Id array, const IndexedView& view, Id numbers) {
  const Box box = selection_space(view, false);
  const std::int64_t indexed = box.places[kIndexed].front();
  const Id place = edit_.iota(ElementType::kS32, box.extents, indexed);
  const Id wanted = box.spread(edit_, numbers, {kBatch, kPicks, kLastPicks});
  const Id value = box.spread(edit_, array, {kBatch, kOuter, kIndexed, kInner});
  const Id hit = edit_.compare(place, wanted, ComparisonDirection::kEq);
  const Id chosen = edit_.select(hit, value, edit_.splat(ElementType::kF32, box.extents, 0));
  return edit_.reduce(chosen, HloOpcode::kAdd, {indexed}, 0);
}

Id IndexedRows::pick_by_selection(Id array, const IndexedView& view, Id numbers) {
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

Id IndexedRows::take(Id array, std::int64_t dimension, Id numbers) {
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

/// Sums and extremes: each update where its index is, all of them reduced.
Id IndexedRows::scatter_selected(const Scattering& scattering) {
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
    Extents picks = box.places[kPicks];
    picks.insert(picks.end(), box.places[kLastPicks].begin(), box.places[kLastPicks].end());
    sum = edit_.reduce(sum, scattering.opcode, picks, neutral);
  }
  return edit_.binary(scattering.opcode, edit_.reshape(scattering.array, edit_.dimensions(sum)),
                      sum);
}

/// Updates that replace: the number of the last one of each place, then its update.
Id IndexedRows::scatter_last(const Scattering& scattering) {
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
Id IndexedRows::rows_or_none(const Scattering& scattering) {
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

Id IndexedRows::append_scatter(const Scattering& scattering, Id table, Id numbers, Id rows) {
  HloInstruction scatter;
  scatter.opcode = HloOpcode::kScatter;
  scatter.name = at(scattering.array).name + ".rows." +
                 std::to_string(module_.entry_computation().instructions.size());
  scatter.metadata = at(scattering.array).metadata;
  scatter.operands = {table, numbers, rows};
  const ElementType type = edit_.shape(table).type;
  scatter.shape = hlo::array_shape(type, edit_.dimensions(table));
  for (std::int64_t d = 1; d < scatter.shape.rank(); ++d) {
    scatter.gather.edit().offset_dims.push_back(d);
  }
  scatter.gather.edit().collapsed_slice_dims = {0};
  scatter.gather.edit().start_index_map = {0};
  scatter.gather.edit().index_vector_dim = 1;
  scatter.called = {edit_.scalar_computation(scattering.opcode, type)};
  return edit_.append_instruction(std::move(scatter));
}

Id IndexedRows::scatter_rows(const Scattering& scattering) {
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
Id IndexedRows::scatter_elements(const Scattering& scattering) {
  const IndexedView& view = scattering.view;
  const Id numbers = rows_or_none(scattering);
  const Id table = edit_.reshape(scattering.array, {view.batch * view.indexed});
  const Id updates = edit_.reshape(scattering.updates, {view.batch * scattering.picks});
  return append_scatter(scattering, table, numbers, updates);
}

/// Blocks of what the dimensions without numbers have, into the table where it stands.
Id IndexedRows::scatter_blocks(const Scattering& scattering) {
  const IndexedView& view = scattering.view;
  const auto outer = static_cast<std::int64_t>(view.outers.size());
  const auto extents_with = [&](std::int64_t numbered) {
    Extents extents = view.outers;
    extents.push_back(numbered);
    extents.insert(extents.end(), view.inners.begin(), view.inners.end());
    return extents;
  };
  Extents to_front(extents_with(1).size());
  std::iota(to_front.begin(), to_front.end(), 0);
  Extents back = to_front;
  std::rotate(to_front.begin(), to_front.begin() + outer, to_front.begin() + outer + 1);
  std::rotate(back.begin(), back.begin() + 1, back.begin() + outer + 1);
  const auto as_blocks = [&](Id value, std::int64_t numbered) {
    return edit_.transpose(edit_.reshape(value, extents_with(numbered)), to_front);
  };
  const Id table = as_blocks(scattering.array, view.indexed);
  const Id updates = as_blocks(scattering.updates, scattering.picks);
  const Id numbers = rows_or_none(scattering);
  return edit_.transpose(append_scatter(scattering, table, numbers, updates), back);
}

/// Cycles in which a table is read and written once, in the tiles that suit it best.
double IndexedRows::passing_cycles(const IndexedView& view) const {
  Extents extents = view.outers;
  extents.insert(extents.end(), view.inners.begin(), view.inners.end());
  extents.push_back(view.batch * view.indexed);
  return kKernelCycles +
         2 * 4096 * static_cast<double>(fewest_registers(extents)) / target_.hbm_bytes_per_cycle;
}

double IndexedRows::gathered_blocks_cycles(const IndexedView& view, ElementType type,
                                           std::int64_t picks, bool turns) const {
  const Extents block = block_of(view);
  const bool has_kernel = hlo::byte_size(type) == 4 || type == ElementType::kBf16;
  if (block.empty() || !has_kernel) return HUGE_VAL;
  const double cycles = compiler::gathered_blocks_cycles(block, type, picks, target_);
  if (!turns || view.outer == 1) return cycles;
  const auto bytes =
      static_cast<double>(view.outer * view.indexed * view.inner * hlo::byte_size(type));
  return cycles + kKernelCycles + 2 * bytes / target_.hbm_bytes_per_cycle;
}

/// Cycles of scatter_blocks(), with a copy of the table, which may be needed elsewhere, and one
/// more where it has to be turned. Without end for what are no words, or no block of two
/// dimensions.
double IndexedRows::blocks_cycles(const Scattering& scattering) const {
  const IndexedView& view = scattering.view;
  const Extents block = block_of(view);
  const bool is_word = hlo::byte_size(edit_.shape(scattering.array).type) == 4;
  if (block.empty() || !is_word) return HUGE_VAL;
  IndexedView in_blocks = view;
  in_blocks.indexed = view.indexed * fewest_registers(block);
  in_blocks.outers = {};
  in_blocks.inners = {isa::kSublanes, isa::kLanes};
  return scattered_blocks_cycles(block, scattering.picks, target_) +
         (view.outer > 1 ? 2 : 1) * passing_cycles(in_blocks);
}

/// Cycles of scatter_last(), besides its selection: rows of the updates are picked for all of the
/// table, which passes by once more.
double IndexedRows::last_cycles(const Scattering& scattering) const {
  const IndexedView& view = scattering.view;
  IndexedView source = view;
  source.indexed = scattering.picks;
  source.picks = {view.indexed};
  return pick_cycles(source, view.indexed, view.batch == 1 && view.outer == 1, true) +
         passing_cycles(view);
}

/// The way that takes the fewest cycles of those that the operation has.
Id IndexedRows::scatter(const Scattering& scattering, bool is_matrix) {
  const IndexedView& view = scattering.view;
  const ElementType type = edit_.shape(scattering.array).type;
  const HloOpcode opcode = scattering.opcode;
  double rows = cycles_by_rows(scattered_rows_cycles, view, scattering.picks, is_matrix, target_);
  if (!is_matrix) rows += turned_cycles(view, view.batch * view.indexed, target_);  // And back.
  const double blocks = blocks_cycles(scattering);
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
    const bool finds_last = fits && (selection < rows || is_single);
    if (blocks < (finds_last ? selection + last_cycles(scattering) : rows)) {
      return scatter_blocks(scattering);
    }
    return finds_last ? scatter_last(scattering) : scatter_rows(scattering);
  }
  const bool is_sum = opcode == HloOpcode::kAdd;
  const bool is_extreme = opcode == HloOpcode::kMaximum || opcode == HloOpcode::kMinimum;
  // Integers are reduced as several digits.
  const double digits = type == ElementType::kF32 ? 1 : 4;
  const bool is_short = digits == 1 && view.batch == 1 &&
                        is_short_table(view.indexed, view.outer * view.inner,
                                       is_single ? kScatteredElementCycles : kAddedRowCycles);
  const double selection = digits * selection_cycles(view, scattering.picks);
  const double otherwise = is_single ? by_element : rows;
  if ((is_sum || is_extreme) && (is_short || selection <= otherwise)) {
    return blocks < std::max(selection, passing_cycles(view)) ? scatter_blocks(scattering)
                                                              : scatter_selected(scattering);
  }
  if (blocks < otherwise) return scatter_blocks(scattering);
  return is_single ? scatter_elements(scattering) : scatter_rows(scattering);
}

}  // namespace tpu::compiler
