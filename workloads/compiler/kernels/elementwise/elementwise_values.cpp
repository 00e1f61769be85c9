#include <algorithm>

#include "isa/instruction.h"
#include "sim/base/error.h"
#include "workloads/compiler/kernels/elementwise/elementwise_kernel.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;
using isa::Opcode;
using Kind = ArrayAccess::Kind;
using Step = ArrayAccess::Step;

}  // namespace

/// The index along an axis, of the cut one within the present part.
Index ElementwiseKernel::digit_in_part(const Place& place, int axis) {
  const Index index = digit(place, axis);
  if (axis != plan_.cut_axis) return index;
  if (plan_.part_extent() == 1) return {};
  return Index{builder_.sub(to_operand(builder_, index), part_begin_), 0};
}

/// VMEM rows of the array's tile (or, linear, of its row) at a place, from where it begins; the row
/// within the tile and the first lane where they are not those of the place. What rows of tiles
/// have in common is added first, once for all.
Index ElementwiseKernel::array_rows(const ArrayAccess& access, const Place& place, bool sliced,
                                    Index& row, Index& lane, Index begin) {
  const auto major = [&](int axis) {
    return sliced ? digit_in_part(place, axis) : digit(place, axis);
  };
  Index tile;
  if (access.linear) {
    Index line;
    if (access.x == Step::kSame) {
      line = digit(place, space_.lane_axis());
    } else if (access.x == Step::kRows) {
      line = divide_by_power_of_two(builder_, digit(place, space_.row_axis()), 4);
      lane =
          multiply(builder_, modulo_power_of_two(builder_, digit(place, space_.row_axis()), 4), 8);
    } else if (access.x == Step::kMajor) {
      line = divide_by_power_of_two(builder_, major(access.x_axis), 7);
      lane = modulo_power_of_two(builder_, major(access.x_axis), 7);
    }
    return add(builder_, begin, line);
  }
  for (const ArrayAccess::MajorTerm& term : access.majors) {
    tile = add(builder_, tile, multiply(builder_, major(term.axis), term.tiles));
  }
  if (access.x == Step::kSame) {
    tile = add(builder_, tile, digit(place, space_.lane_axis()));
  } else if (access.x == Step::kRows) {
    tile =
        add(builder_, tile, divide_by_power_of_two(builder_, digit(place, space_.row_axis()), 4));
    lane = multiply(builder_, modulo_power_of_two(builder_, digit(place, space_.row_axis()), 4), 8);
  } else if (access.x == Step::kMajor) {
    tile = add(builder_, tile, divide_by_power_of_two(builder_, major(access.x_axis), 7));
    lane = modulo_power_of_two(builder_, major(access.x_axis), 7);
  }
  if (access.y == Step::kSame) {
    tile = add(builder_, tile, multiply(builder_, digit(place, space_.row_axis()), access.x_tiles));
  } else if (access.y == Step::kMajor) {
    const Index y = major(access.y_axis);
    if (access.x_tiles == 1) {
      row = y;  // Rows of one tile after the other.
    } else {
      tile = add(builder_, tile,
                 multiply(builder_, divide_by_power_of_two(builder_, y, 3), access.x_tiles));
      row = modulo_power_of_two(builder_, y, 3);
    }
  }
  return add(builder_, begin, multiply(builder_, tile, access.tile_rows()));
}

VReg ElementwiseKernel::column_value(const Input& input, const Place& place) {
  const ArrayAccess& access = input.access;
  Index row{{}, access.row}, lane{{}, access.lane};
  const Index rows =
      array_rows(access, place, input.sliced, row, lane, part_begin(input, part_buffer_));
  VReg line;
  if (access.y == Step::kSame && !access.linear) {
    line = memory_->load_tile(access.shape.type, at(input.region, rows));
  } else {
    line = memory_->load_row(access.shape.type, input.region, rows, row);
  }
  if (input.everywhere) return line;
  return spread_over_lanes(builder_, emitter_, line, lane, access.x == Step::kRows,
                           access.shape.type);
}

