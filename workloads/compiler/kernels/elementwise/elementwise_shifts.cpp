#include <algorithm>

#include "isa/instruction.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/kernels/elementwise/elementwise_kernel.h"

// Values of arrays whose elements stand elsewhere: registers are made of two row tiles and two lane
// tiles.

namespace tpu::compiler {

using isa::Opcode;

/// The index, or the nearest one of the range.
Index ElementwiseKernel::within(Index index, std::int64_t first, std::int64_t last) {
  if (index.is_constant()) return {{}, std::clamp(index.offset, first, last)};
  const SReg low = builder_.max(to_operand(builder_, index), static_cast<int>(first));
  return {builder_.min(low, static_cast<int>(last)), 0};
}

/// Where a shifted array has the index of a tile or row, of `count` along an axis: at the other end
/// where the array wraps; else, where nobody needs it, at the nearest.
Index ElementwiseKernel::index_inside(const ArrayAccess& access, int axis, Index index,
                                      std::int64_t count) {
  const auto d = static_cast<std::size_t>(axis);
  const bool wraps = !access.wraps.empty() && access.wraps[d];
  if (wraps && access.shift[d] == 0) return index;
  if (index.is_constant()) {
    return {{},
            wraps ? index.offset % count : std::clamp<std::int64_t>(index.offset, 0, count - 1)};
  }
  forget_shifts();
  Index& known = inside_[{index.reg.id, index.offset, count, wraps}];
  if (known.is_constant()) {
    const ScalarOperand given = to_operand(builder_, index);
    const auto end = static_cast<int>(count);
    known =
        wraps
            ? Index{builder_.select(builder_.less(given, end), given, builder_.sub(given, end)), 0}
            : within(index, 0, count - 1);
  }
  return known;
}

/// A lane tile of a shifted array. Of loops over lane tiles the last one stands outside: what
/// stands one tile in front of the first or behind the last is another row tile's, which nobody
/// needs.
Index ElementwiseKernel::lane_tile_inside(const Input& input, Index tile) {
  const ArrayAccess& access = input.access;
  const bool wraps = !access.wraps.empty() && access.wraps.back();
  const std::int64_t last = space_.lane_tiles() - 2 + tile.offset;
  const bool stays = !wraps && input.is_in_neighborhood() && !tile.is_constant() &&
                     tile.offset >= -1 && last <= access.x_tiles;
  return stays ? tile : index_inside(access, space_.lane_axis(), tile, access.x_tiles);
}

/// What is known of shifted arrays holds within a block of the code.
void ElementwiseKernel::forget_shifts() {
  if (shifts_block_ == builder_.block_number()) return;
  shifts_block_ = builder_.block_number();
  rows_.clear();
  inside_.clear();
  products_.clear();
}

/// The same product for all tiles of a block of the code.
Index ElementwiseKernel::product(Index index, std::int64_t factor) {
  if (index.is_constant() || factor == 1 || factor == 0) return multiply(builder_, index, factor);
  forget_shifts();
  SReg& known = products_[{index.reg.id, factor}];
  if (!known) known = multiply(builder_, {index.reg, 0}, factor).reg;
  return {known, index.offset * factor};
}

/// VMEM rows of the tile that stands as far from a place as the input says, further `down` row
/// tiles and in another lane tile.
Index ElementwiseKernel::shifted_tile(const Input& input, const Place& place, std::int64_t down,
                                      Index lane_tile) {
  const ArrayAccess& access = input.access;
  const std::vector<std::int64_t> extents = physical_extents(access.shape);
  const int rows = space_.row_axis();
  const auto index_along = [&](int axis, std::int64_t shift) {
    return product(digit(place, axis), access.step_along(axis)).plus(shift);
  };
  const auto shift_along = [&](int axis) { return access.shift[static_cast<std::size_t>(axis)]; };
  Index tile;
  int first_inner = 0;
  if (input.is_in_neighborhood()) {
    first_inner = plan_.unit_axis + 1;
    const Neighborhood& around = plan_.neighborhoods[static_cast<std::size_t>(input.neighborhood)];
    const std::int64_t units = input.units_away - around.first + (first_inner > rows ? down : 0);
    tile = product(unit_in_block(place), around.step * around.tiles).plus(units * around.tiles);
  }
  for (const ArrayAccess::MajorTerm& term : access.majors) {
    if (term.axis < first_inner) continue;
    const Index index =
        index_inside(access, term.axis, index_along(term.axis, shift_along(term.axis)),
                     extents[static_cast<std::size_t>(term.axis)]);
    tile = add(builder_, tile, product(index, term.tiles));
  }
  if (rows >= first_inner) {
    const std::int64_t shift = shift_along(rows) - (shift_along(rows) & 7);
    const Index y = index_inside(access, rows, index_along(rows, shift / 8 + down), access.y_tiles);
    tile = add(builder_, tile, product(y, access.x_tiles));
  }
  return product(add(builder_, tile, lane_tile), access.tile_rows());
}

/// The number of a place's unit in the block.
Index ElementwiseKernel::unit_in_block(const Place& place) {
  if (plan_.unit_axis == space_.row_axis()) return place.row_in_block;
  Index unit;
  for (int axis = 0; axis <= plan_.unit_axis; ++axis) {
    unit = add(builder_, unit, product(digit(place, axis), plan_.units_along(axis)));
  }
  forget_shifts();
  SReg& known = products_[{unit.reg.id, 0}];
  if (!known) known = builder_.sub(to_operand(builder_, {unit.reg, 0}), first_unit_);
  return {known, unit.offset};
}

/// The number of the block's first unit, and where the neighborhoods' buffers of the block begin.
void ElementwiseKernel::begin_neighborhoods(Index parity) {
  if (plan_.neighborhoods.empty()) return;
  if (plan_.unit_axis < space_.row_axis()) {
    Index unit;
    for (int digit = 1; digit < plan_.digits; ++digit) {
      const int axis = plan_.axis_of_digit(digit);
      if (axis > plan_.unit_axis) continue;
      const Index here{builder_.get(block_digits_[static_cast<std::size_t>(digit)]), 0};
      unit = add(builder_, unit, multiply(builder_, here, plan_.units_along(axis)));
    }
    first_unit_ = builder_.add(to_operand(builder_, unit), 0);
  }
  around_begin_.clear();
  for (const ElementwisePlan::Neighborhood& around : plan_.neighborhoods) {
    around_begin_.push_back(
        multiply(builder_, parity, buffer_rows_of(around)).plus(isa::kSublanes));
  }
}

/// Eight rows of a lane tile that begin `shift` rows from a row tile; turned in their lanes by a
/// distance. Rows outside of the matrix are anything. Those that a place and the one beside it
/// need are made once, where both are emitted together.
VReg ElementwiseKernel::shifted_rows(const Input& input, const Place& place, Index lane_tile,
                                     int turned) {
  const ArrayAccess& access = input.access;
  const int rows = space_.row_axis();
  const int above = static_cast<int>(access.shift[static_cast<std::size_t>(rows)] & 7);
  const int step = static_cast<int>(access.step_along(rows));
  std::vector<Index> tiles;
  for (int down = 0; 8 * down <= above + 7 * step; ++down) {
    tiles.push_back(shifted_tile(input, place, down, lane_tile));
  }
  forget_shifts();
  const int array = input.is_in_neighborhood() ? ~input.neighborhood : input.node;
  const auto rows_turned = [&](int by) -> VReg& {
    const Index &upper = tiles.front(), &lower = tiles.back();
    return rows_[{array, above, by, upper.reg.id, upper.offset, lower.reg.id, lower.offset}];
  };
  VReg& known = rows_turned(0);
  if (!known) {
    std::vector<VmemAddress> addresses;
    for (const Index& tile : tiles) addresses.push_back(shifted_address(input, tile));
    known = memory_->load_rows(access.shape.type, addresses, above, step);
  }
  if (turned == 0) return known;
  const VReg straight = known;
  VReg& rotated = rows_turned(turned);
  if (!rotated) rotated = builder_.rotate_lanes(straight, turned);
  return rotated;
}

VmemAddress ElementwiseKernel::shifted_address(const Input& input, Index rows) const {
  if (!input.is_in_neighborhood()) return at(input.region, rows);
  const auto number = static_cast<std::size_t>(input.neighborhood);
  const Index& begin = around_begin_[number];
  return at(plan_.neighborhoods[number].region, rows.plus(begin.offset), begin.reg);
}

/// A register of an array whose elements stand elsewhere.
VReg ElementwiseKernel::shifted_value(const Input& input, const Place& place) {
  const ArrayAccess& access = input.access;
  if (space_.linear) {
    const Index tile = place.digits.empty() ? Index{} : place.digits[0];
    const Index row = multiply(builder_, tile, 8).plus(access.shift[0] / 128);
    return builder_.load(at(input.region, within(row, -8, access.x_tiles)));
  }
  const std::int64_t shift = access.shift[static_cast<std::size_t>(space_.lane_axis())];
  const std::int64_t before = shift & 127;  // Lanes of the first of two tiles that are not needed.
  const Index x = digit(place, space_.lane_axis()).plus((shift - before) / 128);
  const Index first = lane_tile_inside(input, x);
  if (before == 0) return shifted_rows(input, place, first, 0);
  const int distance = static_cast<int>(128 - before);
  const VReg left = shifted_rows(input, place, first, distance);
  if (access.x_tiles == 1) return left;
  const Index second = lane_tile_inside(input, x.plus(1));
  const VReg right = shifted_rows(input, place, second, distance);
  const MReg is_left = builder_.vector_compare(Opcode::kVcmpLtS32, emitter_.lane_index(), distance);
  return builder_.select(is_left, left, right);
}

}  // namespace tpu::compiler
