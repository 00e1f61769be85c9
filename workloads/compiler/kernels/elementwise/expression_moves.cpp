#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "isa/instruction.h"
#include "workloads/compiler/ir/lane_moves.h"
#include "workloads/compiler/ir/tile_row.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"

// What slices, pads and concatenations inside of a fused computation make of an expression: the
// same one of elements that stand elsewhere, and selections by position.

namespace tpu::compiler {

using hlo::HloOpcode;

namespace {

/// Of slices along rows: each takes one load for each tile that the rows of a register stand in.
constexpr std::int64_t kMostSteps = 8;

/// Whether registers of an array can be loaded that begin so many elements further on: of vectors
/// whole rows of lanes.
bool loads_shifted(const hlo::Shape& shape, std::int64_t shift) {
  if (shape.rank() == 1) return hlo::byte_size(shape.type) == 4 && shift % isa::kLanes == 0;
  return is_packed(shape) || hlo::byte_size(shape.type) == 4;
}

}  // namespace

bool moves_by_shifts(const hlo::Computation& computation, const hlo::HloInstruction& instruction) {
  constexpr std::size_t kMostParts = 8;
  const auto is_alike = [&](hlo::InstructionId operand) {
    const hlo::Shape& shape = computation.at(operand).shape;
    return shape.type == instruction.shape.type && shape.rank() >= 1 &&
           shape.layout == instruction.shape.layout;
  };
  const auto loads = [&](std::int64_t shift) { return loads_shifted(instruction.shape, shift); };
  const auto dimensions = static_cast<std::size_t>(instruction.shape.rank());
  switch (instruction.opcode) {
    case HloOpcode::kSlice: {
      const auto& slice = instruction.slice;
      for (std::size_t d = 0; d < dimensions; ++d) {
        if (slice->strides[d] != 1 || !loads(slice->starts[d])) return false;
      }
      return is_alike(instruction.operands[0]);
    }
    case HloOpcode::kPad:
      for (std::size_t d = 0; d < dimensions; ++d) {
        const hlo::PaddingDimension& padding = instruction.padding[d];
        if (padding.interior != 0 || !loads(padding.low)) return false;
      }
      return is_alike(instruction.operands[0]);
    case HloOpcode::kConcatenate: {
      const auto dimension = static_cast<std::size_t>(instruction.dimensions[0]);
      std::int64_t begin = 0;
      for (hlo::InstructionId part : instruction.operands) {
        if (!is_alike(part) || !loads(begin)) return false;
        begin += computation.at(part).shape.dimensions[dimension];
      }
      return instruction.operands.size() <= kMostParts;
    }
    default:
      return false;
  }
}

bool takes_steps(const hlo::Computation& computation, const hlo::HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kSlice || instruction.shape.rank() < 2) return false;
  const hlo::Shape& array = computation.at(instruction.operands[0]).shape;
  if (!(array.layout == instruction.shape.layout) || array.type != instruction.shape.type) {
    return false;
  }
  const std::vector<std::int64_t>& steps = instruction.slice->strides;
  const auto lanes = static_cast<std::size_t>(array.layout.minor_to_major[0]);
  return loads_shifted(array, 0) && steps[lanes] == 1 &&
         std::all_of(steps.begin(), steps.end(),
                     [](std::int64_t step) { return step >= 1 && step <= kMostSteps; });
}

bool reads_elsewhere(const hlo::Computation& fused) {
  const auto is_read_as_vector = [&](hlo::InstructionId slice) {
    return std::any_of(
        fused.instructions.begin(), fused.instructions.end(), [&](const hlo::HloInstruction& user) {
          const bool reads = user.opcode == HloOpcode::kReshape && user.operands[0] == slice;
          return reads && (user.shape.rank() == 0 || vector_in_rows(fused, user));
        });
  };
  const auto is_elsewhere = [&](const hlo::HloInstruction& each) {
    const bool is_move = each.opcode == HloOpcode::kPad || each.opcode == HloOpcode::kSlice ||
                         each.opcode == HloOpcode::kConcatenate;
    if (!is_move || moves_lanes(fused, each)) return false;
    if (is_stack_of_vectors(fused, each) || is_read_as_vector(each.id)) return false;
    if (each.opcode == HloOpcode::kSlice) {
      return !part_of_slice(fused.at(each.operands[0]).shape, each).has_value();
    }
    return each.opcode == HloOpcode::kPad ||
           !std::all_of(each.operands.begin(), each.operands.end(),
                        [&](hlo::InstructionId id) { return is_computed_part(fused.at(id)); });
  };
  return std::any_of(fused.instructions.begin(), fused.instructions.end(), is_elsewhere);
}

