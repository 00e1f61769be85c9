#include "workloads/compiler/ir/tile_row.h"

#include <algorithm>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/array_layout.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

/// `starts`: of the row, in the dimensions of the array.
std::optional<TileRow> row_at(const Shape& array, const std::vector<std::int64_t>& starts) {
  const std::vector<std::int64_t>& order = array.layout.minor_to_major;
  const bool is_known = hlo::byte_size(array.type) == 4 || array.type == hlo::ElementType::kBf16;
  if (!is_known || array.rank() < 2 || order.size() != array.dimensions.size()) {
    return std::nullopt;
  }
  const std::vector<std::int64_t> extents = physical_extents(array);
  const std::vector<std::int64_t> dimensions = major_to_minor(array);
  const std::size_t row = extents.size() - 2;
  const std::int64_t lanes = extents.back(), rows = extents[row];
  const std::int64_t row_tiles = ceil_divide(rows, std::int64_t{isa::kSublanes});
  const auto start = [&](std::size_t i) { return starts[static_cast<std::size_t>(dimensions[i])]; };
  std::int64_t tile = 0;
  for (std::size_t i = 0; i < row; ++i) tile = tile * extents[i] + start(i);
  tile = tile * row_tiles + start(row) / isa::kSublanes;
  TileRow found;
  found.row = static_cast<int>(start(row) % isa::kSublanes);
  const std::int64_t before = start(row) - found.row;
  found.tiles = hlo::array_shape(
      array.type, {std::min<std::int64_t>(rows - before, isa::kSublanes), lanes});
  found.tiles.layout = tiled_layout(array.type, {1, 0});
  found.granule = tile * static_cast<std::int64_t>(granules(found.tiles));
  return found;
}

/// Whether all dimensions but the lanes have one index.
bool is_one_row(const Shape& shape) {
  const std::vector<std::int64_t>& order = shape.layout.minor_to_major;
  if (shape.rank() < 2 || order.size() != shape.dimensions.size()) return false;
  return shape.element_count() == shape.dimensions[static_cast<std::size_t>(order[0])];
}

}  // namespace

std::optional<TileRow> tile_row_of(const Shape& array, const HloInstruction& slice) {
  const std::vector<std::int64_t>& order = array.layout.minor_to_major;
  if (order.empty() || !(slice.shape.layout == array.layout) || slice.shape.type != array.type) {
    return std::nullopt;
  }
  const auto lanes = static_cast<std::size_t>(order[0]);
  const bool takes_lanes = slice.shape.dimensions[lanes] == array.dimensions[lanes];
  if (!takes_lanes || !is_one_row(slice.shape)) return std::nullopt;
  return row_at(array, slice.slice->starts);
}

std::optional<TileRow> tile_row_of(const Shape& array) {
  if (!is_one_row(array)) return std::nullopt;
  return row_at(array, std::vector<std::int64_t>(array.dimensions.size(), 0));
}

std::optional<VectorInRows> vector_in_rows(const hlo::Computation& computation,
                                           const HloInstruction& reshape) {
  if (reshape.opcode != HloOpcode::kReshape || reshape.shape.rank() != 1) return std::nullopt;
  const HloInstruction& given = computation.at(reshape.operands[0]);
  const bool is_slice = given.opcode == HloOpcode::kSlice;
  const HloInstruction& array = is_slice ? computation.at(given.operands[0]) : given;
  if (array.opcode != HloOpcode::kParameter || given.shape.type != reshape.shape.type) {
    return std::nullopt;
  }
  const std::optional<TileRow> place =
      is_slice ? tile_row_of(array.shape, given) : tile_row_of(array.shape);
  if (!place) return std::nullopt;
  return VectorInRows{array.id, *place};
}

std::vector<InstructionId> stacked_vectors(const hlo::Computation& computation,
                                           const HloInstruction& stack) {
  std::vector<InstructionId> vectors;
  const auto add = [&](const HloInstruction& row) {
    if (row.opcode != HloOpcode::kReshape || !is_one_row(row.shape)) return false;
    vectors.push_back(row.operands[0]);
    return computation.at(row.operands[0]).shape.rank() == 1;
  };
  if (stack.opcode == HloOpcode::kReshape) return add(stack) ? vectors : decltype(vectors){};
  if (stack.opcode != HloOpcode::kConcatenate || stack.shape.rank() < 2) return {};
  const std::vector<std::int64_t>& order = stack.shape.layout.minor_to_major;
  if (order.size() < 2 || stack.dimensions[0] != order[1]) return {};
  const auto all = std::all_of(
      stack.operands.begin(), stack.operands.end(), [&](InstructionId operand) {
        const HloInstruction& row = computation.at(operand);
        return row.shape.layout == stack.shape.layout && add(row);
      });
  return all ? vectors : decltype(vectors){};
}

bool is_stack_of_vectors(const hlo::Computation& computation, const HloInstruction& stack) {
  const std::size_t rows = stacked_vectors(computation, stack).size();
  return rows > 0 && rows <= std::size_t{isa::kSublanes} &&
         hlo::byte_size(stack.shape.type) == 4;
}

}  // namespace tpu::compiler
