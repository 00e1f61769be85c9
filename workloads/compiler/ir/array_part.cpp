#include "workloads/compiler/ir/array_part.h"

#include <algorithm>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/array_layout.h"

namespace tpu::compiler {

namespace {

constexpr std::int64_t kTileGranules = 4;

}  // namespace

std::optional<ArrayPart> part_of_slice(const hlo::Shape& array, const hlo::HloInstruction& slice) {
  const std::vector<std::int64_t> order = major_to_minor(array);
  const bool is_plain = slice.opcode == hlo::HloOpcode::kSlice && array.rank() >= 2 &&
                        array.type == slice.shape.type && hlo::byte_size(array.type) == 4 &&
                        array.layout.minor_to_major.size() == order.size() &&
                        array.layout == slice.shape.layout;
  if (!is_plain) return std::nullopt;
  const std::vector<std::int64_t>& steps = slice.slice->strides;
  if (std::any_of(steps.begin(), steps.end(), [](std::int64_t step) { return step != 1; })) {
    return std::nullopt;
  }
  const std::vector<std::int64_t> whole = physical_extents(array);
  const std::vector<std::int64_t> cut = physical_extents(slice.shape);
  const std::size_t lane = order.size() - 1, row = order.size() - 2;
  const std::int64_t row_tile = kTileGranules * ceil_divide(whole[lane], isa::kLanes);
  ArrayPart part;
  bool is_inside = true;  // All dimensions further out have one element.
  std::int64_t stride = row_tile;
  for (std::size_t i = 0; i < lane; ++i) {
    if (whole[i] != cut[i] && !is_inside) return std::nullopt;
    is_inside = is_inside && cut[i] == 1;
  }
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::int64_t start = slice.slice->starts[static_cast<std::size_t>(order[i])];
    if (i == lane) {
      part.lanes = static_cast<int>(start % isa::kLanes);
      if (part.lanes > 0 && part.lanes + cut[lane] > isa::kLanes) return std::nullopt;
      part.granule += start / isa::kLanes * kTileGranules;
    } else if (i == row) {
      if (start % isa::kSublanes != 0) return std::nullopt;
      part.granule += start / isa::kSublanes * stride;
      stride *= ceil_divide(whole[row], isa::kSublanes);
    } else {
      part.granule += start * stride;
      stride *= whole[i];
    }
  }
  if (ceil_divide(cut[lane], isa::kLanes) != ceil_divide(whole[lane], isa::kLanes)) {
    part.pitch = row_tile;
  }
  return part;
}

int innermost_cut(const hlo::Shape& array, const hlo::Shape& part, const DimensionOrder& order) {
  int innermost = -1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto d = static_cast<std::size_t>(order[i]);
    if (part.dimensions[d] != array.dimensions[d]) innermost = static_cast<int>(i);
  }
  return innermost;
}

bool takes_whole_tiles(const hlo::Shape& array, const hlo::Shape& part,
                       const DimensionOrder& order) {
  const int innermost = innermost_cut(array, part, order);
  return innermost < 0 || innermost + 2 < static_cast<int>(order.size());
}

bool is_dynamic_part(hlo::HloOpcode opcode) {
  return opcode == hlo::HloOpcode::kDynamicSlice || opcode == hlo::HloOpcode::kDynamicUpdateSlice;
}

PartOfArray part_of_array(const hlo::Computation& computation,
                          const hlo::HloInstruction& dynamic_part) {
  const hlo::Shape& array = computation.at(dynamic_part.operands[0]).shape;
  const bool updates = dynamic_part.opcode == hlo::HloOpcode::kDynamicUpdateSlice;
  return {array, updates ? computation.at(dynamic_part.operands[1]).shape : dynamic_part.shape};
}

bool is_one_range(const hlo::Shape& array, const hlo::Shape& part, const DimensionOrder& order) {
  const int innermost = innermost_cut(array, part, order);
  for (int i = 0; i < innermost; ++i) {
    if (part.dimensions[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] != 1) {
      return false;
    }
  }
  return true;
}

}  // namespace tpu::compiler