/// The distances along some axes alone; none where all of those are none.
ExpressionGraph::Distance ExpressionGraph::Distance::along(const std::vector<int>& kept) const {
  Distance some;
  for (std::size_t axis = 0; axis < by.size(); ++axis) {
    const bool is_kept = std::find(kept.begin(), kept.end(), static_cast<int>(axis)) != kept.end();
    if (!is_kept || (by[axis] == 0 && step[axis] == 1 && !wraps[axis])) continue;
    some.resize(static_cast<int>(by.size()));
    some.by[axis] = by[axis];
    some.step[axis] = step[axis];
    some.wraps[axis] = wraps[axis];
  }
  return some;
}

/// The value whose elements stand so much further on along each dimension, and so far apart.
int ExpressionGraph::visit_away(hlo::InstructionId id, const std::vector<std::int64_t>& starts,
                                const std::vector<std::int64_t>& steps,
                                const std::vector<int>& axes, const hlo::HloInstruction& by) {
  const Distance before = away_;
  away_.resize(space_.rank());
  for (std::size_t d = 0; d < starts.size(); ++d) {
    const std::int64_t step = steps.empty() ? 1 : steps[d];
    if (starts[d] == 0 && step == 1) continue;
    if (axes[d] == kNoAxis) refuse(by, "elements move along axes of the kernel alone");
    const auto axis = static_cast<std::size_t>(axes[d]);
    if (away_.wraps[axis]) refuse(by, "a part of what is rolled is another kernel");
    if (step != 1 && (space_.linear || axes[d] == space_.lane_axis() || step > kMostSteps)) {
      refuse(by, "elements of lanes move in no steps");
    }
    away_.by[axis] = step * away_.by[axis] + starts[d];
    away_.step[axis] *= step;
  }
  const int value = visit(id, axes);
  away_ = before;
  return value;
}

int ExpressionGraph::visit_slice(const hlo::HloInstruction& slice, const std::vector<int>& axes) {
  const hlo::HloInstruction& operand = fused_.at(slice.operands[0]);
  const std::optional<ArrayPart> part = part_of_slice(operand.shape, slice);
  const bool is_alone = slice.id == fused_.root;
  const bool is_read = part && operand.opcode == HloOpcode::kParameter && !is_alone &&
                       away_.is_none() && !is_joined_ && !has_other_tiles(slice.shape, axes) &&
                       !is_read_elsewhere(operand.id);
  if (is_read) return visit_parameter(operand.id, slice.shape, axes, *part);
  if (turns_lanes(slice, axes)) {
    const auto lanes = static_cast<std::size_t>(slice.shape.layout.minor_to_major[0]);
    return moved_in_lanes(operand.id, slice.slice->starts[lanes], axes);
  }
  for (std::size_t d = 0; d < axes.size(); ++d) {
    const bool wraps = axes[d] != kNoAxis && away_.wraps_along(axes[d]);
    if (wraps && slice.shape.dimensions[d] != operand.shape.dimensions[d]) {
      refuse(slice, "a rolled part is another kernel");
    }
  }
  return visit_away(operand.id, slice.slice->starts, slice.slice->strides, axes, slice);
}

/// Whether a pad, concatenation or slice of the array moves its elements in other ways than its
/// DMAs do: then it comes once, for all that is read of it.
bool ExpressionGraph::is_read_elsewhere(hlo::InstructionId array) const {
  return std::any_of(
      fused_.instructions.begin(), fused_.instructions.end(), [&](const hlo::HloInstruction& each) {
        const bool reads = std::count(each.operands.begin(), each.operands.end(), array) != 0;
        if (!reads || moves_lanes(fused_, each)) return false;
        if (each.opcode == HloOpcode::kSlice) {
          return !part_of_slice(fused_.at(array).shape, each).has_value();
        }
        return each.opcode == HloOpcode::kPad || each.opcode == HloOpcode::kConcatenate;
      });
}