/// Of a vector that is read further on: rows of lanes that begin in one row and end in the next.
VReg ElementwiseKernel::value_ahead(const Input& input, const Place& place) {
  const int rows = input.part.lanes / isa::kLanes, lanes = input.part.lanes % isa::kLanes;
  const int kept = static_cast<int>(isa::kLanes) - lanes;
  const Index begin =
      add(builder_, place.rows32, multiply(builder_, parity_, isa::kSublanes)).plus(rows);
  const VReg here = builder_.rotate_lanes(builder_.load(at(input.region, begin)), kept);
  const VReg next = builder_.rotate_lanes(builder_.load(at(input.region, begin.plus(1))), kept);
  const MReg is_here = builder_.vector_compare(Opcode::kVcmpLtS32, emitter_.lane_index(), kept);
  return builder_.select(is_here, here, next);
}

/// Where the column's register is among those of sums along rows, or of values made of them.
VmemAddress ElementwiseKernel::column_address(VmemRegion region, const Place& place) {
  const Index number = accumulator(*plan_.reduction_along_rows(), place);
  return at(region, multiply(builder_, number, 8));
}

ExpressionValue ElementwiseKernel::source(int id, const Place& place) {
  const bool is_reciprocal = id < 0;
  const auto* column = plan_.column_value_of(is_reciprocal ? ~id : id, is_reciprocal);
  if (column != nullptr && column->level < level_) {
    return ExpressionValue::of(builder_.load(column_address(column->region, place)));
  }
  const int index = plan_.reduction_of(id);
  if (index >= 0) {
    const Reduction& reduction = plan_.reductions[static_cast<std::size_t>(index)];
    if (reduction.along_rows) {
      return ExpressionValue::of(builder_.load(column_address(reduction.accumulators, place)));
    }
    TPU_CHECK(reduction.along_lanes, graph_.kernel_name() << ": a sum that is not known yet");
    return ExpressionValue::of(builder_.load(at(reduction.slots, place.slot_rows)));
  }
  if (const auto* value = plan_.row_value_of(id)) {
    return ExpressionValue::of(builder_.load(at(value->slots, place.slot_rows)));
  }
  if (const auto* value = plan_.tile_value_of(id)) {
    return ExpressionValue::of(builder_.load(at(value->region, place.rows32)));
  }
  if (const int row = graph_.node(id).row; row >= 0) {
    const Input& tiles = *plan_.input_of(graph_.node(id).operands.front());
    const ElementType of_row = tiles.access.shape.type;
    return ExpressionValue::of(memory_->load_row_of_tiles(
        of_row, tiles.region, of_row == ElementType::kBf16 ? place.lines16 : place.lines32, row));
  }
  const Input& input = *plan_.input_of(id);
  const ElementType type = input.access.shape.type;
  if (input.fixed) return ExpressionValue::of(builder_.load(VmemAddress(input.slots)));
  if (input.kept) return ExpressionValue::of(builder_.load(kept_column(input, place)));
  Index row, lane;
  switch (input.access.kind) {
    case Kind::kStream: {
      if (input.is_ahead()) return ExpressionValue::of(value_ahead(input, place));
      const VReg tile = memory_->load_tile(
          type, at(input.region, type == ElementType::kBf16 ? place.rows16 : place.rows32));
      const int lanes = input.part.lanes;
      return ExpressionValue::of(
          lanes > 0 ? builder_.rotate_lanes(tile, static_cast<int>(isa::kLanes) - lanes) : tile);
    }
    case Kind::kColumn:
      return ExpressionValue::of(builder_.load(at(input.slots, place.slot_rows)));
    case Kind::kShifted:
      return ExpressionValue::of(shifted_value(input, place));
    case Kind::kTile: {
      const Index rows =
          array_rows(input.access, place, input.sliced, row, lane, part_begin(input, part_buffer_));
      return ExpressionValue::of(memory_->load_tile(type, at(input.region, rows)));
    }
    case Kind::kRow: {
      const Index rows =
          array_rows(input.access, place, input.sliced, row, lane, part_begin(input, part_buffer_));
      return ExpressionValue::of(memory_->load_row(type, input.region, rows, row));
    }
  }
  return {};
}

