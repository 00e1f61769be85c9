#include <algorithm>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/kernels/elementwise/elementwise_kernel.h"

namespace tpu::compiler {

using isa::Opcode;
using Step = ArrayAccess::Step;

/// Results that have an element per row, row by row: few of their values are under way.
void ElementwiseKernel::write_rows(int level, const std::vector<Place>& rows) {
  std::vector<Place> here = rows;
  count_anew(here);
  for (const Place& place : here) {
    write_row_values(level, place);
    for (const Output& output : plan_.outputs) {
      if (output.kind != OutputKind::kRows || output.level != level) continue;
      if (output.access.x != Step::kRows) {
        write_element(output, place);
      } else if (plan_.by_lines) {
        keep_row(output, place);
      }
    }
  }
  if (plan_.by_lines) return;
  // What is kept of the rows is read again: it does not wait in registers.
  for (const auto& value : plan_.row_values) emitter_.set_given(value.node, value.level <= level);
  for (const Output& output : plan_.outputs) {
    if (!ElementwisePlan::is_in_lanes(output) || output.level != level) continue;
    emitter_.forget();
    write_runs(output, here);
  }
}

/// The value of a row waits until the block's last pass is done.
void ElementwiseKernel::keep_row(const Output& output, const Place& place) {
  if (output.slots.rows == 0) return;  // It is kept already.
  builder_.store(at(output.slots, place.slot_rows), emitter_.vector(output.node, place));
}

/// Where the values of rows are kept.
VmemRegion ElementwiseKernel::slots_of(const Output& output) const {
  if (output.slots.rows > 0) return output.slots;
  if (const auto* value = plan_.row_value_of(output.node)) return value->slots;
  return plan_.reductions[static_cast<std::size_t>(plan_.reduction_of(output.node))].slots;
}

/// Behind the passes over a block: 16 row tiles make a line of 128 lanes.
void ElementwiseKernel::write_lines(std::int64_t row_tiles) {
  if (!plan_.by_lines) return;
  builder_.new_block();
  emitter_.forget();
  reset_digits();
  const std::int64_t matrix = std::min(plan_.radix(0), row_tiles);
  const bool is_whole = matrix == plan_.radix(0);
  in_pieces(builder_, row_tiles / matrix, 1, [&](Index number, std::int64_t /*one*/) {
    const Index first = multiply(builder_, number, matrix);
    // Tiles of the last line that is not full come alone.
    for (const std::int64_t size : {kLineTiles, matrix % kLineTiles}) {
      const std::int64_t lines = size == kLineTiles ? matrix / kLineTiles : 1;
      if (size == 0 || lines == 0) continue;
      const std::int64_t before = size == kLineTiles ? 0 : matrix - size;
      in_pieces(builder_, lines, 1, [&](Index line, std::int64_t /*one*/) {
        emitter_.forget();
        write_line(first, multiply(builder_, line, kLineTiles).plus(before), size, is_whole);
        builder_.new_block();
      });
    }
    emitter_.forget();
    if (is_whole) advance(digits_, matrix);
  });
  builder_.new_block();
  emitter_.forget();
}

/// `size` row tiles from `tile` on, of the matrix whose kept rows begin at row tile `first`.
void ElementwiseKernel::write_line(Index first, Index tile, std::int64_t size, bool is_whole) {
  Place place;
  place.digits.resize(static_cast<std::size_t>(space_.rank()));
  for (int i = 0; i < plan_.digits; ++i) {
    place.digits[static_cast<std::size_t>(plan_.axis_of_digit(i))] = {
        builder_.get(digits_[static_cast<std::size_t>(i)]), 0};
  }
  Index& row_tile = place.digits[static_cast<std::size_t>(space_.row_axis())];
  row_tile = is_whole ? tile : add(builder_, row_tile, tile);
  const Index kept = multiply(builder_, add(builder_, first, tile), 8);
  for (const Output& output : plan_.outputs) {
    if (!ElementwisePlan::is_in_lanes(output)) continue;
    std::vector<VReg> values;
    for (std::int64_t i = 0; i < size; ++i) {
      values.push_back(builder_.load(at(slots_of(output), kept.plus(8 * i))));
    }
    Index row, lane;
    const Index line = array_rows(output.access, place, output.sliced, row, lane);
    // A line begins at lane 0.
    store_across_lanes(builder_, emitter_, values, at(tiles_of(output), add(builder_, line, row)),
                       {});
  }
}

/// Places of a group in a new straight piece of code.
void ElementwiseKernel::count_anew(std::vector<Place>& places) {
  emitter_.forget();
  for (Place& place : places) {
    if (plan_.counts()) place.digits = digits_at(place.row_key);
  }
}

/// Results whose rows stand in the lanes. Row tiles of one matrix, up to 16 and aligned to their
/// count, lie in one row of 128 lanes: a run.
void ElementwiseKernel::write_runs(const Output& output, std::vector<Place>& rows) {
  constexpr std::size_t kRunsAtOnce = 4;
  const auto run = plan_.counts() ? static_cast<std::size_t>(plan_.run(*group_)) : rows.size();
  for (std::size_t first = 0; first < rows.size(); first += run) {
    if (first > 0 && first / run % kRunsAtOnce == 0) {
      builder_.new_block();
      count_anew(rows);
    }
    std::vector<VReg> values;
    for (std::size_t i = first; i < std::min(first + run, rows.size()); ++i) {
      values.push_back(emitter_.vector(output.node, rows[i]));
    }
    Index row, lane;
    const Index tile = array_rows(output.access, rows[first], output.sliced, row, lane);
    store_across_lanes(builder_, emitter_, values, at(tiles_of(output), add(builder_, tile, row)),
                       lane);
  }
  if (rows.size() > run * kRunsAtOnce) {
    builder_.new_block();
    count_anew(rows);
  }
}

/// Values of a row that are known now, for later passes.
void ElementwiseKernel::write_row_values(int level, const Place& place) {
  for (const auto& value : plan_.row_values) {
    if (value.level != level) continue;
    builder_.store(at(value.slots, place.slot_rows), emitter_.vector(value.node, place));
  }
}

/// The one row of a tile has one element of the result.
void ElementwiseKernel::write_element(const Output& output, const Place& place) {
  Index row, lane;
  const Index tile = array_rows(output.access, place, output.sliced, row, lane);
  const VectorOperand wanted = lane.is_constant()
                                   ? VectorOperand(static_cast<std::uint32_t>(lane.offset))
                                   : VectorOperand(builder_.splat(to_operand(builder_, lane)));
  const MReg chosen = builder_.vector_compare(Opcode::kVcmpEqS32, emitter_.lane_index(), wanted);
  builder_.store(at(tiles_of(output), add(builder_, tile, row)).mask(0x1), chosen,
                 emitter_.vector(output.node, place));
}

}  // namespace tpu::compiler
