#include <algorithm>

#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/ir/tile_parts.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/widen.h"
#include "workloads/compiler/passes/simplify/simplify.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

/// How the words of an array lie, as far as a reshape can tell: rows of `columns` elements. When
/// the rows of a plane fill whole tiles, planes follow each other without a gap and `planes` is 1.
struct Rows {
  std::int64_t planes = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  friend bool operator==(const Rows& a, const Rows& b) {
    return a.planes == b.planes && a.rows == b.rows && a.columns == b.columns;
  }
};

Rows rows_of(const Shape& shape) {
  const std::vector<std::int64_t> extents = physical_extents(shape);
  if (extents.empty()) return {1, 0, 1};  // Not comparable with arrays of higher rank.
  if (extents.size() == 1) {
    if (extents[0] % 128 == 0) return {1, extents[0] / 128, 128};
    return {0, 0, extents[0]};
  }
  Rows rows;
  rows.columns = extents.back();
  rows.rows = extents[extents.size() - 2];
  for (std::size_t i = 0; i + 2 < extents.size(); ++i) rows.planes *= extents[i];
  if (rows.rows % 8 == 0) {
    rows.rows *= rows.planes;
    rows.planes = 1;
  }
  return rows;
}

/// Physical order with the dimensions of extent 1 taken out; dimensions are numbered without them.
std::vector<std::int64_t> order_of_long_dimensions(const Shape& shape) {
  std::vector<std::int64_t> number(shape.dimensions.size(), -1);
  std::int64_t next = 0;
  for (std::size_t d = 0; d < number.size(); ++d) {
    if (shape.dimensions[d] != 1) number[d] = next++;
  }
  std::vector<std::int64_t> order;
  const std::vector<std::int64_t>& minor_to_major = shape.layout.minor_to_major;
  for (auto d = minor_to_major.rbegin(); d != minor_to_major.rend(); ++d) {
    if (number[static_cast<std::size_t>(*d)] >= 0) {
      order.push_back(number[static_cast<std::size_t>(*d)]);
    }
  }
  return order;
}

DimensionOrder order_of(const Shape& shape) {
  return {shape.layout.minor_to_major.rbegin(), shape.layout.minor_to_major.rend()};
}

/// The array that a transpose makes, seen with its operand's dimension numbers.
Shape before_transpose(const Shape& result, const std::vector<std::int64_t>& permutation) {
  Shape shape = result;
  for (std::size_t d = 0; d < permutation.size(); ++d) {
    shape.dimensions[static_cast<std::size_t>(permutation[d])] = result.dimensions[d];
  }
  for (std::int64_t& d : shape.layout.minor_to_major) d = permutation[static_cast<std::size_t>(d)];
  return shape;
}

}  // namespace

bool same_bytes_after_reshape(const Shape& from, const Shape& to) {
  if (stored_shape(from).type != stored_shape(to).type) return false;
  if (const auto order = order_behind_tiles(from, order_of(from), to)) {
    if (same_order(to, *order, order_of(to))) return true;
  }
  if (!(rows_of(from) == rows_of(to))) return false;
  if (from.rank() >= 2 && to.rank() >= 2) {
    const std::optional<DimensionOrder> order = order_behind_reshape(from, order_of(from), to);
    if (order && same_order(to, *order, order_of(to))) return true;
  }
  const std::vector<std::int64_t> from_order = order_of_long_dimensions(from);
  const std::vector<std::int64_t> to_order = order_of_long_dimensions(to);
  if (long_extents(from.dimensions) == long_extents(to.dimensions)) return from_order == to_order;
  return std::is_sorted(from_order.begin(), from_order.end()) &&
         std::is_sorted(to_order.begin(), to_order.end());
}

