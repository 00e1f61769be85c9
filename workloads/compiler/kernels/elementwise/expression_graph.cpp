#include "workloads/compiler/kernels/elementwise/expression_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/lane_moves.h"
#include "workloads/compiler/ir/tile_row.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/elementwise/expression.h"

namespace tpu::compiler {

namespace {

using hlo::HloOpcode;

/// Operations that compute an element from the elements at the same place, and their operands.
/// The bits that every element of a literal has, widened to 32 (bf16 as fp32, pred as 0 or 1);
/// false when the elements differ or the type has no such form.
bool splat_bits(const hlo::HloInstruction& constant, std::uint32_t& bits) {
  const int bytes = hlo::byte_size(constant.shape.type);
  const std::vector<std::uint8_t>& literal = constant.literal;
  if (bytes <= 0 || bytes > 4 || literal.size() < static_cast<std::size_t>(bytes)) return false;
  const std::size_t width = static_cast<std::size_t>(bytes);
  for (std::size_t i = width; i + width <= literal.size(); i += width) {
    if (std::memcmp(literal.data(), literal.data() + i, width) != 0) return false;
  }
  bits = 0;
  for (std::size_t i = 0; i < width; ++i) bits |= std::uint32_t{literal[i]} << (8 * i);
  switch (constant.shape.type) {
    case hlo::ElementType::kBf16:
      bits <<= 16;
      return true;
    case hlo::ElementType::kS8:
      bits = static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<std::int8_t>(bits)));
      return true;
    case hlo::ElementType::kF16:
    case hlo::ElementType::kS16:
      return false;
    default:
      return true;
  }
}

}  // namespace

VectorCost vector_cost_of(const ExpressionNode& node) {
  if (node.opcode == HloOpcode::kParameter || node.opcode == HloOpcode::kConstant) return {};
  if (node.row >= 0 || node.in_rows || joins_lane_tiles(node)) return {0.5, 1};
  if (node.opcode == HloOpcode::kSlice) return {kTurnedLanesCycles, 1};
  if (node.in_tile) return {kCombinedRowsCycles, kCombinedRowsInstructions};
  // Reductions, selections of what stands in a register and the like are one instruction.
  const VectorCost cost = vector_cost(node.opcode, node.shape.type);
  return {std::max(0.5, cost.cycles), std::max(1.0, cost.instructions)};
}

hlo::Computation computation_of(const hlo::Module& module, const hlo::Computation& computation,
                                const hlo::HloInstruction& instruction) {
  if (instruction.opcode == HloOpcode::kFusion) {
    TPU_CHECK(!instruction.called.empty(), "fusion " << instruction.name << " calls nothing");
    return module.computation(instruction.called.front());
  }
  hlo::Computation made;
  made.name = instruction.name;
  hlo::HloInstruction copy = instruction;
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    const hlo::HloInstruction& operand = computation.at(instruction.operands[i]);
    hlo::HloInstruction parameter;
    parameter.id = static_cast<hlo::InstructionId>(i);
    parameter.name = operand.name;
    parameter.shape = operand.shape;
    parameter.opcode = HloOpcode::kParameter;
    parameter.parameter_number = static_cast<std::int64_t>(i);
    if (operand.opcode == HloOpcode::kConstant && operand.shape.rank() == 0) {
      parameter.opcode = HloOpcode::kConstant;
      parameter.literal = operand.literal;
    }
    made.instructions.push_back(std::move(parameter));
    copy.operands[i] = static_cast<hlo::InstructionId>(i);
  }
  copy.id = static_cast<hlo::InstructionId>(instruction.operands.size());
  copy.control_predecessors.reset();
  made.root = copy.id;
  made.instructions.push_back(std::move(copy));
  return made;
}

std::int64_t IterationSpace::majors() const {
  if (linear) return 1;
  std::int64_t product = 1;
  for (int axis = 0; axis < row_axis(); ++axis) product *= extents[static_cast<std::size_t>(axis)];
  return product;
}