/// Whether an operand has other extents than the space: its tiles are others, or more.
bool ExpressionGraph::has_other_tiles(const hlo::Shape& shape, const std::vector<int>& axes) const {
  return axes == space_axes_ && shape.rank() >= 1 && shape.dimensions != space_shape_.dimensions &&
         !lie_in_same_tiles(shape, space_shape_);
}

/// Whether the value of an operation that is needed in other lanes is computed where it stands, and
/// turned: it is made of several that would be turned instead.
bool ExpressionGraph::turns_whole(const hlo::HloInstruction& instruction,
                                  const std::vector<int>& axes) const {
  const auto lanes = static_cast<std::size_t>(space_.lane_axis());
  if (space_.linear || axes != space_axes_ || away_.is_none() || away_.by[lanes] == 0) return false;
  if (away_.wraps[lanes] || !hlo::is_elementwise(instruction.opcode)) return false;
  // Values that passes keep of a block are those of the space's lane tiles.
  const bool has_sums =
      std::any_of(fused_.instructions.begin(), fused_.instructions.end(),
                  [](const auto& each) { return each.opcode == HloOpcode::kReduce; });
  const std::int64_t tiles =
      ceil_divide(physical_extents(instruction.shape).back(), std::int64_t{isa::kLanes});
  if (has_sums && tiles > space_.lane_tiles()) return false;
  const auto [direct, as_it_stands] = turned_below(instruction, away_.by[lanes]);
  return as_it_stands + 1 < direct;
}

/// How many registers are turned for a register of the value whose lanes stand so far away, and for
/// one where it stands: of each array as many as there are distances in lanes, for each distance
/// along the other dimensions.
std::pair<std::size_t, std::size_t> ExpressionGraph::turned_below(
    const hlo::HloInstruction& instruction, std::int64_t distance) const {
  using Moved = std::pair<hlo::InstructionId, std::vector<std::int64_t>>;
  const auto lanes = static_cast<std::size_t>(instruction.shape.layout.minor_to_major[0]);
  std::set<Moved> seen, arrays;
  std::vector<Moved> work{
      {instruction.id, std::vector<std::int64_t>(instruction.shape.dimensions.size())}};
  while (!work.empty()) {
    const Moved moved = work.back();
    work.pop_back();
    const hlo::HloInstruction& each = fused_.at(moved.first);
    if (each.shape.dimensions.size() != moved.second.size() || !seen.insert(moved).second) continue;
    if (each.opcode == HloOpcode::kParameter) arrays.insert(moved);
    const bool is_moved = each.opcode == HloOpcode::kSlice || each.opcode == HloOpcode::kPad ||
                          each.opcode == HloOpcode::kConcatenate;
    if (!is_moved && !hlo::is_elementwise(each.opcode)) continue;
    std::int64_t begin = 0;
    for (const hlo::InstructionId operand : each.operands) {
      Moved below{operand, moved.second};
      for (std::size_t d = 0; d < below.second.size(); ++d) {
        if (each.opcode == HloOpcode::kSlice) below.second[d] += each.slice->starts[d];
        if (each.opcode == HloOpcode::kPad) below.second[d] -= each.padding[d].low;
      }
      if (each.opcode == HloOpcode::kConcatenate) {
        const auto along = static_cast<std::size_t>(each.dimensions[0]);
        below.second[along] -= begin;
        begin += fused_.at(operand).shape.dimensions[along];
      }
      work.push_back(std::move(below));
    }
  }
  const auto turned = [&](std::int64_t away) {
    return static_cast<std::size_t>(std::count_if(
        arrays.begin(), arrays.end(),
        [&](const Moved& each) { return (each.second[lanes] + away) % isa::kLanes != 0; }));
  };
  return {turned(distance), turned(0)};
}