namespace {

bool is_bitcast(const hlo::Computation& entry, const HloInstruction& instruction) {
  const Shape& from = entry.at(instruction.operands[0]).shape;
  const Shape to = instruction.opcode == HloOpcode::kTranspose
                       ? before_transpose(instruction.shape, instruction.dimensions)
                       : instruction.shape;
  return same_bytes_after_reshape(from, to);
}

/// A slice from the begin of each dimension that leaves out padding rows and lanes of the last
/// tiles at most: what is cut off becomes padding.
bool keeps_tiles(const hlo::Computation& entry, const HloInstruction& slice) {
  const Shape& from = entry.at(slice.operands[0]).shape;
  const std::vector<std::int64_t>& order = slice.shape.layout.minor_to_major;
  const bool is_vector = slice.shape.rank() == 1;
  if (slice.shape.rank() < (hlo::byte_size(from.type) == 4 ? 1 : 2) ||
      from.layout.minor_to_major != order ||
      stored_shape(from).type != stored_shape(slice.shape).type) {
    return false;
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto d = static_cast<std::size_t>(order[i]);
    const std::int64_t tile = is_vector ? 1024 : i == 0 ? 128 : i == 1 ? 8 : 1;
    const bool starts = slice.slice->starts[d] == 0 &&
                        (slice.slice->strides.empty() || slice.slice->strides[d] == 1);
    if (!starts ||
        ceil_divide(from.dimensions[d], tile) != ceil_divide(slice.shape.dimensions[d], tile)) {
      return false;
    }
  }
  return true;
}

void make_bitcast(HloInstruction& instruction) {
  instruction.opcode = HloOpcode::kBitcast;
  instruction.dimensions.clear();
}

/// Times the bytes of rows without dimensions of one in the lanes.
constexpr std::int64_t kManyUnitLanes = 16;

Shape in_row_major(Shape shape) {
  shape.layout = row_major_layout(shape.type, shape.rank());
  return shape;
}

/// The same with dimensions of one outside of all others: in the lanes, or the rows, they take a
/// tile for an element.
Shape in_dense_row_major(Shape shape) {
  DimensionOrder order = row_major(shape.rank());
  std::stable_partition(order.begin(), order.end(), [&shape](std::int64_t d) {
    return shape.dimensions[static_cast<std::size_t>(d)] == 1;
  });
  shape.layout = tiled_layout(shape.type, {order.rbegin(), order.rend()});
  return shape;
}

/// The value in another layout: a copy, or a bitcast where that moves nothing.
InstructionId append_copy(hlo::Computation& entry, InstructionId value, const Shape& shape) {
  HloInstruction copy;
  copy.opcode = HloOpcode::kCopy;
  copy.name = entry.at(value).name + ".copy." + std::to_string(entry.instructions.size());
  copy.operands = {value};
  copy.shape = shape;
  copy.metadata = entry.at(value).metadata;
  if (is_bitcast(entry, copy)) make_bitcast(copy);
  return append(entry, std::move(copy));
}

/// A reshape that one copy of its operand does, seen in some shape, becomes that. False when there
/// is no such shape.
bool reshape_by_copy(hlo::Computation& entry, InstructionId id) {
  InstructionId value = entry.at(id).operands[0];
  const Shape from = entry.at(value).shape, to = entry.at(id).shape;
  if (from.rank() < 2 || to.rank() < 2) return false;
  const std::optional<ReshapeCopy> by = copy_of_reshape(from, order_of(from), to, order_of(to));
  if (!by) return false;
  if (by->shape.dimensions != from.dimensions) {
    HloInstruction view = entry.at(id);
    view.name += ".in_place";
    view.shape = in_order(by->shape, by->from);
    make_bitcast(view);
    value = append(entry, std::move(view));
  }
  if (by->shape.dimensions == to.dimensions) {
    entry.at(id).opcode = HloOpcode::kCopy;
    entry.at(id).operands = {value};
    return true;
  }
  entry.at(id).operands[0] = append_copy(entry, value, in_order(by->shape, by->to));
  make_bitcast(entry.at(id));
  return true;
}

/// A reshape of which neither side can stay becomes a copy, a reshape that moves nothing, and
/// another copy: elements that go from lanes to lanes one by one cost more. False when there is no
/// such way, or none with less padding than row-major order on both sides has.
bool reshape_by_two_copies(hlo::Computation& entry, InstructionId id) {
  const InstructionId operand = entry.at(id).operands[0];
  const Shape from = entry.at(operand).shape, to = entry.at(id).shape;
  if (from.layout == in_row_major(from).layout && to.layout == in_row_major(to).layout) {
    return false;  // One kernel does it.
  }
  std::optional<std::pair<Shape, Shape>> best;
  for (const ReshapeOrders& orders : orders_of_reshape(from, to)) {
    if (orders.moves_rows) continue;
    const Shape before = in_order(from, orders.from), behind = in_order(to, orders.to);
    if (best && best->first.padded_bytes() <= before.padded_bytes()) continue;
    best.emplace(before, behind);
  }
  if (!best || 2 * best->first.padded_bytes() >
                   in_row_major(from).padded_bytes() + in_row_major(to).padded_bytes()) {
    return false;
  }
  HloInstruction reshape = entry.at(id);
  reshape.name += ".in_place";
  reshape.operands[0] = append_copy(entry, operand, best->first);
  reshape.shape = best->second;
  make_bitcast(reshape);
  const InstructionId in_place = append(entry, std::move(reshape));
  entry.at(id).opcode = HloOpcode::kCopy;
  entry.at(id).operands = {in_place};
  if (is_bitcast(entry, entry.at(id))) make_bitcast(entry.at(id));
  return true;
}

/// A reshape whose lanes may stay becomes one of rows of lanes, between copies to the orders in
/// which they do where its sides lie otherwise. False where that moves more bytes, padding
/// included, than row-major order on both sides.
bool reshape_by_rows(hlo::Computation& entry, InstructionId id) {
  const InstructionId operand = entry.at(id).operands[0];
  const Shape from = entry.at(operand).shape, to = entry.at(id).shape;
  // Bytes of a reshape between these orders, and of the copies around it.
  const auto moved = [&](const Shape& before, const Shape& behind) {
    std::int64_t bytes = before.padded_bytes() + behind.padded_bytes();
    if (!same_order(from, order_of(from), order_of(before))) {
      bytes += from.padded_bytes() + before.padded_bytes();
    }
    if (!same_order(to, order_of(to), order_of(behind))) {
      bytes += to.padded_bytes() + behind.padded_bytes();
    }
    return bytes;
  };
  std::int64_t least = moved(in_row_major(from), in_row_major(to));
  std::optional<std::pair<Shape, Shape>> best;
  for (const ReshapeOrders& orders : orders_of_reshape(from, to)) {
    if (!orders.moves_rows) continue;
    const Shape before = in_order(from, orders.from), behind = in_order(to, orders.to);
    const std::int64_t bytes = moved(before, behind);
    if (bytes >= least) continue;
    least = bytes;
    best.emplace(before, behind);
  }
  if (!best) return false;
  const auto& [before, behind] = *best;
  if (!same_order(from, order_of(from), order_of(before))) {
    entry.at(id).operands[0] = append_copy(entry, operand, before);
  }
  if (same_order(to, order_of(to), order_of(behind))) return true;
  HloInstruction reshape = entry.at(id);
  reshape.name += ".rows";
  reshape.shape = behind;
  const InstructionId of_rows = append(entry, std::move(reshape));
  entry.at(id).opcode = HloOpcode::kCopy;
  entry.at(id).operands = {of_rows};
  return true;
}

/// The one dimension that is not of extent 1; -1: there are none or several.
std::int64_t only_long_dimension(const Shape& shape) {
  std::int64_t only = -1;
  for (std::size_t d = 0; d < shape.dimensions.size(); ++d) {
    if (shape.dimensions[d] == 1) continue;
    if (only >= 0) return -1;
    only = static_cast<std::int64_t>(d);
  }
  return only;
}

/// The shape, which has one long dimension, with that in the lanes.
Shape with_lanes(const Shape& shape) {
  DimensionOrder order;
  const std::int64_t lanes = only_long_dimension(shape);
  for (std::int64_t d = 0; d < shape.rank(); ++d) {
    if (d != lanes) order.push_back(d);
  }
  order.push_back(lanes);
  return in_order(shape, order);
}

/// The value as another shape that is the same bytes.
InstructionId append_view(hlo::Computation& entry, InstructionId value, const Shape& shape) {
  HloInstruction view;
  view.opcode = HloOpcode::kBitcast;
  view.name = entry.at(value).name + ".view." + std::to_string(entry.instructions.size());
  view.operands = {value};
  view.shape = shape;
  view.metadata = entry.at(value).metadata;
  return append(entry, std::move(view));
}

/// A reshape between a vector and an array with one long dimension goes by a row [1, n]: from a
/// column, whose elements stand in a tile row each, that is a transpose, which is fast. False for
/// other reshapes.
bool reshape_by_row(hlo::Computation& entry, InstructionId id) {
  const InstructionId operand = entry.at(id).operands[0];
  const Shape from = entry.at(operand).shape, to = entry.at(id).shape;
  const bool makes_vector = to.rank() == 1;
  const Shape& array = makes_vector ? from : to;
  if ((makes_vector ? from : to).rank() < 2 || (makes_vector ? to : from).rank() != 1) return false;
  if (only_long_dimension(array) < 0) return false;
  const Shape lanes = with_lanes(array);
  Shape row = hlo::array_shape(array.type, {1, array.element_count()});
  row.layout = row_major_layout(row.type, 2);
  if (array.layout == row.layout && array.dimensions == row.dimensions) return false;
  if (makes_vector) {
    const InstructionId in_lanes =
        from.layout == lanes.layout ? operand : append_copy(entry, operand, lanes);
    entry.at(id).operands[0] = append_view(entry, in_lanes, row);
    return true;
  }
  HloInstruction reshape = entry.at(id);
  reshape.name += ".row";
  reshape.shape = row;
  const InstructionId made = append(entry, std::move(reshape));
  const InstructionId in_lanes = append_view(entry, made, lanes);
  HloInstruction& copy = entry.at(id);
  copy.opcode = HloOpcode::kCopy;
  copy.operands = {in_lanes};
  if (is_bitcast(entry, copy)) make_bitcast(copy);
  return true;
}

/// Whether dimensions of one in the lanes, or the rows, take so many bytes that elements are rather
/// moved from lanes to lanes.
bool has_many_unit_lanes(const Shape& from, const Shape& to) {
  const auto bytes = [&](Shape (*lie)(Shape)) {
    return lie(from).padded_bytes() + lie(to).padded_bytes();
  };
  return bytes(in_row_major) >= kManyUnitLanes * bytes(in_dense_row_major);
}

/// A reshape keeps the row-major order of the elements: between row-major arrays it is always
/// possible. Beside a vector rows of one element would be moved one by one.
void reshape_in_row_major(hlo::Computation& entry, InstructionId id) {
  const InstructionId operand = entry.at(id).operands[0];
  const Shape source = entry.at(operand).shape, target = entry.at(id).shape;
  const bool is_dense =
      source.rank() < 2 || target.rank() < 2 || has_many_unit_lanes(source, target);
  const Shape from = is_dense ? in_dense_row_major(source) : in_row_major(source);
  const Shape to = is_dense ? in_dense_row_major(target) : in_row_major(target);
  const bool operand_fits = entry.at(operand).shape.layout == from.layout;
  const bool result_fits = entry.at(id).shape.layout == to.layout;
  if (operand_fits && result_fits) return;
  if (!operand_fits) entry.at(id).operands[0] = append_copy(entry, operand, from);
  if (result_fits) {
    if (is_bitcast(entry, entry.at(id))) make_bitcast(entry.at(id));
    return;
  }
  HloInstruction reshape = entry.at(id);
  reshape.name += ".row_major";
  reshape.shape = to;
  if (is_bitcast(entry, reshape)) make_bitcast(reshape);
  const InstructionId row_major = append(entry, std::move(reshape));
  HloInstruction& copy = entry.at(id);
  copy.opcode = HloOpcode::kCopy;
  copy.operands = {row_major};
  if (is_bitcast(entry, copy)) make_bitcast(copy);
}

/// Words as those of another type are the same bytes; where they are wanted in another order, what
/// is copied has the new type already.
void read_words(hlo::Computation& entry, InstructionId id) {
  const InstructionId operand = entry.at(id).operands[0];
  const Shape from = entry.at(operand).shape;
  Shape words = entry.at(id).shape;
  const bool same_size = hlo::byte_size(from.type) == hlo::byte_size(words.type) &&
                         hlo::byte_size(stored_shape(from).type) == hlo::byte_size(from.type);
  if (!same_size) return;
  if (from.layout == words.layout) return make_bitcast(entry.at(id));
  words.layout = from.layout;
  const InstructionId view = append_view(entry, operand, words);
  HloInstruction& copy = entry.at(id);
  copy.opcode = HloOpcode::kCopy;
  copy.operands = {view};
  if (is_bitcast(entry, copy)) make_bitcast(copy);
}

/// Whether a scalar is what an array has: it is the first word of a granule, as the only element of
/// an array is. (Elements that are sliced are read in their tiles.)
bool is_only_element(const hlo::Computation& entry, const HloInstruction& reshape) {
  const HloInstruction& operand = entry.at(reshape.operands[0]);
  return reshape.opcode == HloOpcode::kReshape && reshape.shape.rank() == 0 &&
         operand.opcode != HloOpcode::kSlice &&
         hlo::byte_size(stored_shape(operand.shape).type) == 4 &&
         stored_shape(operand.shape).type == stored_shape(reshape.shape).type;
}

/// Whether elementwise operations read the value, and nobody else does.
bool is_read_by_elementwise(const hlo::Computation& entry, InstructionId id) {
  bool is_read = false;
  for (const HloInstruction& user : entry.instructions) {
    if (!contains(user.operands, id)) continue;
    if (!hlo::is_elementwise(user.opcode)) return false;
    is_read = true;
  }
  return is_read && id != entry.root;
}

/// Whether a vector becomes the one row of an array that only elementwise operations read: as one
/// that is broadcast along the lanes their kernels have it.
bool spreads_along_lanes(const hlo::Computation& entry, const HloInstruction& reshape) {
  const Shape &from = entry.at(reshape.operands[0]).shape, &to = reshape.shape;
  const std::int64_t lanes = only_long_dimension(to);
  return reshape.opcode == HloOpcode::kReshape && from.rank() == 1 && to.rank() >= 2 &&
         lanes >= 0 && to.layout.minor_to_major[0] == lanes &&
         is_read_by_elementwise(entry, reshape.id);
}

/// Whether the kernel that makes the words, or those that read them, take them as another type.
bool is_in_kernel(const hlo::Computation& entry, const HloInstruction& words) {
  const HloOpcode made_by = entry.at(words.operands[0]).opcode;
  return hlo::is_elementwise(made_by) || made_by == HloOpcode::kIota ||
         is_read_by_elementwise(entry, words.id);
}

}  // namespace