std::int64_t IterationSpace::row_tiles() const {
  if (linear) {
    return extents.empty() ? 1 : ceil_divide(extents.front(), isa::kSublanes * isa::kLanes);
  }
  return ceil_divide(rows(), isa::kSublanes);
}

std::int64_t IterationSpace::lane_tiles() const {
  return linear ? 1 : ceil_divide(extents.back(), isa::kLanes);
}

ExpressionGraph::ExpressionGraph(const hlo::Module& module, const hlo::Computation& fused,
                                 std::string kernel_name)
    : module_(module), fused_(fused), kernel_name_(std::move(kernel_name)) {
  choose_space();
  turns_from_behind_ = turns_from_behind();
  const hlo::HloInstruction& root = fused_.at(fused_.root);
  std::vector<hlo::InstructionId> results{fused_.root};
  if (root.opcode == HloOpcode::kTuple) results = root.operands;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const hlo::HloInstruction& result = fused_.at(results[i]);
    const std::vector<ArrayPart> parts = computed_parts(fused_, result);
    if (parts.empty()) add_root(result.id, i, {});
    for (std::size_t k = 0; k < parts.size(); ++k) add_root(result.operands[k], i, parts[k]);
  }
}

void ExpressionGraph::add_root(hlo::InstructionId value, std::size_t result,
                               const ArrayPart& part) {
  if (space_.linear && is_stack_of_vectors(fused_, fused_.at(value))) {
    roots_.push_back(visit_stack(fused_.at(value)));
    root_shapes_.push_back(node(roots_.back()).shape);
    root_parts_.push_back(part);
    root_results_.push_back(result);
    return;
  }
  const std::vector<int> axes = root_axes(value);
  roots_.push_back(visit(value, axes));
  root_shapes_.push_back(widened(fused_.at(value).shape, axes));
  root_parts_.push_back(part);
  root_results_.push_back(result);
}

void ExpressionGraph::refuse(const hlo::HloInstruction& instruction, const std::string& why) const {
  std::string operands;
  for (hlo::InstructionId operand : instruction.operands) {
    if (!operands.empty()) operands += ", ";
    operands += hlo::to_string(fused_.at(operand).shape);
  }
  throw WorkloadError("no kernel for " + std::string(hlo::to_string(instruction.opcode)) + " (" +
                      operands + ") -> " + hlo::to_string(instruction.shape) + " \"" +
                      instruction.name + "\" in " + kernel_name_ + ": " + why);
}

/// What an elementwise operation makes of a result, or of a part of it.
hlo::InstructionId ExpressionGraph::computed_by(hlo::InstructionId result) const {
  const hlo::HloInstruction& instruction = fused_.at(result);
  if (is_stack_of_vectors(fused_, instruction)) {
    return stacked_vectors(fused_, instruction).front();
  }
  return computed_parts(fused_, instruction).empty() ? result : instruction.operands.front();
}

void ExpressionGraph::choose_space() {
  const hlo::HloInstruction* anchor = nullptr;
  for (const hlo::HloInstruction& instruction : fused_.instructions) {
    if (instruction.opcode != HloOpcode::kReduce) continue;
    if (instruction.operands.size() != 2) refuse(instruction, "expected one array to reduce");
    const hlo::HloInstruction& operand = fused_.at(instruction.operands.front());
    if (anchor != nullptr && !hlo::same_extent(anchor->shape, operand.shape) &&
        anchor->shape.dimensions != operand.shape.dimensions &&
        !lie_in_same_tiles(anchor->shape, operand.shape)) {
      refuse(instruction, "expected the reductions of a kernel to share one extent, found " +
                              hlo::to_string(anchor->shape) + " and " +
                              hlo::to_string(operand.shape));
    }
    if (anchor == nullptr || anchor->shape.layout.minor_to_major.empty()) anchor = &operand;
  }
  if (anchor == nullptr) {
    const HloOpcode opcode = fused_.at(fused_.root).opcode;
    const hlo::InstructionId first =
        opcode == HloOpcode::kTuple ? fused_.at(fused_.root).operands.front() : fused_.root;
    anchor = &fused_.at(computed_by(first));
  }
  space_shape_ = anchor->shape;
  if (space_shape_.layout.minor_to_major.empty()) {
    for (const hlo::HloInstruction& instruction : fused_.instructions) {
      if (instruction.shape.dimensions == space_shape_.dimensions &&
          !instruction.shape.layout.minor_to_major.empty()) {
        space_shape_.layout = instruction.shape.layout;
        break;
      }
    }
  }
  widen_space();
  space_.extents = physical_extents(space_shape_);
  space_.linear = space_.rank() < 2;
  const std::vector<std::int64_t> order = major_to_minor(space_shape_);
  space_axes_.resize(order.size());
  for (std::size_t axis = 0; axis < order.size(); ++axis) {
    space_axes_[static_cast<std::size_t>(order[axis])] = static_cast<int>(axis);
  }
}

