#include "workloads/compiler/kernels/contraction/contraction_plan.h"

#include <algorithm>
#include <utility>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"
#include "workloads/compiler/kernels/contraction/matmul_parts.h"
#include "workloads/compiler/kernels/tiles/tile_grid.h"

namespace tpu::compiler {

namespace {

// What the schedules of kernels take beside the counted pushes, in cycles.
constexpr double kRoundCycles = 400;     ///< Of a loop over steps: its start, the first results.
constexpr double kAddressCycles = 5;     ///< Of a step: its addresses.
constexpr double kExpressionCycles = 2;  ///< Behind a tile of the result.
constexpr int kVectorSlots = 2;          ///< Instructions of the vector unit in a bundle.
constexpr double kArrayCycles = 0.25;    ///< More for each further array.
constexpr double kRoundingCycles = 1.2;  ///< A tile is stored as a packed one.
constexpr double kMadeTileCycles = 2;    ///< A tile of a side is made of others.
constexpr double kHoles = 1.06;          ///< Times the bundles of a step that finishes tiles, too.
/// VMEM rows for masks, tables and what finds no register.
constexpr std::uint64_t kReserveRows = 2048;

}  // namespace

void GridExtents::resize(std::size_t size) {
  TPU_CHECK(size <= kMost, "a grid of " << size << " dimensions");
  for (; size_ < size; ++size_) extents_[size_] = 1;
  size_ = size;
}

int GridDimensions::innermost(const GridExtents& grid) const {
  for (auto i = static_cast<int>(grid.size()); i-- > 0;) {
    if ((bits_ >> i & 1) != 0 && grid[static_cast<std::size_t>(i)] > 1) return i;
  }
  return -1;
}

GridDimensions::operator std::vector<int>() const {
  std::vector<int> dimensions;
  for (int i = 0; i < 64; ++i) {
    if ((bits_ >> i & 1) != 0) dimensions.push_back(i);
  }
  return dimensions;
}

double block_bytes(std::int64_t height, std::uint32_t block_rows, std::int64_t width,
                   std::uint32_t block_pixels, std::uint32_t pixel_rows) {
  return double(std::min<std::int64_t>(height, block_rows)) *
         double(std::min<std::int64_t>(width, block_pixels)) * pixel_rows * isa::kVmemRowBytes;
}

void ContractionPlan::add_in_step(GridDimensions dimensions,
                                  const std::vector<hlo::ElementType>& operand_types,
                                  const hlo::ElementType* result_types, std::size_t result_count,
                                  std::uint64_t tiles, double moved) {
  operands.dimensions = dimensions;
  results.dimensions = dimensions;
  const double mean = moved / changes(results);
  const auto add = [&](Blocks& blocks, const hlo::ElementType* types, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      blocks.rows += TileGrid::buffer_rows(tiles * tile_rows(types[i]));
      blocks.bytes += mean * tile_rows(types[i]) * isa::kVmemRowBytes;
    }
  };
  add(operands, operand_types.data(), operand_types.size());
  add(results, result_types, result_count);
  const auto packed = [](const hlo::ElementType* types, std::size_t count) {
    return double(std::count(types, types + count, hlo::ElementType::kBf16));
  };
  finish.operands = double(operand_types.size());
  finish.results = double(result_count);
  finish.packed_operands = packed(operand_types.data(), operand_types.size());
  finish.packed_results = packed(result_types, result_count);
  finish.tiles = double(tiles);
}

std::uint32_t ContractionPlan::Blocks::rows_of(hlo::ElementType type, hlo::ElementType side) const {
  return static_cast<std::uint32_t>(rows / tile_rows(side) * tile_rows(type));
}

void ContractionPlan::make_side(Blocks& side, const MadeSide& made, hlo::ElementType type) {
  if (!made.is_made) return;
  const std::uint64_t tiles = side.rows / tile_rows(type);
  const double bytes_of_row = side.bytes / double(side.rows);
  for (const hlo::ElementType beside : made.beside) {
    const std::uint32_t rows = side.rows_of(beside, type);
    side.rows_beside += TileGrid::buffer_rows(rows);
    side.bytes += bytes_of_row * double(rows);
  }
  side.cycles += double(tiles) * (made.cost.cycles + kMadeTileCycles);
  rows_apart += made.resident_rows;
}

