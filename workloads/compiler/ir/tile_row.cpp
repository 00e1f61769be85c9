#include "workloads/compiler/ir/tile_row.h"

#include <algorithm>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/array_part.h"

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
  found.tiles =
      hlo::array_shape(array.type, {std::min<std::int64_t>(rows - before, isa::kSublanes), lanes});
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

namespace {

InstructionId behind_bitcasts(const hlo::Computation& computation, InstructionId id) {
  while (computation.at(id).opcode == HloOpcode::kBitcast && !is_named_part(computation.at(id))) {
    id = computation.at(id).operands[0];
  }
  return id;
}

/// The slice of single steps that a reshape reads; none: it reads another value.
std::optional<HloInstruction> slice_below(const hlo::Computation& computation,
                                          const HloInstruction& reshape) {
  HloInstruction slice = computation.at(behind_bitcasts(computation, reshape.operands[0]));
  if (slice.opcode != HloOpcode::kSlice && !is_named_part(slice)) return std::nullopt;
  slice.opcode = HloOpcode::kSlice;
  const std::vector<std::int64_t>& strides = slice.slice->strides;
  const bool is_plain =
      std::all_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride == 1; });
  return is_plain ? std::optional(std::move(slice)) : std::nullopt;
}

bool is_reshape_to(const HloInstruction& instruction, std::int64_t rank) {
  return instruction.opcode == HloOpcode::kReshape && instruction.shape.rank() == rank &&
         hlo::byte_size(instruction.shape.type) == 4;
}

}  // namespace

std::optional<PartInTiles> row_of_array(const hlo::Computation& computation,
                                        const HloInstruction& reshape) {
  if (!is_reshape_to(reshape, 1)) return std::nullopt;
  const auto has_lanes = [&](const std::optional<TileRow>& row) {
    return row && row->tiles.dimensions.back() == reshape.shape.dimensions[0];
  };
  if (const auto slice = slice_below(computation, reshape)) {
    const HloInstruction& array = computation.at(slice->operands[0]);
    if (!has_lanes(tile_row_of(array.shape, *slice))) return std::nullopt;
    return PartInTiles{array.id, slice};
  }
  const HloInstruction& array = computation.at(reshape.operands[0]);
  if (!has_lanes(tile_row_of(array.shape))) return std::nullopt;
  return PartInTiles{array.id, std::nullopt};
}

std::optional<PartInTiles> element_of_array(const hlo::Computation& computation,
                                            const HloInstruction& reshape) {
  if (!is_reshape_to(reshape, 0)) return std::nullopt;
  const auto slice = slice_below(computation, reshape);
  if (!slice || !tile_element_of(computation.at(slice->operands[0]).shape, *slice)) {
    return std::nullopt;
  }
  return PartInTiles{slice->operands[0], slice};
}

std::optional<TileElement> tile_element_of(const Shape& array, const HloInstruction& slice) {
  const bool is_one = slice.shape.element_count() == 1 && slice.shape.type == array.type;
  if (!is_one || !(slice.shape.layout == array.layout)) return std::nullopt;
  const std::optional<TileRow> row = row_at(array, slice.slice->starts);
  if (!row) return std::nullopt;
  const std::int64_t lane =
      slice.slice->starts[static_cast<std::size_t>(array.layout.minor_to_major[0])];
  TileElement element;
  element.row = row->row;
  element.lane = static_cast<int>(lane % isa::kLanes);
  element.tile = hlo::array_shape(array.type, {isa::kSublanes, isa::kLanes});
  element.tile.layout = tiled_layout(array.type, {1, 0});
  element.granule =
      row->granule + lane / isa::kLanes * static_cast<std::int64_t>(granules(element.tile));
  return element;
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
  const auto all =
      std::all_of(stack.operands.begin(), stack.operands.end(), [&](InstructionId operand) {
        const HloInstruction& row = computation.at(operand);
        return row.shape.layout == stack.shape.layout && add(row);
      });
  return all ? vectors : decltype(vectors){};
}

bool is_stack_of_vectors(const hlo::Computation& computation, const HloInstruction& stack) {
  const std::size_t rows = stacked_vectors(computation, stack).size();
  return rows > 0 && rows <= std::size_t{isa::kSublanes} && hlo::byte_size(stack.shape.type) == 4;
}

}  // namespace tpu::compiler