void find_bitcasts(hlo::Module& module) {
  hlo::Computation& entry = module.entry_computation();
  const std::size_t count = entry.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    HloInstruction& instruction = entry.instructions[i];
    switch (instruction.opcode) {
      case HloOpcode::kBitcastConvert:
        if (!is_in_kernel(entry, instruction)) read_words(entry, instruction.id);
        break;
      case HloOpcode::kReshape:
      case HloOpcode::kTranspose:
      case HloOpcode::kCopy:
        if (is_bitcast(entry, instruction) || is_only_element(entry, instruction)) {
          make_bitcast(instruction);
        } else if (spreads_along_lanes(entry, instruction)) {
          instruction.opcode = HloOpcode::kBroadcast;
          instruction.dimensions = {only_long_dimension(instruction.shape)};
        } else if (instruction.opcode == HloOpcode::kReshape &&
                   !tile_parts(entry.at(instruction.operands[0]).shape, instruction.shape) &&
                   !reshape_by_row(entry, instruction.id) &&
                   !reshape_by_copy(entry, instruction.id) &&
                   !reshape_by_two_copies(entry, instruction.id) &&
                   !reshape_by_rows(entry, instruction.id)) {
          reshape_in_row_major(entry, instruction.id);
        }
        break;
      case HloOpcode::kSlice:
        if (keeps_tiles(entry, instruction)) make_bitcast(instruction);
        break;
      default:
        break;
    }
  }
  if (entry.instructions.size() > count) tidy(entry);
}

}  // namespace tpu::compiler