double ContractionPlan::Finish::tile_cycles() const {
  const double rounding = kRoundingCycles * packed_results;
  if (!has_expression) return rounding;
  return rounding + kExpressionCycles + kArrayCycles * (operands + results - 1) + expression.cycles;
}

void ContractionPlan::Steps::set_lots(const OperandParts& parts, std::uint32_t of_others) {
  lots = of_others;
  if (!are_several(parts)) return;  // Every cut of most searches.
  const PartPairs pairs(parts);
  lots = of_others * static_cast<std::uint32_t>(pairs.size());
  parts_of_moving = MatmulParts::instructions(0, pairs);
  parts_of_stationary = MatmulParts::instructions(1, pairs);
}

double ContractionPlan::Steps::part_instructions() const {
  if (parts_of_moving + parts_of_stationary == 0) return 0;
  const std::uint32_t tiles = units.matrices_at_once() * units.columns_at_once;
  return units.row_parts *
         (parts_of_moving * pushes * units.groups() + parts_of_stationary * weight_pushes * tiles);
}

double ContractionPlan::Steps::cycles(const Target& target, const Finish& finish) const {
  // What a step pushes last is popped in the next one.
  double lot = step_bundles(target, units, pushes, weight_pushes);
  const double in_parts = part_instructions();
  if (in_parts > 0) {
    lot = std::max(lot, (in_parts + double(units.count()) * pushes) / kVectorSlots);
  }
  const double plain = std::max(lots * lot, double(target.matmul_latency_cycles)) + kAddressCycles;
  double step = plain;
  if (finish.beside > 0) {
    const double popped = double(units.count()) * pushes,
                 streamed = double(pushes) * units.groups();
    const double loads =
        lots * (units.row_parts * (streamed + 16.0 * units.columns_at_once) + popped) +
        finish.beside * (1 + finish.operands + 2 * finish.packed_results);
    const double work = lots * (popped + (unpacks_moving ? 2 * streamed : 0) + in_parts) +
                        finish.beside * (finish.expression.instructions + finish.packed_results +
                                         2 * finish.packed_operands);
    step = kHoles * std::max(step, std::max(loads, work / kVectorSlots) + kAddressCycles);
  }
  return before + finish.steps_before * plain + (count - finish.steps_before) * step +
         rounds * kRoundCycles;
}

double ContractionPlan::tiles() const {
  double product = 1;
  for (std::uint32_t extent : grid) product *= extent;
  return product;
}

double ContractionPlan::changes(const Blocks& blocks) const {
  double product = 1;
  for (int i = blocks.dimensions.innermost(grid); i >= 0; --i) {
    product *= grid[static_cast<std::size_t>(i)];
  }
  return product;
}

std::uint64_t ContractionPlan::buffers(const Blocks& blocks) const {
  return blocks.dimensions.innermost(grid) < 0 ? 1 : 2;
}

std::uint64_t ContractionPlan::vmem_rows() const { return kReserveRows + array_rows(); }

std::uint64_t ContractionPlan::array_rows() const {
  std::uint64_t rows = rows_apart;
  for (const Blocks* blocks : {&lhs, &rhs, &operands, &results}) {
    rows += buffers(*blocks) * (TileGrid::buffer_rows(blocks->rows) + blocks->rows_beside);
  }
  return rows;
}

double ContractionPlan::cycles(const Target& target) const {
  const double count = tiles();
  double work = steps.cycles(target, finish) * count;
  double bytes = 0;
  for (const Blocks* blocks : {&lhs, &rhs, &operands, &results}) {
    const double times = changes(*blocks);
    work += blocks->cycles * times;
    bytes += blocks->bytes * times;
  }
  work +=
      finish.tile_cycles() * (finish.beside > 0 ? finish.behind : finish.tiles) * changes(results);
  const double first = lhs.bytes + rhs.bytes + operands.bytes, last = results.bytes;
  // Between the first tile's blocks and the last one's work, either bounds a tile.
  const double fetched = std::max(0.0, bytes - first - last) / target.hbm_bytes_per_cycle;
  const double waits = fetched > 0 ? (count - 1) * target.dma_latency_cycles : 0;
  const double others = work * (count - 1) / count;
  return 2.0 * target.dma_latency_cycles + (first + last) / target.hbm_bytes_per_cycle +
         work / count + std::max(others, fetched + waits);
}

}  // namespace tpu::compiler