/// As wide as the widest value that lies in the same tiles. Of an operand that is sliced nobody
/// sees more than the slice.
void ExpressionGraph::widen_space() {
  const auto widen = [this](hlo::InstructionId id) {
    const hlo::Shape& shape = fused_.at(id).shape;
    if (!lie_in_same_tiles(shape, space_shape_)) return;
    const auto lanes = static_cast<std::size_t>(space_shape_.layout.minor_to_major[0]);
    std::int64_t& extent = space_shape_.dimensions[lanes];
    extent = std::max(extent, shape.dimensions[lanes]);
  };
  for (const hlo::HloInstruction& instruction : fused_.instructions) {
    if (instruction.opcode == HloOpcode::kParameter) continue;
    widen(instruction.id);
    if (instruction.opcode == HloOpcode::kReduce) widen(instruction.operands[0]);
  }
}

/// The same tiles with all lanes of the space.
hlo::Shape ExpressionGraph::widened(hlo::Shape shape, const std::vector<int>& axes) const {
  for (std::size_t d = 0; !space_.linear && d < axes.size(); ++d) {
    if (axes[d] != space_.lane_axis()) continue;
    shape.dimensions[d] = space_.extent(axes[d]);
  }
  return shape;
}

/// A result lies in the space, or stands behind a reduction: then its dimensions are those that
/// the reduction keeps.
std::vector<int> ExpressionGraph::root_axes(hlo::InstructionId root) const {
  const hlo::HloInstruction& result = fused_.at(root);
  const bool is_of_space = result.shape.dimensions == space_shape_.dimensions ||
                           lie_in_same_tiles(result.shape, space_shape_);
  if (is_of_space) return space_axes_;
  std::vector<hlo::InstructionId> work{root};
  std::vector<bool> seen(fused_.instructions.size(), false);
  while (!work.empty()) {
    const hlo::HloInstruction& instruction = fused_.at(work.back());
    work.pop_back();
    if (seen[static_cast<std::size_t>(instruction.id)]) continue;
    seen[static_cast<std::size_t>(instruction.id)] = true;
    if (instruction.shape.dimensions != result.shape.dimensions) continue;
    if (instruction.opcode == HloOpcode::kReduce) return kept_axes(instruction);
    if (instruction.opcode == HloOpcode::kBroadcast) continue;
    work.insert(work.end(), instruction.operands.rbegin(), instruction.operands.rend());
  }
  refuse(result, "expected a result with the extent " + hlo::to_string(space_shape_, false) +
                     " or a reduction of it");
}

std::vector<int> ExpressionGraph::kept_axes(const hlo::HloInstruction& reduction) const {
  std::vector<int> axes;
  for (std::size_t i = 0; i < space_axes_.size(); ++i) {
    const std::vector<std::int64_t>& reduced = reduction.dimensions;
    if (std::find(reduced.begin(), reduced.end(), static_cast<std::int64_t>(i)) == reduced.end()) {
      axes.push_back(space_axes_[i]);
    }
  }
  return axes;
}

