#include "workloads/compiler/ir/array_part.h"

#include <algorithm>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/array_layout.h"

namespace tpu::compiler {

namespace {

/// Of a part along the dimensions above the lanes, from the inner ones outwards: how many row tiles
/// are a range, and how far the next one is.
class Ranges {
 public:
  /// A dimension: `taken` of its `count` indices, so many of which each is behind the one before,
  /// and granules. False where the ranges are at several distances.
  bool add(std::int64_t taken, std::int64_t count, std::int64_t granules, std::int64_t step = 1) {
    const bool has_steps = step > 1 && taken > 1;
    if (distance_ == 0 && !is_cut_ && !has_steps) {
      run_ *= taken;
    } else if (taken > 1) {
      if (is_last_ || (has_steps && distance_ > 0)) return false;
      if (distance_ == 0) distance_ = step * granules;
    }
    const bool has_all = has_steps ? taken * step == count : taken == count;
    if (!has_all && distance_ > 0) is_last_ = true;
    is_cut_ = is_cut_ || taken != count;
    return true;
  }
  bool is_one() const { return distance_ == 0; }
  std::int64_t run() const { return run_; }
  std::int64_t distance() const { return distance_; }

 private:
  std::int64_t run_ = 1, distance_ = 0;
  bool is_cut_ = false;   ///< A dimension so far: the next range is elsewhere.
  bool is_last_ = false;  ///< Dimensions that are still to come have one index.
};

std::int64_t step_of(const hlo::HloInstruction& slice, std::int64_t dimension) {
  const std::vector<std::int64_t>& steps = slice.slice->strides;
  return steps.empty() ? 1 : steps[static_cast<std::size_t>(dimension)];
}

/// Whether slice and array stand in the same tiles, without steps inside of these.
bool is_plain_slice(const hlo::Shape& array, const hlo::HloInstruction& slice) {
  const bool is_known = hlo::byte_size(array.type) == 4 || array.type == hlo::ElementType::kBf16;
  if (slice.opcode != hlo::HloOpcode::kSlice || array.rank() < 2 || !is_known) return false;
  const std::vector<std::int64_t>& order = array.layout.minor_to_major;
  return array.type == slice.shape.type && array.layout == slice.shape.layout &&
         order.size() == array.dimensions.size() && step_of(slice, order[0]) == 1 &&
         step_of(slice, order[1]) == 1;
}

/// Of shorter ones, 512 KiB, kernels of several small arrays move what they read.
constexpr std::int64_t kLongVector = 1 << 17;

/// What a slice takes of a vector from inside of a row of lanes on: a kernel reads this row and the
/// next one.
std::optional<ArrayPart> part_of_vector(const hlo::Shape& array, const hlo::HloInstruction& slice) {
  constexpr std::int64_t kTile = std::int64_t{isa::kSublanes} * isa::kLanes;
  if (slice.opcode != hlo::HloOpcode::kSlice || hlo::byte_size(array.type) != 4 ||
      array.type != slice.shape.type || step_of(slice, 0) != 1) {
    return std::nullopt;
  }
  const std::int64_t start = slice.slice->starts[0], count = slice.shape.dimensions[0];
  if (start % isa::kLanes == 0 || count < kLongVector) return std::nullopt;
  ArrayPart part;
  part.granule = start / kTile * 4;
  part.lanes = static_cast<int>(start % kTile);
  part.goes_on =
      ceil_divide(array.dimensions[0], kTile) > start / kTile + ceil_divide(count, kTile);
  return part;
}

}  // namespace

std::optional<ArrayPart> part_of_slice(const hlo::Shape& array, const hlo::HloInstruction& slice) {
  if (array.rank() == 1) return part_of_vector(array, slice);
  if (!is_plain_slice(array, slice)) return std::nullopt;
  const std::vector<std::int64_t> order = major_to_minor(array);
  const std::vector<std::int64_t> whole = physical_extents(array);
  const std::vector<std::int64_t> cut = physical_extents(slice.shape);
  const std::size_t lane = order.size() - 1, row = order.size() - 2;
  const auto start_of = [&](std::size_t i) {
    return slice.slice->starts[static_cast<std::size_t>(order[i])];
  };
  const std::int64_t tile = hlo::byte_size(array.type);  // Granules: 1,024 elements.
  const std::int64_t lane_tiles = ceil_divide(whole[lane], isa::kLanes);
  ArrayPart part;
  part.granule = start_of(lane) / isa::kLanes * tile;
  part.lanes = static_cast<int>(start_of(lane) % isa::kLanes);
  const bool turns = part.lanes > 0;
  if (turns && (tile != 4 || part.lanes + cut[lane] > isa::kLanes)) return std::nullopt;
  Ranges ranges;
  const std::int64_t taken = ceil_divide(cut[lane], isa::kLanes);
  // Of cut lanes each row tile is a range.
  bool is_range = ranges.add(1, taken == lane_tiles ? 1 : 2, 0);
  std::int64_t granules = lane_tiles * tile;  // From one index to the next.
  for (std::size_t i = lane; i-- > 0 && is_range;) {
    const std::int64_t rows = i == row ? std::int64_t{isa::kSublanes} : 1;
    if (start_of(i) % rows != 0) return std::nullopt;
    part.granule += start_of(i) / rows * granules;
    const std::int64_t count = ceil_divide(whole[i], rows);
    is_range = ranges.add(ceil_divide(cut[i], rows), count, granules, step_of(slice, order[i]));
    granules *= count;
  }
  if (!is_range || ranges.distance() > std::int64_t{kLargestStride}) return std::nullopt;
  if (!ranges.is_one()) {
    part.run = ranges.run();
    part.pitch = ranges.distance();
  }
  return part;
}

std::vector<ArrayPart> parts_of_concatenation(const hlo::Computation& computation,
                                              const hlo::HloInstruction& concatenate) {
  if (concatenate.opcode != hlo::HloOpcode::kConcatenate) return {};
  const auto dimension = static_cast<std::size_t>(concatenate.dimensions.front());
  if (concatenate.shape.rank() < 2) return {};
  hlo::HloInstruction slice;
  slice.opcode = hlo::HloOpcode::kSlice;
  slice.shape = computation.at(concatenate.operands.front()).shape;
  hlo::SliceBounds bounds;
  bounds.starts.assign(concatenate.shape.dimensions.size(), 0);
  bounds.strides.assign(concatenate.shape.dimensions.size(), 1);
  std::vector<ArrayPart> parts;
  for (const hlo::InstructionId operand : concatenate.operands) {
    const hlo::Shape& shape = computation.at(operand).shape;
    const bool is_same =
        shape.dimensions == slice.shape.dimensions && shape.layout == slice.shape.layout;
    slice.slice = bounds;
    const std::optional<ArrayPart> part = part_of_slice(concatenate.shape, slice);
    if (!is_same || !part || part->lanes > 0) return {};
    parts.push_back(*part);
    bounds.starts[dimension] += shape.dimensions[dimension];
  }
  return parts;
}

std::vector<ArrayPart> computed_parts(const hlo::Computation& computation,
                                      const hlo::HloInstruction& result) {
  if (result.opcode != hlo::HloOpcode::kConcatenate) return {};
  for (const hlo::InstructionId operand : result.operands) {
    if (!is_computed_part(computation.at(operand))) return {};
  }
  return parts_of_concatenation(computation, result);
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

bool moves_blocks(const hlo::HloInstruction& instruction) {
  return (instruction.opcode == hlo::HloOpcode::kGather ||
          instruction.opcode == hlo::HloOpcode::kScatter) &&
         !instruction.shape.is_tuple() && instruction.shape.rank() >= 3;
}

bool is_dynamic_part(const hlo::HloInstruction& instruction) {
  return instruction.opcode == hlo::HloOpcode::kDynamicSlice ||
         instruction.opcode == hlo::HloOpcode::kDynamicUpdateSlice || moves_blocks(instruction);
}

PartOfArray part_of_array(const hlo::Computation& computation,
                          const hlo::HloInstruction& dynamic_part) {
  hlo::Shape array = computation.at(dynamic_part.operands[0]).shape;
  if (moves_blocks(dynamic_part)) {
    hlo::Shape block = array;
    block.dimensions[0] = 1;
    // A table of one block has others beside it: they lie as many do.
    array.dimensions[0] = std::max<std::int64_t>(2, array.dimensions[0]);
    return {array, block};
  }
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

bool lies_for_parts(const hlo::Computation& computation, const hlo::HloInstruction& dynamic_part,
                    const DimensionOrder& order) {
  const PartOfArray of = part_of_array(computation, dynamic_part);
  return takes_whole_tiles(of.array, of.part, order) &&
         (!moves_blocks(dynamic_part) || is_one_range(of.array, of.part, order));
}

}  // namespace tpu::compiler
