#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/elementwise/elementwise_planner.h"

// Blocks of an elementwise kernel, and what straight code works on at a time.

namespace tpu::compiler {

using hlo::HloOpcode;
using OutputKind = ElementwisePlan::OutputKind;

namespace {

/// Left for the scratch of packed stores and alignment.
constexpr std::int64_t kReserveBytes = 256 << 10;
/// In one piece of straight code whose sums along lanes are waited for together.
constexpr int kMostRowsAtOnce = 16;
/// Where registers are turned in their lanes: their way through the XLU takes as long as a dozen.
constexpr int kTilesTurnedAtOnce = 32;
/// Of a row that all passes go through together: the lanes of longer ones wait for the memory.
constexpr std::int64_t kMostLaneTilesTogether = 4;
/// Registers of the largest array in a block: 1 MiB of f32.
constexpr std::int64_t kLargestBlock = 256;

}  // namespace

/// Without anything that varies along lanes or rows, a tile is a tile.
void ElementwisePlanner::choose_shape() {
  plan_.flat = plan_.reductions.empty();
  for (const ElementwisePlan::Input& input : plan_.inputs) {
    const bool is_plain = input.is_stream() && !input.repeated && input.part.is_one_range();
    if (!is_plain && !input.fixed) plan_.flat = false;
  }
  for (const ElementwisePlan::Output& output : plan_.outputs) {
    plan_.flat = plan_.flat && output.part.is_one_range();
  }
  // The rows of a single row tile are the same in all of its tiles.
  const bool is_one_row_tile = !space_.linear && space_.majors() * space_.row_tiles() == 1;
  for (const ExpressionNode& node : graph_.nodes()) {
    if (node.opcode != HloOpcode::kIota) continue;
    if (!is_one_row_tile || node.axis == space_.lane_axis()) plan_.flat = false;
  }
  plan_.row_tiles = space_.majors() * space_.row_tiles();
  plan_.lane_tiles = space_.lane_tiles();
  if (plan_.flat) {
    plan_.row_tiles *= plan_.lane_tiles;
    plan_.lane_tiles = 1;
  }
}

void ElementwisePlanner::find_needed_axes() {
  if (plan_.flat) return;
  const auto need = [&](int axis) {
    if (axis != kNoAxis) plan_.needed[static_cast<std::size_t>(axis)] = true;
  };
  if (space_.linear) {
    if (!space_.extents.empty()) need(0);
    plan_.digits = space_.extents.empty() ? 0 : 1;
    return;
  }
  const auto need_access = [&](const ArrayAccess& access) {
    if (access.needs_rows()) need(space_.row_axis());
    for (int axis : access.major_axes()) need(axis);
  };
  for (const ElementwisePlan::Input& input : plan_.inputs) {
    if (input.stays()) need_access(input.access);
  }
  // What blocks have whole is found by indices.
  for (int axis = 0; plan_.unit_axis < space_.row_axis() && axis <= space_.row_axis(); ++axis) {
    if (!plan_.neighborhoods.empty()) need(axis);
  }
  for (const ExpressionNode& node : graph_.nodes()) {
    if (node.opcode == HloOpcode::kIota && node.axis != space_.lane_axis()) need(node.axis);
  }
  for (const ElementwisePlan::Output& output : plan_.outputs) {
    if (output.kind == OutputKind::kRows) need_access(output.access);
  }
  for (const ElementwisePlan::Reduction& reduction : plan_.reductions) {
    if (reduction.along_lanes) continue;
    const bool masks_rows = !reduction.rows_kept && space_.rows() % 8 != 0;
    if (masks_rows || reduction.rows_kept) need(space_.row_axis());
    for (int axis : reduction.kept_majors) need(axis);
  }
  need(plan_.cut_axis);
  for (int axis = 0; axis <= space_.row_axis(); ++axis) {
    if (plan_.needed[static_cast<std::size_t>(axis)]) {
      plan_.digits = space_.row_axis() - axis + 1;
      break;
    }
  }
}

std::size_t ElementwisePlanner::operations() const {
  double cycles = 0;
  for (std::size_t id = 0; id < graph_.nodes().size(); ++id) {
    const bool is_given = plan_.has_whole_matrices() && is_of_columns(static_cast<int>(id));
    if (!is_given) cycles += vector_cost_of(graph_.nodes()[id]).cycles;
  }
  return static_cast<std::size_t>(std::lround(2 * cycles));
}

/// Whether straight code can work on so many row tiles at a time: where indices count, those of
/// each of its tiles must be the group's first ones plus constants. So a group is a part of the row
/// tiles of a matrix, or whole matrices, or whole ones of the axis above them, and so on.
bool ElementwisePlanner::is_group(int rows) const {
  if (rows > plan_.row_tiles) return false;
  if (!plan_.counts()) return (rows & (rows - 1)) == 0;
  if (plan_.row_tiles % rows != 0) return false;
  std::int64_t left = rows;
  for (int i = 0; i < plan_.digits && left > 1; ++i) {
    const std::int64_t radix = plan_.radix(i);
    if (left % radix != 0) return radix % left == 0;
    left /= radix;
  }
  return true;
}

int ElementwisePlanner::largest_group(std::int64_t most) const {
  int rows = static_cast<int>(std::min(most, plan_.row_tiles));
  while (rows > 1 && !is_group(rows)) --rows;
  return std::max(rows, 1);
}

/// The row tiles of a group. Those of a matrix that few numbers divide (25: 197 rows) are gone
/// through in groups of a power of two and a smaller last one, in blocks of whole matrices; of a
/// single matrix that is larger than a block its last block has the smaller one.
void ElementwisePlanner::choose_rows(ElementwisePlan::Group& group, std::int64_t most) {
  group.rows = largest_group(most);
  group.by_matrix = false;
  if (!plan_.counts() || space_.linear || plan_.period > 0) return;
  int rows = 1;
  while (2 * rows <= std::min(most, plan_.radix(0))) rows *= 2;
  if (rows < 2 * group.rows) return;
  const bool is_large = plan_.radix(0) * plan_.lane_tiles > kLargestBlock;
  if (is_large && plan_.radix(0) != plan_.row_tiles) return;
  group.rows = rows;
  group.by_matrix = !is_large;
}

/// Row tiles that a block has a multiple of.
std::int64_t ElementwisePlanner::least_block() const {
  std::int64_t least = plan_.has_whole_matrices() ? plan_.radix(0) : 1;
  if (!plan_.neighborhoods.empty()) least = std::lcm(least, plan_.unit);
  for (int level = 0; level <= plan_.last_level; ++level) {
    const ElementwisePlan::Group& group = plan_.group_at(level);
    least = std::lcm(least, group.by_matrix ? plan_.radix(0) : group.rows);
  }
  return least;
}

void ElementwisePlanner::choose_unroll() {
  // Values that cross lanes take long: several row tiles at a time share the wait.
  bool crosses_lanes = false;
  int sums = 0;
  for (const ElementwisePlan::Input& input : plan_.inputs) {
    crosses_lanes |= input.is_spread() || input.part.lanes > 0;
  }
  for (const ExpressionNode& node : graph_.nodes()) {
    crosses_lanes |= node.opcode == HloOpcode::kSlice && node.row < 0;
    plan_.joins_lanes |= joins_lane_tiles(node);
  }
  for (const ElementwisePlan::Reduction& reduction : plan_.reductions) {
    crosses_lanes |= reduction.along_lanes;
    sums += reduction.along_lanes ? 1 : 0;
  }
  const auto most_tiles = [&](PassKind kind) {
    return limits_.most_tiles[static_cast<std::size_t>(kind)];
  };
  const auto group = [&](PassKind kind) -> ElementwisePlan::Group& {
    return plan_.groups[static_cast<std::size_t>(kind)];
  };
  for (const PassKind kind : {PassKind::kSums, PassKind::kResults}) {
    choose_group(group(kind), most_tiles(kind), crosses_lanes, sums);
  }
}

/// Where no pass needs another one to be through the block before it.
void ElementwisePlanner::choose_passes_together() {
  if (limits_.passes_apart || (!plan_.spreads() && plan_.last_level == 0)) return;
  if (plan_.has_whole_matrices() || !plan_.column_values.empty()) return;
  if (plan_.lane_tiles > kMostLaneTilesTogether) return;
  const ElementwisePlan::Group& results = plan_.group_at(plan_.last_level);
  for (int level = 0; level <= plan_.last_level; ++level) {
    const ElementwisePlan::Group& group = plan_.group_at(level);
    if (group.rows != results.rows || group.by_matrix != results.by_matrix ||
        group.lanes != plan_.lane_tiles) {
      return;
    }
  }
  plan_.passes_together = true;
}

/// The pass that spreads columns goes through the block as it is.
void ElementwisePlanner::choose_spread_group() {
  if (!plan_.spreads()) return;
  ElementwisePlan::Group& group = plan_.groups[static_cast<std::size_t>(PassKind::kSpread)];
  if (plan_.passes_together) {
    group = plan_.group_at(plan_.last_level);
    return;
  }
  group.lanes = static_cast<int>(plan_.lane_tiles);
  const int most =
      std::min(kMostRowsAtOnce, limits_.most_tiles[static_cast<std::size_t>(PassKind::kSpread)]);
  for (std::int64_t rows = std::min<std::int64_t>(most, plan_.block); rows > 0; --rows) {
    choose_rows(group, rows);
    if (plan_.block % (group.by_matrix ? plan_.radix(0) : group.rows) == 0) return;
  }
}

/// Registers turned in their lanes serve the lane tiles on both sides: a group is wide. Their
/// results wait in the XLU's queue, not in registers.
void ElementwisePlanner::choose_wide_group(ElementwisePlan::Group& group, int most_tiles,
                                           int sums) {
  const int tiles = std::min(most_tiles, kTilesTurnedAtOnce);
  group.lanes = static_cast<int>(std::min<std::int64_t>(plan_.lane_tiles, tiles));
  choose_rows(group, tiles / group.lanes);
  const bool is_looped = group.lanes < plan_.lane_tiles;
  if (is_looped && sums > 0) choose_rows(group, std::min(group.rows, std::max(1, 12 / sums)));
}

void ElementwisePlanner::choose_group(ElementwisePlan::Group& group, int most_tiles,
                                      bool crosses_lanes, int sums) {
  if (plan_.turns_neighbors()) return choose_wide_group(group, most_tiles, sums);
  const std::size_t work = operations() + plan_.inputs.size();
  // What a value is made of waits for itself: tiles beside each other hide that, as many as find
  // registers (where some do not, the kernel is planned again with fewer).
  int tiles = work <= 4 ? 32 : work <= 96 ? 16 : 8;
  if (crosses_lanes) tiles = kMostTiles;
  tiles = std::min(tiles, most_tiles);
  const int most_rows = crosses_lanes ? kMostRowsAtOnce : tiles;
  const bool whole_rows = plan_.lane_tiles <= std::max(1, crosses_lanes ? tiles / 4 : tiles);
  const std::int64_t row_width = whole_rows ? plan_.lane_tiles : 1;
  if (whole_rows || crosses_lanes) {
    const std::int64_t limit = whole_rows ? most_rows : 4;
    choose_rows(group, std::min(limit, std::max<std::int64_t>(1, tiles / row_width)));
  }
  group.lanes = static_cast<int>(plan_.lane_tiles);
  if (!whole_rows) {
    // Sums of all rows of a group stay in registers over the loop.
    if (sums > 0) choose_rows(group, std::min(group.rows, std::max(1, 12 / sums)));
    group.lanes = std::max(1, tiles / (crosses_lanes ? 4 : 1) / group.rows);
  }
}

std::int64_t ElementwisePlanner::resident_bytes() const {
  std::int64_t rows = 0;
  std::set<int> shifted;  // Arrays that stand in VMEM once, however many distances are read.
  for (const ElementwisePlan::Input& input : plan_.inputs) {
    const bool is_shifted = input.access.kind == ArrayAccess::Kind::kShifted;
    const bool is_known = is_shifted && !shifted.insert(input.operand).second;
    if (input.stays() && !is_known) rows += input.access.rows() * plan_.buffers_of(input);
    if (input.fixed) rows += 8;
    if (input.kept) rows += 8 * input.kept_registers(space_);
  }
  for (const ElementwisePlan::Reduction& reduction : plan_.reductions) {
    if (!reduction.along_lanes) rows += 8 * reduction.registers;
  }
  if (!plan_.column_values.empty()) {
    rows += 8 * plan_.reduction_along_rows()->registers *
            static_cast<std::int64_t>(plan_.column_values.size());
  }
  for (const ElementwisePlan::Output& output : plan_.outputs) {
    if (output.kind == OutputKind::kRows) rows += 2 * output.access.rows();
    if (output.kind == OutputKind::kAccumulated) {
      rows += ceil_divide(output.shape.padded_bytes(), 512) * 2 + 16;
    }
  }
  return rows * 512;
}

/// Of a row tile, with two buffers.
std::int64_t ElementwisePlanner::streamed_bytes() const {
  std::int64_t rows = 8 * plan_.lane_tiles * static_cast<std::int64_t>(plan_.tile_values.size());
  for (const ElementwisePlan::Input& input : plan_.inputs) {
    if (input.is_stream()) rows += plan_.stream_rows(input.access.shape);
  }
  for (const ElementwisePlan::Output& output : plan_.outputs) {
    if (output.kind == OutputKind::kStream) rows += plan_.stream_rows(output.shape);
  }
  for (const ElementwisePlan::Neighborhood& around : plan_.neighborhoods) {
    rows += ceil_divide(around.step * around.unit_rows(), plan_.unit);
  }
  return 2 * rows * 512;
}

/// What blocks of neighborhoods have beyond their own.
std::int64_t ElementwisePlanner::halo_bytes() const {
  std::int64_t rows = 0;
  for (const ElementwisePlan::Neighborhood& around : plan_.neighborhoods) {
    rows += 2 * around.halo() * around.unit_rows() + 3 * isa::kSublanes;
  }
  return rows * isa::kVmemRowBytes;
}

/// Bytes of VMEM for the row tiles of a block.
std::int64_t ElementwisePlanner::room() const {
  return static_cast<std::int64_t>(target_.vmem_bytes) - resident_bytes() - halo_bytes() -
         kReserveBytes;
}

/// Of long rows no tile is kept that another pass can compute again.
void ElementwisePlanner::compute_again_what_has_no_room() {
  if (streamed_bytes() > room()) plan_.tile_values.clear();
}

std::optional<Refusal> ElementwisePlanner::choose_block() {
  std::int64_t slots = 0, largest = 0;
  for (const ElementwisePlan::Input& input : plan_.inputs) {
    if (input.is_stream()) {
      largest = std::max(largest, plan_.stream_rows(input.access.shape));
    }
    if (input.is_spread()) ++slots;
  }
  for (const ElementwisePlan::Neighborhood& around : plan_.neighborhoods) {
    largest = std::max(largest, ceil_divide(around.step * around.unit_rows(), plan_.unit));
  }
  for (const ElementwisePlan::Output& output : plan_.outputs) {
    if (output.kind != OutputKind::kStream) continue;
    largest = std::max(largest, plan_.stream_rows(output.shape));
  }
  for (const ElementwisePlan::Reduction& reduction : plan_.reductions) {
    if (reduction.along_lanes) ++slots;
  }
  slots += static_cast<std::int64_t>(plan_.row_values.size());
  for (const ElementwisePlan::Output& output : plan_.outputs) {
    if (wants_lines() && ElementwisePlan::is_in_lanes(output)) ++slots;
  }
  const std::int64_t per_row_tile = streamed_bytes() + slots * kRegisterBytes;
  const std::int64_t most = per_row_tile == 0 ? plan_.row_tiles : room() / per_row_tile;
  if (room() <= 0 || most < plan_.unit) {
    return refuse(
        graph_.space_shape(),
        "expected the broadcast operands, the results of reductions and two buffers of eight "
        "rows of each other array in " +
            std::to_string(target_.vmem_bytes >> 20) + " MiB of VMEM; found " +
            std::to_string(resident_bytes()) + " and " + std::to_string(per_row_tile) + " bytes");
  }
  if (limits_.whole_arrays) {
    if (most < plan_.row_tiles)
      return refuse(graph_.space_shape(), "expected arrays that fit VMEM whole");
    plan_.block = plan_.row_tiles;
    return std::nullopt;
  }
  // Blocks of 64 KiB to 1 MiB of f32, eight or more where there is enough: DMAs of the largest take
  // ten times the latency between a block's end and the arrival of the one after the next.
  const std::int64_t registers = largest * plan_.row_tiles / 8;
  const std::int64_t wanted = std::clamp<std::int64_t>(registers / 8, 16, kLargestBlock);
  const std::int64_t per_row = std::max<std::int64_t>(1, largest / 8);
  plan_.block = std::clamp<std::int64_t>(wanted / per_row, 1, std::min(most, plan_.row_tiles));
  plan_.block = std::max<std::int64_t>(plan_.block, std::min<std::int64_t>(most, least_block()));
  if (plan_.has_whole_matrices() && plan_.block < plan_.radix(0)) {
    return refuse(graph_.space_shape(), "expected whole matrices in a block");
  }
  if (plan_.block < least_block()) shrink_groups(plan_.block);
  plan_.block -= plan_.block % least_block();
  if (wants_lines() && plan_.block >= line_block()) plan_.block -= plan_.block % line_block();
  if (plan_.period > 0) return divide_period();
  fit_ranges(std::min(most, plan_.row_tiles));
  return std::nullopt;
}

/// Whether blocks of so many row tiles have whole ranges, or equal parts of one, of each stream.
/// What is further apart than a DMA can tell comes in several.
bool ElementwisePlanner::has_ranges(std::int64_t block) const {
  const auto are_whole = [&](const ArrayPart& part) {
    if (part.is_one_range()) return true;
    if (block % part.run == 0) return block == part.run || part.pitch <= kLargestStride;
    return part.run % block == 0;
  };
  return std::all_of(plan_.inputs.begin(), plan_.inputs.end(),
                     [&](const auto& input) { return are_whole(input.part); }) &&
         std::all_of(plan_.outputs.begin(), plan_.outputs.end(),
                     [&](const auto& output) { return are_whole(output.part); });
}

/// Makes the block a smaller one that has ranges, or the next larger one that has room.
void ElementwisePlanner::fit_ranges(std::int64_t most) {
  const std::int64_t wanted = plan_.block;
  for (const bool may_shrink : {false, true}) {
    if (has_ranges(plan_.block)) return;
    if (may_shrink) shrink_groups(1);
    const std::int64_t least = least_block();
    std::int64_t less = wanted / least * least, more = less + least;
    while (less > 0 && !has_ranges(less)) less -= least;
    while (more <= most && !has_ranges(more)) more += least;
    if (less > 0) plan_.block = less;
    if (more <= most && 2 * less < wanted) plan_.block = more;
  }
}

/// Whether groups write results along the rows in pieces of a line.
bool ElementwisePlanner::wants_lines() const {
  return plan_.counts() &&
         std::any_of(plan_.outputs.begin(), plan_.outputs.end(), [this](const auto& output) {
           return ElementwisePlan::is_in_lanes(output) &&
                  plan_.run(plan_.group_at(output.level)) < std::min(kLineTiles, plan_.radix(0));
         });
}

/// Row tiles that a block has a multiple of where its lines are whole ones, or those of matrices.
std::int64_t ElementwisePlanner::line_block() const {
  const std::int64_t matrix = plan_.radix(0);
  const bool is_part = matrix % kLineTiles == 0 && plan_.block < matrix;
  return std::lcm(is_part ? kLineTiles : matrix, least_block());
}

void ElementwisePlanner::gather_lines() {
  plan_.by_lines = wants_lines() && plan_.block % line_block() == 0;
}

/// All passes have the same small group then.
void ElementwisePlanner::shrink_groups(std::int64_t most) {
  for (const ElementwisePlan::Group& group : plan_.groups) {
    if (group.rows > 1) most = std::min<std::int64_t>(most, group.rows);
  }
  for (ElementwisePlan::Group& group : plan_.groups) {
    group.by_matrix = false;
    if (group.rows > 1) group.rows = largest_group(most);
  }
}

/// Makes the block a divisor of the matrix that repeated streams go through, and the period a count
/// of blocks.
std::optional<Refusal> ElementwisePlanner::divide_period() {
  const std::int64_t matrix = plan_.period;
  plan_.block = std::min(plan_.block, matrix);
  while (matrix % plan_.block != 0 || !has_ranges(plan_.block)) --plan_.block;
  for (std::int64_t most = plan_.block; plan_.block % least_block() != 0; --most) {
    shrink_groups(most);
  }
  plan_.period = matrix / plan_.block;
  if (!has_modulo(plan_.period, plan_.row_tiles / plan_.block)) {
    return refuse(graph_.space_shape(),
                  "expected fewer blocks, found " + std::to_string(plan_.row_tiles / plan_.block));
  }
  return std::nullopt;
}

}  // namespace tpu::compiler