int ExpressionGraph::add(ExpressionNode node) {
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

/// An operation on the same values as another one is that one: a selection by position is asked for
/// by pads, concatenations and what the program itself compares.
int ExpressionGraph::add_once(ExpressionNode node) {
  const auto is_same_selection = [&](int value) {
    const ExpressionNode& other = nodes_[static_cast<std::size_t>(value)];
    return other.opcode == HloOpcode::kSelect && other.operands[0] == node.operands[0];
  };
  if (node.opcode == HloOpcode::kSelect) {
    for (std::size_t i = 1; i <= 2; ++i) {
      int& chosen = node.operands[i];
      if (is_same_selection(chosen)) chosen = nodes_[static_cast<std::size_t>(chosen)].operands[i];
    }
  }
  for (const ExpressionNode& other : nodes_) {
    if (other.opcode == node.opcode && other.shape.type == node.shape.type &&
        other.operands == node.operands && other.axes == node.axes && other.axis == node.axis &&
        other.direction == node.direction && other.bits == node.bits && other.shift == node.shift &&
        other.row == node.row && other.attributes == node.attributes) {
      return static_cast<int>(&other - nodes_.data());
    }
  }
  return add(std::move(node));
}

/// Axes of the operand's dimensions: a reshape keeps the order of those that are not one, a bitcast
/// the order in which they lie.
std::vector<int> ExpressionGraph::operand_axes_of_reshape(const hlo::HloInstruction& reshape,
                                                          const std::vector<int>& axes) const {
  const hlo::Shape &from = fused_.at(reshape.operands[0]).shape, &to = reshape.shape;
  const auto dimensions_in_order = [&](const hlo::Shape& shape) {
    std::vector<std::int64_t> order(shape.dimensions.size());
    std::iota(order.begin(), order.end(), 0);
    if (reshape.opcode == HloOpcode::kBitcast) order = major_to_minor(shape);
    const auto is_one = [&](std::int64_t d) {
      return shape.dimensions[static_cast<std::size_t>(d)] == 1;
    };
    order.erase(std::remove_if(order.begin(), order.end(), is_one), order.end());
    return order;
  };
  const std::vector<std::int64_t> given = dimensions_in_order(from), made = dimensions_in_order(to);
  bool same = given.size() == made.size();
  std::vector<int> result(from.dimensions.size(), kNoAxis);
  for (std::size_t i = 0; same && i < given.size(); ++i) {
    const auto g = static_cast<std::size_t>(given[i]), m = static_cast<std::size_t>(made[i]);
    same = from.dimensions[g] == to.dimensions[m];
    result[g] = axes[m];
  }
  if (!same) refuse(reshape, "inside a fusion a reshape may only add or remove dimensions of 1");
  return result;
}

int ExpressionGraph::visit_parameter(hlo::InstructionId id, const hlo::Shape& shape,
                                     const std::vector<int>& axes, const ArrayPart& part) {
  const bool is_elsewhere = part == ArrayPart{} && has_other_tiles(shape, axes);
  const bool is_around = is_joined_ && axes == space_axes_;
  if (!away_.is_none() || is_elsewhere || is_around) return shifted_parameter(id, shape, axes);
  const hlo::HloInstruction& instruction = fused_.at(id);
  ExpressionNode node;
  node.opcode = HloOpcode::kParameter;
  node.part = part;
  node.shape = widened(shape, axes);
  node.axes = axes;
  node.parameter = instruction.parameter_number;
  node.name = instruction.name;
  for (const ExpressionNode& other : nodes_) {
    if (other.opcode == HloOpcode::kParameter && other.parameter == node.parameter &&
        other.axes == node.axes && other.shape.dimensions == node.shape.dimensions &&
        other.part == part && other.shift.empty()) {
      return static_cast<int>(&other - nodes_.data());
    }
  }
  return add(std::move(node));
}

/// A reshape of an element, or of a row, of an operand; -1: it is neither.
int ExpressionGraph::visit_part_in_tiles(const hlo::HloInstruction& reshape,
                                         const std::vector<int>& axes) {
  const hlo::HloInstruction& operand = fused_.at(reshape.operands[0]);
  const bool is_slice = operand.opcode == HloOpcode::kSlice &&
                        fused_.at(operand.operands[0]).opcode == HloOpcode::kParameter;
  if (reshape.shape.rank() == 0 && is_slice) return visit_element(operand);
  const bool is_row = space_.linear && axes == space_axes_ && vector_in_rows(fused_, reshape);
  return is_row ? visit_row(reshape, axes) : -1;
}

/// A vector that stands in a row of an array's tiles.
int ExpressionGraph::visit_row(const hlo::HloInstruction& reshape, const std::vector<int>& axes) {
  const std::optional<VectorInRows> found = vector_in_rows(fused_, reshape);
  if (!found) refuse(reshape, "expected a row of an operand's tiles");
  ArrayPart part;
  part.granule = found->place.granule;
  const int tiles =
      visit_parameter(found->array, found->place.tiles, {kNoAxis, axes.front()}, part);
  nodes_[static_cast<std::size_t>(tiles)].in_rows = true;
  ExpressionNode node;
  node.opcode = HloOpcode::kSlice;
  node.shape = reshape.shape;
  node.axes = axes;
  node.operands = {tiles};
  node.row = found->place.row;
  node.name = reshape.name;
  return add(std::move(node));
}

/// One element of an operand.
int ExpressionGraph::visit_element(const hlo::HloInstruction& slice) {
  const hlo::HloInstruction& array = fused_.at(slice.operands[0]);
  const std::optional<TileElement> element = tile_element_of(array.shape, slice);
  if (!element) refuse(slice, "expected an element of an operand");
  ExpressionNode node;
  node.opcode = HloOpcode::kParameter;
  node.shape = element->tile;
  node.axes = {kNoAxis, kNoAxis};
  node.parameter = array.parameter_number;
  node.begin = element->granule;
  node.element_row = element->row;
  node.element_lane = element->lane;
  node.name = slice.name;
  return add(std::move(node));
}

/// A result whose rows are vectors.
int ExpressionGraph::visit_stack(const hlo::HloInstruction& stack) {
  ExpressionNode node;
  node.opcode = HloOpcode::kConcatenate;
  for (const hlo::InstructionId vector : stacked_vectors(fused_, stack)) {
    node.operands.push_back(visit(vector, space_axes_));
  }
  node.shape = hlo::array_shape(
      stack.shape.type, {static_cast<std::int64_t>(node.operands.size()), space_.extent(0)});
  node.shape.layout = tiled_layout(stack.shape.type, {1, 0});
  node.axes = {kNoAxis, space_axes_.front()};
  node.in_rows = true;
  node.name = stack.name;
  return add(std::move(node));
}

/// What a sum along all lanes of the space may add: the value's own `lanes`.
int ExpressionGraph::without_others_lanes(int value, std::int64_t lanes, HloOpcode reducer) {
  const hlo::ElementType type = nodes_[static_cast<std::size_t>(value)].shape.type;
  const int is_own = position_test(space_.lane_axis(), hlo::ComparisonDirection::kLt, lanes);
  const int nothing = add_operation(HloOpcode::kConstant, type, {});
  nodes_.back().bits = identity_bits(reducer, !is_floating(type));
  return add_operation(HloOpcode::kSelect, type, {is_own, value, nothing});
}

int ExpressionGraph::add_operation(HloOpcode opcode, hlo::ElementType type,
                                   std::vector<int> operands) {
  ExpressionNode node;
  node.opcode = opcode;
  node.shape = space_shape_;
  node.shape.type = type;
  node.axes = space_axes_;
  node.operands = std::move(operands);
  node.name = kernel_name_;
  return add(std::move(node));
}

int ExpressionGraph::visit_constant(hlo::InstructionId id, const std::vector<int>& axes) {
  const hlo::HloInstruction& instruction = fused_.at(id);
  ExpressionNode node;
  node.opcode = HloOpcode::kConstant;
  node.shape = widened(instruction.shape, axes);
  node.axes = axes;
  node.name = instruction.name;
  if (!splat_bits(instruction, node.bits)) {
    refuse(instruction,
           "expected a constant of equal elements of at most 32 bits; others must be "
           "operands in HBM");
  }
  return add(std::move(node));
}

int ExpressionGraph::visit_reduce(hlo::InstructionId id, const std::vector<int>& axes,
                                  std::size_t position) {
  const hlo::HloInstruction& instruction = fused_.at(id);
  if (!away_.is_none() || is_joined_) {
    refuse(instruction, "expected sums of the points at hand");
  }
  ExpressionNode node;
  node.opcode = HloOpcode::kReduce;
  node.axes = axes;
  node.name = instruction.name;
  const hlo::Computation& to_apply = module_.computation(instruction.called.at(position));
  node.reducer = to_apply.at(to_apply.root).opcode;
  const std::vector<hlo::InstructionId>& arguments = to_apply.at(to_apply.root).operands;
  const bool plain = arguments.size() == 2 && arguments[0] != arguments[1] &&
                     to_apply.at(arguments[0]).opcode == HloOpcode::kParameter &&
                     to_apply.at(arguments[1]).opcode == HloOpcode::kParameter;
  if (!plain || (node.reducer != HloOpcode::kAdd && node.reducer != HloOpcode::kMaximum &&
                 node.reducer != HloOpcode::kMinimum)) {
    refuse(instruction, "expected a reduction by add, maximum or minimum");
  }
  std::vector<int> operand_axes = space_axes_;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < space_axes_.size(); ++i) {
    const std::vector<std::int64_t>& reduced = instruction.dimensions;
    if (std::find(reduced.begin(), reduced.end(), static_cast<std::int64_t>(i)) != reduced.end()) {
      node.reduced_axes.push_back(space_axes_[i]);
    } else if (kept >= axes.size() ||
               (axes[kept] != space_axes_[i] &&
                !(axes[kept] == kNoAxis && instruction.shape.dimensions[kept] == 1))) {
      refuse(instruction,
             "its result is broadcast along other dimensions than it was reduced from");
    } else {
      node.axes[kept++] = space_axes_[i];
    }
  }
  node.shape = widened(instruction.shape, node.axes);
  const int init = visit(instruction.operands[1], {});
  if (nodes_[static_cast<std::size_t>(init)].opcode != HloOpcode::kConstant) {
    refuse(instruction, "expected a constant initial value");
  }
  node.bits = nodes_[static_cast<std::size_t>(init)].bits;
  node.operands = {visit(instruction.operands[0], operand_axes)};
  const hlo::Shape& operand = fused_.at(instruction.operands[0]).shape;
  if (!space_.linear && contains(node.reduced_axes, space_.lane_axis()) &&
      physical_extents(operand).back() != space_.lanes()) {
    node.operands = {
        without_others_lanes(node.operands[0], physical_extents(operand).back(), node.reducer)};
  }
  return add(std::move(node));
}