int ExpressionGraph::turned_whole(hlo::InstructionId id, const std::vector<int>& axes) {
  const auto lanes = static_cast<std::size_t>(space_.lane_axis());
  const Distance before = away_;
  const bool was_joined = std::exchange(is_joined_, true);
  const std::int64_t distance = std::exchange(away_.by[lanes], 0);
  int value = visit(id, axes);
  away_ = before;
  is_joined_ = was_joined;
  const hlo::HloInstruction& instruction = fused_.at(id);
  if (distance % isa::kLanes != 0) value = turned_in_lanes(value, instruction.shape.type, distance);
  ExpressionNode node;
  node.opcode = HloOpcode::kConcatenate;
  node.shape = space_shape_;
  node.shape.type = instruction.shape.type;
  node.axes = space_axes_;
  node.operands = {value};
  node.shift.assign(axes.size(), 0);
  node.shift[lanes] = distance;
  node.joined_lane_tiles =
      ceil_divide(physical_extents(instruction.shape).back(), std::int64_t{isa::kLanes});
  node.name = instruction.name;
  return add_once(std::move(node));
}

/// The operand's element at a distance from each point.
int ExpressionGraph::shifted_parameter(hlo::InstructionId id, const hlo::Shape& shape,
                                       const std::vector<int>& axes) {
  const hlo::HloInstruction& array = fused_.at(id);
  std::vector<std::int64_t> shift = away_.by;
  shift.resize(static_cast<std::size_t>(space_.rank()));
  bool loads =
      axes == space_axes_ && shape.layout.minor_to_major == space_shape_.layout.minor_to_major;
  for (std::size_t d = 0; loads && d < axes.size(); ++d) {
    loads = loads_shifted(shape, shift[static_cast<std::size_t>(axes[d])]);
  }
  if (!loads) refuse(array, "inside a fusion elements of operands move by whole rows and lanes");
  ExpressionNode node;
  node.opcode = HloOpcode::kParameter;
  node.shape = shape;
  node.axes = axes;
  node.parameter = array.parameter_number;
  node.name = array.name;
  node.shift = shift;
  node.step = away_.step;
  node.step.resize(shift.size(), 1);
  node.wraps = away_.wraps;
  node.wraps.resize(shift.size());
  for (const ExpressionNode& other : nodes_) {
    if (other.opcode == HloOpcode::kParameter && other.parameter == node.parameter &&
        other.shift == node.shift && other.wraps == node.wraps && other.step == node.step &&
        other.shape.dimensions == node.shape.dimensions) {
      return static_cast<int>(&other - nodes_.data());
    }
  }
  return add(std::move(node));
}

/// Whether an operation over the whole space moves lanes of its tiles.
bool ExpressionGraph::turns_lanes(const hlo::HloInstruction& instruction,
                                  const std::vector<int>& axes) const {
  return axes == space_axes_ && moves_lanes(fused_, instruction) &&
         away_.along({space_.lane_axis()}).is_none();
}

bool ExpressionGraph::turns_from_behind() const {
  return std::any_of(fused_.instructions.begin(), fused_.instructions.end(), [&](const auto& each) {
    if (each.opcode == HloOpcode::kConcatenate || !moves_lanes(fused_, each)) return false;
    const auto lanes = static_cast<std::size_t>(each.shape.layout.minor_to_major[0]);
    return each.opcode == HloOpcode::kSlice ? each.slice->starts[lanes] > 0
                                            : each.padding[lanes].low < 0;
  });
}

/// The value of which each element stands `start` lanes further on.
int ExpressionGraph::moved_in_lanes(hlo::InstructionId operand, std::int64_t start,
                                    const std::vector<int>& axes) {
  const int value = visit(operand, axes);
  return start == 0 ? value : turned_in_lanes(value, fused_.at(operand).shape.type, start);
}

/// A register of which each element stands so many lanes further on, in the same register.
int ExpressionGraph::turned_in_lanes(int value, hlo::ElementType type, std::int64_t start) {
  const int moved = add_operation(HloOpcode::kSlice, type, {value});
  nodes_.back().shift.assign(space_axes_.size(), 0);
  nodes_.back().shift[static_cast<std::size_t>(space_.lane_axis())] = start;
  return moved;
}

/// Whether the index along an axis of what is visited is at least, or less than, a bound; -1: it
/// always is. What is turned may be needed behind the space's last lane.
int ExpressionGraph::add_position_test(int axis, hlo::ComparisonDirection direction,
                                       std::int64_t bound) {
  const bool is_least = direction == hlo::ComparisonDirection::kGe;
  if (!away_.is_none()) {
    // At or above the quotient, rounded up.
    const std::int64_t step = away_.step_along(axis);
    const std::int64_t rest = bound - away_.by[static_cast<std::size_t>(axis)];
    bound = rest > 0 ? (rest + step - 1) / step : -(-rest / step);
  }
  const bool ends_with_space = (!is_joined_ && !turns_from_behind_) || axis != space_.lane_axis();
  if (is_least ? bound <= 0 : ends_with_space && bound >= space_.extent(axis)) return -1;
  return position_test(axis, direction, bound);
}