/// Where the register of a kept column is.
VmemAddress ElementwiseKernel::kept_column(const Input& input, const Place& place) {
  Index number;
  for (int axis : input.kept_majors) {
    number = add(builder_, multiply(builder_, number, space_.extent(axis)), digit(place, axis));
  }
  if (input.access.needs_rows()) {
    number = add(builder_, multiply(builder_, number, space_.row_tiles()),
                 digit(place, space_.row_axis()));
  }
  return at(input.slots, multiply(builder_, number, 8));
}

/// The value where the place lies inside the space, the reduction's identity in padding that would
/// enter the result.
VReg ElementwiseKernel::masked(const Reduction& reduction, const Place& place,
                               VectorOperand value) {
  const std::uint32_t identity =
      identity_bits(graph_.node(reduction.node).reducer, reduction.integer);
  // Positions in a tile are below `whole`.
  const auto keep = [&](VReg position, Index limit, std::int64_t whole) {
    if (limit.is_constant() && limit.offset >= whole) return;
    const VectorOperand bound = limit.is_constant()
                                    ? VectorOperand(static_cast<std::uint32_t>(limit.offset))
                                    : VectorOperand(builder_.splat(to_operand(builder_, limit)));
    const MReg inside = builder_.vector_compare(Opcode::kVcmpLtS32, position, bound);
    value = builder_.select(inside, value, identity);
  };
  const auto remaining = [&](std::int64_t extent, Index tile, std::int64_t size) {
    if (tile.is_constant()) return Index{{}, extent - tile.offset * size};
    const Index begin = multiply(builder_, tile, size);
    return Index{builder_.sub(extent, to_operand(builder_, begin)), 0};
  };
  if (space_.linear) {
    const std::int64_t extent = space_.extents.empty() ? 1 : space_.extents.front();
    if (extent % 1024 != 0) {
      keep(emitter_.element_index(),
           remaining(extent, place.digits.empty() ? Index{} : place.digits[0], 1024), 1024);
    }
  } else {
    const Index lane_tile = digit(place, space_.lane_axis());
    const bool is_last = lane_tile.is_constant() && lane_tile.offset + 1 == space_.lane_tiles();
    if (!reduction.lanes_kept && is_last && space_.lanes() % 128 != 0) {
      keep(emitter_.lane_index(), {{}, space_.lanes() % 128}, 128);
    }
    const bool rows_enter = !reduction.rows_kept && !reduction.along_lanes && may_end_matrix_;
    if (rows_enter && space_.rows() % 8 != 0) {
      keep(emitter_.sublane_index(), remaining(space_.rows(), digit(place, space_.row_axis()), 8),
           8);
    }
  }
  return value.reg ? value.reg : builder_.vector(Opcode::kVmov, value);
}

/// The register of the accumulators that a place adds to.
Index ElementwiseKernel::accumulator(const Reduction& reduction, const Place& place) {
  Index index;
  if (reduction.lanes_kept) index = digit(place, space_.lane_axis());
  if (reduction.rows_kept) {
    index = add(builder_, index,
                multiply(builder_, digit(place, space_.row_axis()),
                         reduction.lanes_kept ? space_.lane_tiles() : 1));
  }
  for (std::size_t i = 0; i < reduction.kept_majors.size(); ++i) {
    const int axis = reduction.kept_majors[i];
    const Index major = reduction.sliced ? digit_in_part(place, axis) : digit(place, axis);
    index = add(builder_, index, multiply(builder_, major, reduction.strides[i]));
  }
  return index;
}

}  // namespace tpu::compiler