int ExpressionGraph::visit(hlo::InstructionId id, const std::vector<int>& axes) {
  const Distance outer = std::exchange(away_, away_.along(axes));
  const Visit key{id, axes, away_.by, away_.step, away_.wraps, is_joined_};
  const auto found = known_.find(key);
  const int value = found != known_.end() ? found->second : visit_anew(id, axes);
  known_[key] = value;
  away_ = outer;
  return value;
}

int ExpressionGraph::visit_anew(hlo::InstructionId id, const std::vector<int>& axes) {
  const hlo::HloInstruction& instruction = fused_.at(id);
  if (turns_whole(instruction, axes)) return turned_whole(id, axes);
  int result = -1;
  switch (instruction.opcode) {
    case HloOpcode::kParameter:
      result = visit_parameter(id, instruction.shape, axes);
      break;
    case HloOpcode::kConstant:
      result = visit_constant(id, axes);
      break;
    case HloOpcode::kReduce:
      result = visit_reduce(id, axes, 0);
      break;
    case HloOpcode::kBroadcast: {
      std::vector<int> operand_axes;
      for (std::int64_t dimension : instruction.dimensions) {
        operand_axes.push_back(axes[static_cast<std::size_t>(dimension)]);
      }
      result = visit(instruction.operands[0], operand_axes);
      break;
    }
    case HloOpcode::kSlice:
      result = visit_slice(instruction, axes);
      break;
    case HloOpcode::kPad:
      result = visit_pad(instruction, axes);
      break;
    case HloOpcode::kConcatenate:
      result = visit_concatenate(instruction, axes);
      break;
    case HloOpcode::kBitcast:
    case HloOpcode::kReshape:
    case HloOpcode::kCopy: {
      const hlo::HloInstruction& operand = fused_.at(instruction.operands[0]);
      if (instruction.opcode == HloOpcode::kBitcast && operand.opcode == HloOpcode::kParameter) {
        result = visit_parameter(instruction.operands[0], instruction.shape, axes);
        break;
      }
      if (const int part = visit_part_in_tiles(instruction, axes); part >= 0) {
        result = part;
        break;
      }
      const std::vector<int> operand_axes = operand_axes_of_reshape(instruction, axes);
      result = visit(instruction.operands[0], operand_axes);
      break;
    }
    default: {
      ExpressionNode node;
      node.opcode = instruction.opcode;
      node.shape = widened(instruction.shape, axes);
      node.axes = axes;
      node.direction = instruction.direction;
      node.attributes = instruction.raw_attributes;
      node.name = instruction.name;
      if (instruction.opcode == HloOpcode::kIota) {
        const std::int64_t dimension =
            instruction.dimensions.empty() ? 0 : instruction.dimensions.front();
        node.axis = axes[static_cast<std::size_t>(dimension)];
      } else if (!hlo::is_elementwise(instruction.opcode)) {
        refuse(instruction, "it is neither elementwise nor a reduction");
      }
      for (hlo::InstructionId operand : instruction.operands) {
        const bool scalar = fused_.at(operand).shape.rank() == 0;
        node.operands.push_back(visit(operand, scalar ? std::vector<int>{} : axes));
      }
      result = add_once(std::move(node));
      const bool is_position = instruction.opcode == HloOpcode::kIota;
      if (is_position && !away_.is_none()) result = position_away(result, instruction);
    }
  }
  return result;
}