int ExpressionGraph::position_test(int axis, hlo::ComparisonDirection direction,
                                   std::int64_t bound) {
  ExpressionNode position;
  position.opcode = HloOpcode::kIota;
  position.shape = space_shape_;
  position.shape.type = hlo::ElementType::kS32;
  position.axes = space_axes_;
  position.axis = axis;
  ExpressionNode limit;
  limit.opcode = HloOpcode::kConstant;
  limit.shape = hlo::array_shape(hlo::ElementType::kS32, {});
  limit.bits = static_cast<std::uint32_t>(bound);
  ExpressionNode test = position;
  test.opcode = HloOpcode::kCompare;
  test.shape.type = hlo::ElementType::kPred;
  test.axis = kNoAxis;
  test.direction = direction;
  test.operands = {add_once(position), add_once(limit)};
  return add_once(test);
}

/// The index along an axis of what is visited.
int ExpressionGraph::position_away(int iota, const hlo::HloInstruction& instruction) {
  const ExpressionNode node = nodes_[static_cast<std::size_t>(iota)];
  const hlo::ElementType type = node.shape.type;
  const std::int64_t by = away_.by[static_cast<std::size_t>(node.axis)];
  const bool is_integer = type == hlo::ElementType::kS32 || type == hlo::ElementType::kU32;
  if (away_.wraps_along(node.axis) || (!is_integer && type != hlo::ElementType::kF32)) {
    refuse(instruction, "expected numbers of places where they stand");
  }
  const auto constant = [&](std::int64_t number) {
    const int made = add_operation(HloOpcode::kConstant, type, {});
    const auto floating = static_cast<float>(number);
    std::uint32_t bits = static_cast<std::uint32_t>(number);
    if (!is_integer) std::memcpy(&bits, &floating, sizeof(bits));
    nodes_.back().bits = bits;
    return made;
  };
  const std::int64_t step = away_.step_along(node.axis);
  if (step != 1) iota = add_operation(HloOpcode::kMultiply, type, {iota, constant(step)});
  return add_operation(HloOpcode::kAdd, type, {iota, constant(by)});
}

int ExpressionGraph::both(int a, int b) {
  ExpressionNode node = nodes_[static_cast<std::size_t>(a)];
  node.opcode = HloOpcode::kAnd;
  node.direction = {};
  node.operands = {a, b};
  return add_once(std::move(node));
}

int ExpressionGraph::selected(int condition, int if_true, int if_false) {
  ExpressionNode node;
  node.opcode = HloOpcode::kSelect;
  node.shape = space_shape_;
  node.shape.type = nodes_[static_cast<std::size_t>(if_true)].shape.type;
  node.axes = space_axes_;
  node.operands = {condition, if_true, if_false};
  node.name = kernel_name_;
  return add_once(std::move(node));
}

/// The operand where it reaches, the padding value elsewhere.
int ExpressionGraph::visit_pad(const hlo::HloInstruction& pad, const std::vector<int>& axes) {
  std::vector<std::int64_t> starts;
  for (std::size_t d = 0; d < pad.padding.size(); ++d) {
    const hlo::PaddingDimension& sides = pad.padding[d];
    starts.push_back(-sides.low);
    if (sides.interior != 0) refuse(pad, "inside a fusion elements are padded at the ends");
    const bool is_padded = sides.low != 0 || sides.high != 0;
    if (is_padded && (axes[d] == kNoAxis || away_.wraps_along(axes[d]))) {
      refuse(pad, "padding along no axis of the kernel");
    }
  }
  const bool turns = turns_lanes(pad, axes);
  const int value =
      turns ? moved_in_lanes(pad.operands[0],
                             std::accumulate(starts.begin(), starts.end(), std::int64_t{0}), axes)
            : visit_away(pad.operands[0], starts, {}, axes, pad);
  const int padding = visit(pad.operands[1], {});
  int inside = -1;
  const auto also = [&](int test) {
    if (test < 0) return;
    inside = inside < 0 ? test : both(inside, test);
  };
  for (std::size_t d = 0; d < pad.padding.size(); ++d) {
    const hlo::PaddingDimension& sides = pad.padding[d];
    const std::int64_t end = pad.shape.dimensions[d] - sides.high;
    if (sides.low > 0) {
      also(add_position_test(axes[d], hlo::ComparisonDirection::kGe, sides.low));
    }
    if (sides.high > 0) also(add_position_test(axes[d], hlo::ComparisonDirection::kLt, end));
  }
  return inside < 0 ? value : selected(inside, value, padding);
}