bool ExpressionGraph::is_full(const ExpressionNode& node) const {
  for (int axis = 0; axis < space_.rank(); ++axis) {
    if (space_.extents[static_cast<std::size_t>(axis)] == 1) continue;
    if (std::find(node.axes.begin(), node.axes.end(), axis) == node.axes.end()) return false;
  }
  return true;
}

void ExpressionGraph::combine_rows_in_tiles() {
  if (space_.linear || space_.rank() < 2 || space_.row_tiles() != 1 || space_.rows() == 1) return;
  const auto is_along_rows = [this](const ExpressionNode& each) {
    std::vector<int> long_axes;
    for (const int axis : each.reduced_axes) {
      if (space_.extent(axis) > 1) long_axes.push_back(axis);
    }
    return each.opcode == HloOpcode::kReduce && long_axes == std::vector<int>{space_.row_axis()};
  };
  std::vector<bool> is_used(nodes_.size(), false);
  for (const ExpressionNode& each : nodes_) {
    for (const int operand : each.operands) is_used[static_cast<std::size_t>(operand)] = true;
  }
  std::vector<int> results;
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    if (is_full_root(i)) is_used[static_cast<std::size_t>(roots_[i])] = true;
    if (!is_full_root(i)) results.push_back(roots_[i]);
  }
  const std::vector<int> kept = below(results);  // Up to what smaller results are sums of.
  for (std::size_t id = 0; id < nodes_.size(); ++id) {
    const bool is_kept = contains(kept, static_cast<int>(id));
    nodes_[id].in_tile = is_along_rows(nodes_[id]) && is_used[id] && !is_kept;
  }
}

std::vector<int> ExpressionGraph::below(const std::vector<int>& ids) const {
  std::vector<bool> wanted(nodes_.size(), false);
  std::vector<int> stack = ids;
  while (!stack.empty()) {
    const int id = stack.back();
    stack.pop_back();
    if (wanted[static_cast<std::size_t>(id)]) continue;
    wanted[static_cast<std::size_t>(id)] = true;
    if (is_reduction(node(id))) continue;
    for (int operand : node(id).operands) stack.push_back(operand);
  }
  std::vector<int> order;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (wanted[i]) order.push_back(static_cast<int>(i));
  }
  return order;
}

}  // namespace tpu::compiler