/// How far an array is rolled along its one dimension that a concatenation cuts: two slices of it,
/// the latter part before the former one, in whole tiles. 0: it is no such concatenation.
std::int64_t ExpressionGraph::rolled_by(const hlo::HloInstruction& concatenate) const {
  const auto dimension = static_cast<std::size_t>(concatenate.dimensions.front());
  if (concatenate.operands.size() != 2 || space_.linear) return 0;
  const hlo::HloInstruction& upper = fused_.at(concatenate.operands[0]);
  const hlo::HloInstruction& lower = fused_.at(concatenate.operands[1]);
  for (const hlo::HloInstruction* part : {&upper, &lower}) {
    if (part->opcode != HloOpcode::kSlice || !moves_by_shifts(fused_, *part)) return 0;
  }
  const hlo::Shape& array = fused_.at(upper.operands[0]).shape;
  if (upper.operands[0] != lower.operands[0] || array.dimensions != concatenate.shape.dimensions) {
    return 0;
  }
  const int axis = space_axes_[dimension];
  const std::int64_t in_tile = axis == space_.lane_axis()  ? isa::kLanes
                               : axis == space_.row_axis() ? isa::kSublanes
                                                           : 1;
  const std::int64_t end = lower.shape.dimensions[dimension];
  const bool is_roll = upper.slice->starts[dimension] == end && lower.slice->starts[dimension] == 0;
  const bool has_all = array.dimensions[dimension] == space_.extent(axis);
  return is_roll && has_all && space_.extent(axis) % in_tile == 0 ? end : 0;
}

/// What a roll makes of an array: all of it, of which what is behind its end stands at its begin.
int ExpressionGraph::visit_rolled(const hlo::HloInstruction& concatenate, std::int64_t by,
                                  const std::vector<int>& axes) {
  const auto dimension = static_cast<std::size_t>(concatenate.dimensions.front());
  const auto axis = static_cast<std::size_t>(axes[dimension]);
  const Distance before = away_;
  away_.resize(space_.rank());
  away_.by[axis] = (away_.by[axis] + by) % space_.extent(axes[dimension]);
  away_.wraps[axis] = true;
  const int value = visit(fused_.at(concatenate.operands[0]).operands[0], axes);
  away_ = before;
  return value;
}

int ExpressionGraph::visit_concatenate(const hlo::HloInstruction& concatenate,
                                       const std::vector<int>& axes) {
  const auto dimension = static_cast<std::size_t>(concatenate.dimensions.front());
  const int axis = axes[dimension];
  const bool turns = turns_lanes(concatenate, axes);
  const std::int64_t rolled = turns || axes != space_axes_ ? 0 : rolled_by(concatenate);
  const bool is_in_roll = axis != kNoAxis && away_.wraps_along(axis);
  if (rolled > 0 && (is_in_roll || away_.along({axis}).is_none())) {
    return visit_rolled(concatenate, rolled, axes);
  }
  if (is_in_roll || axis == kNoAxis) refuse(concatenate, "what is rolled is another kernel");
  std::int64_t begin = 0;
  int result = -1;
  std::vector<std::int64_t> starts(axes.size(), 0);
  for (hlo::InstructionId part : concatenate.operands) {
    starts[dimension] = -begin;
    const int value = turns ? moved_in_lanes(part, -begin, axes)
                            : visit_away(part, starts, {}, axes, concatenate);
    if (result < 0) {
      result = value;
    } else {
      const int is_before = add_position_test(axis, hlo::ComparisonDirection::kLt, begin);
      if (is_before >= 0) {
        result = selected(is_before, result, value);
      }
    }
    begin += fused_.at(part).shape.dimensions[dimension];
  }
  return result;
}

}  // namespace tpu::compiler
