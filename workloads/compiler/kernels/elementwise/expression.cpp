#include "workloads/compiler/kernels/elementwise/expression.h"

#include <cmath>
#include <cstdlib>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/elementwise/float_bits.h"
#include "workloads/compiler/kernels/elementwise/integer_arithmetic.h"
#include "workloads/compiler/kernels/elementwise/transcendental.h"
#include "workloads/compiler/kernels/elementwise/trigonometry.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;
using hlo::HloOpcode;
using isa::Opcode;

float as_float(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::uint32_t bits_of(const VectorOperand& operand) { return operand.immediate; }

Opcode comparison(hlo::ComparisonDirection direction, bool floating) {
  switch (direction) {
    case hlo::ComparisonDirection::kEq:
      return floating ? Opcode::kVcmpEqF32 : Opcode::kVcmpEqS32;
    case hlo::ComparisonDirection::kNe:
      return floating ? Opcode::kVcmpNeF32 : Opcode::kVcmpNeS32;
    case hlo::ComparisonDirection::kLt:
      return floating ? Opcode::kVcmpLtF32 : Opcode::kVcmpLtS32;
    case hlo::ComparisonDirection::kLe:
      return floating ? Opcode::kVcmpLeF32 : Opcode::kVcmpLeS32;
    case hlo::ComparisonDirection::kGt:
      return floating ? Opcode::kVcmpGtF32 : Opcode::kVcmpGtS32;
    case hlo::ComparisonDirection::kGe:
      return floating ? Opcode::kVcmpGeF32 : Opcode::kVcmpGeS32;
  }
  return Opcode::kVcmpEqF32;
}

/// Of one operand, where a small difference makes a large one.
bool has_steps(HloOpcode opcode) {
  return opcode == HloOpcode::kFloor || opcode == HloOpcode::kCeil ||
         opcode == HloOpcode::kRoundNearestAfz || opcode == HloOpcode::kRoundNearestEven;
}

}  // namespace

bool is_floating(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kBf16 || type == ElementType::kF16 ||
         type == ElementType::kF64;
}

ExpressionEmitter::ExpressionEmitter(KernelBuilder& builder, const ExpressionGraph& graph,
                                     Source source)
    : builder_(builder),
      graph_(graph),
      source_(std::move(source)),
      dependence_(graph.nodes().size()),
      is_read_(graph.nodes().size()),
      is_read_back_(graph.nodes().size()) {
  for (const ExpressionNode& node : graph.nodes()) {
    for (int operand : node.operands) is_read_[static_cast<std::size_t>(operand)] = true;
    is_given_.push_back(node.opcode == HloOpcode::kParameter || is_reduction(node) ||
                        node.row >= 0);
  }
  is_reciprocal_given_.resize(is_given_.size());
  for (const int root : graph.roots()) {
    const auto id = static_cast<std::size_t>(root);
    is_read_back_[id] = is_read_[id] && !is_rounded(root);
  }
}

void ExpressionEmitter::set_dependence(int node, Dependence dependence) {
  dependence_[static_cast<std::size_t>(node)] = dependence;
}

void ExpressionEmitter::infer() {
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    const ExpressionNode& node = graph_.nodes()[i];
    if (is_reduction(node) || node.opcode == HloOpcode::kParameter) continue;
    if (node.opcode == HloOpcode::kIota) {
      const bool lanes = graph_.space().linear || node.axis == graph_.space().lane_axis();
      dependence_[i].lanes = lanes;
      dependence_[i].rows = graph_.space().linear || (node.axis != kNoAxis && !lanes);
      continue;
    }
    for (int operand : node.operands) {
      dependence_[i].lanes |= dependence(operand).lanes;
      dependence_[i].rows |= dependence(operand).rows;
      dependence_[i].majors |= dependence(operand).majors;
    }
  }
}

void ExpressionEmitter::set_given(int node, bool is_given) {
  is_given_[static_cast<std::size_t>(node)] = is_given;
}

void ExpressionEmitter::set_reciprocal_given(int node, bool is_given) {
  is_reciprocal_given_[static_cast<std::size_t>(node)] = is_given;
}

void ExpressionEmitter::forget() {
  known_.clear();
  lane_index_ = {};
  sublane_index_ = {};
  element_index_ = {};
}

VReg ExpressionEmitter::element_index() {
  if (!element_index_) element_index_ = builder_.lane_sequence();
  return element_index_;
}

VReg ExpressionEmitter::lane_index() {
  if (!lane_index_) lane_index_ = builder_.and_(element_index(), 127);
  return lane_index_;
}

VReg ExpressionEmitter::sublane_index() {
  if (!sublane_index_) sublane_index_ = builder_.shift_right(element_index(), 7);
  return sublane_index_;
}

void ExpressionEmitter::refuse(const ExpressionNode& node, const std::string& why) const {
  std::string operands;
  for (int operand : node.operands) {
    if (!operands.empty()) operands += ", ";
    operands += hlo::to_string(graph_.node(operand).shape);
  }
  throw WorkloadError("no kernel for " + std::string(hlo::to_string(node.opcode)) + " (" +
                      operands + ") -> " + hlo::to_string(node.shape) + " \"" + node.name +
                      "\" in " + graph_.kernel_name() + ": " + why);
}

/// `is_kept`: rows whose value is the same share a register.
ExpressionEmitter::ValueKey ExpressionEmitter::key_of(int id, const Place& place,
                                                      bool is_kept) const {
  const Dependence& needs = dependence(id);
  const bool is_shared = is_kept && !needs.rows;
  const bool is_of_row = (needs.rows || needs.majors || is_shared) && !needs.lanes;
  const int of_matrix = needs.majors ? -2 - place.major_key : -1;
  return {id, is_of_row ? -1 : place.lane_key, is_shared ? of_matrix : place.row_key};
}

ExpressionValue ExpressionEmitter::value(int id, const Place& place) {
  const ExpressionNode& node = graph_.node(id);
  if (node.opcode == HloOpcode::kConstant) return ExpressionValue::of_bits(node.bits);
  const bool is_source = is_given_[static_cast<std::size_t>(id)];
  // A load costs less than a register from row to row, and rows are many.
  const ValueKey key = key_of(id, place, !is_source || dependence(id).is_kept);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  ExpressionValue result = is_source ? source_(id, place) : emit(node, place);
  if (!is_source && is_read_back_[static_cast<std::size_t>(id)] &&
      result.kind == ExpressionValue::Kind::kVector) {
    result = ExpressionValue::of(builder_.round_to_bf16(result.vector));
  }
  known_[key] = result;
  return result;
}

VReg ExpressionEmitter::reciprocal_of(int id, const Place& place) {
  const bool is_source = is_reciprocal_given_[static_cast<std::size_t>(id)];
  ValueKey key = key_of(id, place, !is_source);
  std::get<0>(key) = ~id;
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second.vector;
  const bool is_short = graph_.node(id).shape.type == ElementType::kBf16;
  const VReg reciprocal = is_source ? source_(~id, place).vector
                                    : emit_reciprocal(builder_, vector(id, place), is_short);
  known_[key] = ExpressionValue::of(reciprocal);
  return reciprocal;
}

VReg ExpressionEmitter::in_register(VectorOperand operand) {
  return operand.reg ? operand.reg : builder_.vector(Opcode::kVmov, operand);
}

VectorOperand ExpressionEmitter::operand(int id, const Place& place) {
  const ExpressionValue result = value(id, place);
  switch (result.kind) {
    case ExpressionValue::Kind::kVector:
      return result.vector;
    case ExpressionValue::Kind::kConstant:
      return result.bits;
    case ExpressionValue::Kind::kMask:
      break;
  }
  return builder_.select(result.mask, 1U, 0U);
}

VReg ExpressionEmitter::vector(int id, const Place& place) {
  return in_register(operand(id, place));
}

MReg ExpressionEmitter::mask(int id, const Place& place) {
  const ExpressionValue result = value(id, place);
  switch (result.kind) {
    case ExpressionValue::Kind::kMask:
      return result.mask;
    case ExpressionValue::Kind::kVector:
      return builder_.vector_compare(Opcode::kVcmpNeS32, result.vector, 0);
    case ExpressionValue::Kind::kConstant:
      break;
  }
  const VReg bits = builder_.vector(Opcode::kVmov, result.bits);
  return builder_.vector_compare(Opcode::kVcmpNeS32, bits, 0);
}

ExpressionValue ExpressionEmitter::emit(const ExpressionNode& node, const Place& place) {
  switch (node.opcode) {
    case HloOpcode::kIota:
      return emit_iota(node, place);
    case HloOpcode::kAnd:
    case HloOpcode::kOr:
    case HloOpcode::kXor:
    case HloOpcode::kNot:
      return emit_logical(node, place);
    case HloOpcode::kCompare:
      return emit_compare(node, place);
    case HloOpcode::kSelect:
    case HloOpcode::kClamp:
      return emit_select(node, place);
    case HloOpcode::kConvert:
    case HloOpcode::kBitcastConvert:
    case HloOpcode::kReducePrecision:
      return emit_convert(node, place);
    case HloOpcode::kPower:
      return emit_power(node, place);
    case HloOpcode::kSlice:
      return emit_turned_lanes(node, place);
    case HloOpcode::kConcatenate:
      return emit_joined_lane_tiles(node, place);
    case HloOpcode::kReduce:
      return emit_combined_rows(node, place);
    default:
      break;
  }
  if (node.operands.size() == 2) return emit_binary(node, place);
  if (node.operands.size() == 1) return emit_unary(node, place);
  refuse(node, "expected one or two operands");
}

/// A register whose elements stand in other lanes.
ExpressionValue ExpressionEmitter::emit_turned_lanes(const ExpressionNode& node,
                                                     const Place& place) {
  const ExpressionValue given = value(node.operands[0], place);
  if (given.kind == ExpressionValue::Kind::kConstant) return given;
  const std::int64_t start = node.shift[static_cast<std::size_t>(graph_.space().lane_axis())];
  const auto distance = static_cast<int>(-start & (isa::kLanes - 1));
  return ExpressionValue::of(builder_.rotate_lanes(vector(node.operands[0], place), distance));
}

/// A register whose elements stand in two lane tiles of a value that is turned already. What stands
/// in front of the first lane tile or behind the last one nobody needs.
ExpressionValue ExpressionEmitter::emit_joined_lane_tiles(const ExpressionNode& node,
                                                          const Place& place) {
  const auto lanes = static_cast<std::size_t>(graph_.space().lane_axis());
  const std::int64_t before = node.shift[lanes] & (isa::kLanes - 1);
  const std::int64_t distance = (node.shift[lanes] - before) / isa::kLanes;
  const auto value_at = [&](std::int64_t tiles) -> std::optional<ExpressionValue> {
    Place there = place;
    Index& tile = there.digits[lanes];
    tile = tile.plus(tiles);
    const bool is_inside = tile.offset >= 0 && tile.offset < node.joined_lane_tiles;
    if (tile.is_constant() && !is_inside) return std::nullopt;
    there.lane_key += static_cast<int>(tiles);
    there.rows32.offset += 8 * tiles;
    there.rows16.offset += 4 * tiles;
    return value(node.operands[0], there);
  };
  const std::optional<ExpressionValue> left = value_at(distance);
  if (before == 0) return left.value_or(ExpressionValue::of_bits(0));
  const std::optional<ExpressionValue> right = value_at(distance + 1);
  if (!left || !right) return left ? *left : right.value_or(ExpressionValue::of_bits(0));
  const auto in_vector = [&](const ExpressionValue& value) {
    return value.kind == ExpressionValue::Kind::kConstant ? VectorOperand(value.bits)
                                                          : VectorOperand(value.vector);
  };
  const MReg is_left = builder_.vector_compare(Opcode::kVcmpLtS32, lane_index(),
                                               static_cast<std::uint32_t>(isa::kLanes - before));
  return ExpressionValue::of(builder_.select(is_left, in_vector(*left), in_vector(*right)));
}

/// The rows of the register that belong to the array, combined, in all of its rows.
ExpressionValue ExpressionEmitter::emit_combined_rows(const ExpressionNode& node,
                                                      const Place& place) {
  const bool is_integer = !is_floating(node.shape.type);
  const std::uint32_t identity = identity_bits(node.reducer, is_integer);
  VReg value = vector(node.operands[0], place);
  if (const std::int64_t rows = graph_.space().rows(); rows < isa::kSublanes) {
    const MReg is_row = builder_.vector_compare(Opcode::kVcmpLtS32, sublane_index(),
                                                static_cast<std::uint32_t>(rows));
    value = builder_.select(is_row, value, identity);
  }
  value = combine_sublanes(builder_, node.reducer, is_integer, value);
  if (node.bits == identity) return ExpressionValue::of(value);
  return ExpressionValue::of(combine(builder_, node.reducer, is_integer, value, node.bits));
}

ExpressionValue ExpressionEmitter::emit_iota(const ExpressionNode& node, const Place& place) {
  const IterationSpace& space = graph_.space();
  VReg index;
  if (node.axis == kNoAxis) return ExpressionValue::of_bits(0);
  const Index digit =
      place.digits[static_cast<std::size_t>(node.axis)].plus(node.begin / isa::kLanes);
  const auto offset_by = [&](VReg within, std::int64_t factor) {
    const Index start = multiply(builder_, digit, factor);
    if (start.is_constant()) {
      if (start.offset == 0) return within;
      return builder_.vector(Opcode::kVaddS32, within, static_cast<std::uint32_t>(start.offset));
    }
    return builder_.vector(Opcode::kVaddS32, within, builder_.splat(to_operand(builder_, start)));
  };
  if (space.linear) {
    index = offset_by(element_index(), 1024);
  } else if (node.axis == space.lane_axis()) {
    index = offset_by(lane_index(), 128);
  } else if (node.axis == space.row_axis()) {
    index = offset_by(sublane_index(), 8);
  } else {
    index = builder_.splat(to_operand(builder_, digit));
  }
  if (is_floating(node.shape.type)) index = builder_.vector(Opcode::kVcvtS32F32, index);
  return ExpressionValue::of(index);
}

VReg ExpressionEmitter::integer_extreme(bool maximum, bool is_signed, VectorOperand a,
                                        VectorOperand b) {
  const MReg greater = is_signed ? builder_.vector_compare(Opcode::kVcmpGtS32, in_register(a), b)
                                 : emit_less_u32(builder_, in_register(b), in_register(a));
  return maximum ? builder_.select(greater, a, b) : builder_.select(greater, b, a);
}

ExpressionValue ExpressionEmitter::emit_integer(const ExpressionNode& node, VectorOperand a,
                                                VectorOperand b) {
  const auto plain = [&](Opcode opcode) {
    return ExpressionValue::of(builder_.vector(opcode, in_register(a), b));
  };
  const bool is_signed = node.shape.type == ElementType::kS32;
  if (!is_signed && node.shape.type != ElementType::kU32) refuse(node, "expected s32 or u32");
  switch (node.opcode) {
    case HloOpcode::kAdd:
      return plain(Opcode::kVaddS32);
    case HloOpcode::kSubtract:
      return plain(Opcode::kVsubS32);
    case HloOpcode::kMultiply:
      return ExpressionValue::of(emit_multiply_s32(builder_, in_register(a), in_register(b)));
    case HloOpcode::kMaximum:
    case HloOpcode::kMinimum:
      return ExpressionValue::of(
          integer_extreme(node.opcode == HloOpcode::kMaximum, is_signed, a, b));
    case HloOpcode::kDivide:
    case HloOpcode::kRemainder: {
      const VReg dividend = in_register(a), divisor = in_register(b);
      const Division division = is_signed ? emit_divide_s32(builder_, dividend, divisor)
                                          : emit_divide_u32(builder_, dividend, divisor);
      return ExpressionValue::of(node.opcode == HloOpcode::kDivide ? division.quotient
                                                                   : division.remainder);
    }
    case HloOpcode::kShiftLeft:
      return plain(Opcode::kVshllU32);
    case HloOpcode::kShiftRightLogical:
      return plain(Opcode::kVshrlU32);
    case HloOpcode::kShiftRightArithmetic:
      return plain(Opcode::kVshraS32);
    default:
      refuse(node, "this operation exists for floating types only");
  }
}

ExpressionValue ExpressionEmitter::emit_binary(const ExpressionNode& node, const Place& place) {
  const VectorOperand a = operand(node.operands[0], place);
  if (node.opcode == HloOpcode::kDivide &&
      is_reciprocal_given_[static_cast<std::size_t>(node.operands[1])]) {
    return ExpressionValue::of(emit_quotient(builder_, a, reciprocal_of(node.operands[1], place)));
  }
  const VectorOperand b = operand(node.operands[1], place);
  if (node.shape.type == ElementType::kPred) return emit_logical(node, place);
  if (!is_floating(node.shape.type)) return emit_integer(node, a, b);
  const VReg left = a.reg || b.reg ? a.reg : in_register(a);
  const VectorOperand first = left ? VectorOperand(left) : a;
  switch (node.opcode) {
    case HloOpcode::kAdd:
      return ExpressionValue::of(builder_.add(first, b));
    case HloOpcode::kSubtract:
      return ExpressionValue::of(builder_.sub(first, b));
    case HloOpcode::kMultiply:
      return ExpressionValue::of(builder_.mul(first, b));
    case HloOpcode::kMaximum:
      return ExpressionValue::of(builder_.max(first, b));
    case HloOpcode::kMinimum:
      return ExpressionValue::of(builder_.min(first, b));
    case HloOpcode::kDivide:
      if (!b.reg) {
        return ExpressionValue::of(builder_.mul(first, 1.0F / as_float(bits_of(b))));
      }
      return ExpressionValue::of(
          emit_quotient(builder_, first, reciprocal_of(node.operands[1], place)));
    case HloOpcode::kRemainder:
      return ExpressionValue::of(emit_remainder(builder_, in_register(a), in_register(b)));
    case HloOpcode::kAtan2:
      return ExpressionValue::of(emit_atan2(builder_, in_register(a), in_register(b)));
    default:
      refuse(node, "this operation has no code on the vector unit");
  }
}

ExpressionValue ExpressionEmitter::emit_logical(const ExpressionNode& node, const Place& place) {
  if (node.shape.type != ElementType::kPred) {
    const VReg a = vector(node.operands[0], place);
    switch (node.opcode) {
      case HloOpcode::kNot:
        return ExpressionValue::of(builder_.vector(Opcode::kVxorU32, a, 0xffffffffU));
      case HloOpcode::kAnd:
        return ExpressionValue::of(builder_.and_(a, operand(node.operands[1], place)));
      case HloOpcode::kOr:
        return ExpressionValue::of(builder_.or_(a, operand(node.operands[1], place)));
      default:
        return ExpressionValue::of(
            builder_.vector(Opcode::kVxorU32, a, operand(node.operands[1], place)));
    }
  }
  if (node.opcode == HloOpcode::kAnd) {
    for (const std::size_t of : {0, 1}) {
      const ExpressionValue known = value(node.operands[of], place);
      if (known.kind != ExpressionValue::Kind::kConstant) continue;
      return known.bits != 0 ? value(node.operands[1 - of], place) : known;
    }
  }
  const MReg a = mask(node.operands[0], place);
  if (node.opcode == HloOpcode::kNot) return ExpressionValue::of(builder_.mask(Opcode::kVmneg, a));
  const MReg b = mask(node.operands[1], place);
  switch (node.opcode) {
    case HloOpcode::kAnd:
    case HloOpcode::kMultiply:
    case HloOpcode::kMinimum:
      return ExpressionValue::of(builder_.mask(Opcode::kVmand, a, b));
    case HloOpcode::kOr:
    case HloOpcode::kAdd:
    case HloOpcode::kMaximum:
      return ExpressionValue::of(builder_.mask(Opcode::kVmor, a, b));
    case HloOpcode::kXor: {
      const MReg either = builder_.mask(Opcode::kVmor, a, b);
      const MReg both = builder_.mask(Opcode::kVmand, a, b);
      return ExpressionValue::of(
          builder_.mask(Opcode::kVmand, either, builder_.mask(Opcode::kVmneg, both)));
    }
    default:
      refuse(node, "this operation does not exist for pred");
  }
}

/// What all lanes of a lane tile whose number is known have of a test of their position; none: some
/// have something else.
std::optional<bool> ExpressionEmitter::test_of_lanes(const ExpressionNode& test,
                                                     const Place& place) const {
  const ExpressionNode &position = graph_.node(test.operands[0]),
                       &bound = graph_.node(test.operands[1]);
  const IterationSpace& space = graph_.space();
  const bool is_test =
      position.opcode == HloOpcode::kIota && !space.linear && position.axis == space.lane_axis() &&
      position.shape.type == ElementType::kS32 && bound.opcode == HloOpcode::kConstant;
  if (!is_test || place.digits.empty()) return std::nullopt;
  const Index tile = place.digits.back().plus(position.begin / isa::kLanes);
  if (!tile.is_constant()) return std::nullopt;
  const std::int64_t first = tile.offset * isa::kLanes, end = first + isa::kLanes;
  const auto limit = static_cast<std::int32_t>(bound.bits);
  const bool is_least = test.direction == hlo::ComparisonDirection::kGe;
  if (!is_least && test.direction != hlo::ComparisonDirection::kLt) return std::nullopt;
  if (first >= limit) return is_least;
  if (end <= limit) return !is_least;
  return std::nullopt;
}

ExpressionValue ExpressionEmitter::emit_compare(const ExpressionNode& node, const Place& place) {
  if (const std::optional<bool> all = test_of_lanes(node, place)) {
    return ExpressionValue::of_bits(*all ? 1 : 0);
  }
  const ElementType type = graph_.node(node.operands[0]).shape.type;
  const auto is_zero = [this](int id) {
    return graph_.node(id).opcode == HloOpcode::kConstant && graph_.node(id).bits << 1 == 0;
  };
  // Rounding takes no number to another side of zero.
  const bool is_sign = is_zero(node.operands[0]) || is_zero(node.operands[1]);
  VReg a =
      in_register(is_sign ? operand(node.operands[0], place) : as_stored(node.operands[0], place));
  VectorOperand b = is_sign ? operand(node.operands[1], place) : as_stored(node.operands[1], place);
  const bool ordered = node.direction != hlo::ComparisonDirection::kEq &&
                       node.direction != hlo::ComparisonDirection::kNe;
  if ((type == ElementType::kU32 || type == ElementType::kU8 || type == ElementType::kU16) &&
      ordered) {
    a = builder_.vector(Opcode::kVxorU32, a, kSignBit);
    b = b.reg ? VectorOperand(builder_.vector(Opcode::kVxorU32, b, kSignBit))
              : VectorOperand(b.immediate ^ kSignBit);
  }
  return ExpressionValue::of(
      builder_.vector_compare(comparison(node.direction, is_floating(type)), a, b));
}

ExpressionValue ExpressionEmitter::emit_select(const ExpressionNode& node, const Place& place) {
  if (node.opcode == HloOpcode::kClamp) {
    const VectorOperand low = operand(node.operands[0], place);
    const VReg x = vector(node.operands[1], place);
    const VectorOperand high = operand(node.operands[2], place);
    if (is_floating(node.shape.type)) {
      return ExpressionValue::of(builder_.min(builder_.max(x, low), high));
    }
    const bool is_signed = node.shape.type == ElementType::kS32;
    const VReg raised = integer_extreme(true, is_signed, x, low);
    return ExpressionValue::of(integer_extreme(false, is_signed, raised, high));
  }
  const ExpressionValue condition = value(node.operands[0], place);
  if (condition.kind == ExpressionValue::Kind::kConstant) {
    return value(node.operands[condition.bits != 0 ? 1 : 2], place);
  }
  if (node.shape.type == ElementType::kPred) {
    const MReg chosen = mask(node.operands[0], place);
    const MReg yes = builder_.mask(Opcode::kVmand, chosen, mask(node.operands[1], place));
    const MReg no = builder_.mask(Opcode::kVmand, builder_.mask(Opcode::kVmneg, chosen),
                                  mask(node.operands[2], place));
    return ExpressionValue::of(builder_.mask(Opcode::kVmor, yes, no));
  }
  const VectorOperand yes = operand(node.operands[1], place);
  const VectorOperand no = operand(node.operands[2], place);
  return ExpressionValue::of(builder_.select(mask(node.operands[0], place), yes, no));
}

ExpressionValue ExpressionEmitter::emit_convert(const ExpressionNode& node, const Place& place) {
  const ElementType from = graph_.node(node.operands[0]).shape.type;
  const ElementType to = node.shape.type;
  const ExpressionValue source = value(node.operands[0], place);
  if (node.opcode == HloOpcode::kBitcastConvert) {
    if (hlo::byte_size(from) != 4 || hlo::byte_size(to) != 4) refuse(node, "expected 32-bit types");
    return source;
  }
  if (node.opcode == HloOpcode::kReducePrecision) return emit_reduced_precision(node, place);
  const bool is_narrowed = to == ElementType::kBf16 && from != to && is_read_[index_of(node)];
  if (is_narrowed && is_floating(from)) {
    return ExpressionValue::of(builder_.round_to_bf16(vector(node.operands[0], place)));
  }
  if (from == ElementType::kBf16 && to == ElementType::kF32 && !is_rounded(node.operands[0])) {
    return ExpressionValue::of(in_register(as_stored(node.operands[0], place)));
  }
  if (from == to || (is_floating(from) && is_floating(to))) return source;
  const std::uint32_t one = is_floating(to) ? float_bits(1.0F) : 1U;
  if (from == ElementType::kPred) {
    if (source.kind == ExpressionValue::Kind::kConstant) {
      return ExpressionValue::of_bits(source.bits != 0 ? one : 0U);
    }
    return ExpressionValue::of(builder_.select(mask(node.operands[0], place), one, 0U));
  }
  const VReg x = in_register(as_stored(node.operands[0], place));
  if (to == ElementType::kPred) {
    const Opcode opcode = is_floating(from) ? Opcode::kVcmpNeF32 : Opcode::kVcmpNeS32;
    return ExpressionValue::of(builder_.vector_compare(opcode, x, 0U));
  }
  for (ElementType type : {from, to}) {
    const bool is_known = is_floating(type) || hlo::byte_size(type) == 4;
    if (!is_known) refuse(node, "expected f32, bf16, s32, u32 or pred");
  }
  if (is_floating(from)) {
    if (to == ElementType::kU32) return ExpressionValue::of(emit_float_to_u32(builder_, x));
    return ExpressionValue::of(builder_.truncate_to_s32(x));
  }
  if (!is_floating(to)) return source;
  const VReg number = from == ElementType::kU32 ? emit_u32_to_float(builder_, x)
                                                : builder_.vector(Opcode::kVcvtS32F32, x);
  return ExpressionValue::of(is_narrowed ? builder_.round_to_bf16(number) : number);
}

/// Whether the node's values are numbers of bf16 for certain.
bool ExpressionEmitter::is_rounded(int id) const {
  const ExpressionNode& node = graph_.node(id);
  if (node.shape.type != ElementType::kBf16) return true;  // Nothing to round to.
  return node.opcode == HloOpcode::kParameter || node.opcode == HloOpcode::kConstant ||
         node.opcode == HloOpcode::kConvert || is_read_back_[static_cast<std::size_t>(id)];
}

/// The value as it would be read back from memory.
VectorOperand ExpressionEmitter::as_stored(int node, const Place& place) {
  if (is_rounded(node)) return operand(node, place);
  return builder_.round_to_bf16(vector(node, place));
}

ExpressionValue ExpressionEmitter::emit_reduced_precision(const ExpressionNode& node,
                                                          const Place& place) {
  const auto bits = [&](const std::string& key) {
    const std::size_t at = node.attributes.find(key + "=");
    if (at == std::string::npos) refuse(node, "expected " + key);
    return std::atoi(node.attributes.c_str() + at + key.size() + 1);
  };
  const int exponent = bits("exponent_bits"), mantissa = bits("mantissa_bits");
  if (exponent < 2 || mantissa < 1) {
    refuse(node, "expected at least two bits of exponent and one of significand");
  }
  return ExpressionValue::of(tpu::compiler::emit_reduced_precision(
      builder_, vector(node.operands[0], place), exponent, mantissa));
}

ExpressionValue ExpressionEmitter::emit_power(const ExpressionNode& node, const Place& place) {
  const ExpressionNode& base = graph_.node(node.operands[0]);
  const ExpressionNode& exponent = graph_.node(node.operands[1]);
  if (!is_floating(node.shape.type)) refuse(node, "expected a floating type");
  if (exponent.opcode == HloOpcode::kConstant) {
    const float power = as_float(exponent.bits);
    const VReg x = vector(node.operands[0], place);
    if (power == 0.5F) return ExpressionValue::of(emit_sqrt(builder_, x));
    if (power == -0.5F) return ExpressionValue::of(emit_rsqrt(builder_, x));
    if (power == std::nearbyint(power) && std::fabs(power) <= 16 && power != 0) {
      VReg product = x;
      for (int i = 1; i < static_cast<int>(std::fabs(power)); ++i)
        product = builder_.mul(product, x);
      return ExpressionValue::of(power < 0 ? emit_reciprocal(builder_, product) : product);
    }
    const VReg exponent_register = builder_.vector(Opcode::kVmov, exponent.bits);
    return ExpressionValue::of(emit_signed_power(builder_, x, exponent_register));
  }
  const bool has_logarithm = base.opcode == HloOpcode::kConstant && as_float(base.bits) > 0 &&
                             std::isfinite(as_float(base.bits)) && as_float(base.bits) != 1;
  if (has_logarithm) {
    const float logarithm = std::log2(as_float(base.bits));
    const VReg scaled = builder_.mul(operand(node.operands[1], place), logarithm);
    return ExpressionValue::of(builder_.transcendental(Opcode::kVpow2F32, scaled));
  }
  return ExpressionValue::of(emit_signed_power(builder_, vector(node.operands[0], place),
                                               vector(node.operands[1], place)));
}

ExpressionValue ExpressionEmitter::emit_integer_unary(const ExpressionNode& node, VReg x) {
  const bool is_signed = node.shape.type == ElementType::kS32;
  if (!is_signed && node.shape.type != ElementType::kU32) refuse(node, "expected s32 or u32");
  const VReg negated = builder_.vector(Opcode::kVsubS32, 0, x);
  switch (node.opcode) {
    case HloOpcode::kNegate:
      return ExpressionValue::of(negated);
    case HloOpcode::kAbs:
      return ExpressionValue::of(is_signed ? integer_extreme(true, true, x, negated) : x);
    case HloOpcode::kSign: {
      const MReg positive =
          builder_.vector_compare(is_signed ? Opcode::kVcmpGtS32 : Opcode::kVcmpNeS32, x, 0);
      return ExpressionValue::of(
          builder_.select(positive, 1, builder_.vector(Opcode::kVshraS32, x, 31)));
    }
    case HloOpcode::kPopcnt:
      return ExpressionValue::of(emit_population_count(builder_, x));
    case HloOpcode::kCountLeadingZeros:
      return ExpressionValue::of(builder_.vector(Opcode::kVclz, x));
    default:
      refuse(node, "this operation exists for floating types only");
  }
}

ExpressionValue ExpressionEmitter::emit_unary(const ExpressionNode& node, const Place& place) {
  const VReg x = has_steps(node.opcode) ? in_register(as_stored(node.operands[0], place))
                                        : vector(node.operands[0], place);
  const auto done = [](VReg result) { return ExpressionValue::of(result); };
  if (!is_floating(graph_.node(node.operands[0]).shape.type)) return emit_integer_unary(node, x);
  switch (node.opcode) {
    case HloOpcode::kNegate:
      return done(builder_.vector(Opcode::kVxorU32, x, kSignBit));
    case HloOpcode::kAbs:
      return done(builder_.and_(x, kMagnitude));
    case HloOpcode::kSign: {
      const MReg positive = builder_.vector_compare(Opcode::kVcmpGtF32, x, 0.0F);
      const MReg negative = builder_.vector_compare(Opcode::kVcmpLtF32, x, 0.0F);
      return done(builder_.select(positive, 1.0F, builder_.select(negative, -1.0F, x)));
    }
    case HloOpcode::kIsFinite:
      return ExpressionValue::of(builder_.is_finite(x));
    case HloOpcode::kExponential:
      return done(emit_exponential(builder_, x));
    case HloOpcode::kExponentialMinusOne:
      return done(emit_exponential_minus_one(builder_, x));
    case HloOpcode::kLog:
      return done(emit_log(builder_, x));
    case HloOpcode::kLogPlusOne:
      return done(emit_log_plus_one(builder_, x));
    case HloOpcode::kSqrt:
      return done(emit_sqrt(builder_, x, node.shape.type == ElementType::kBf16));
    case HloOpcode::kRsqrt:
      return done(emit_rsqrt(builder_, x));
    case HloOpcode::kTanh:
      return done(emit_tanh(builder_, x));
    case HloOpcode::kLogistic:
      return done(emit_logistic(builder_, x, node.shape.type == ElementType::kBf16));
    case HloOpcode::kErf:
      return done(emit_erf(builder_, x));
    case HloOpcode::kFloor:
      return done(emit_floor(builder_, x));
    case HloOpcode::kCeil:
      return done(emit_ceil(builder_, x));
    case HloOpcode::kSine:
      return done(emit_sine(builder_, x));
    case HloOpcode::kCosine:
      return done(emit_cosine(builder_, x));
    case HloOpcode::kTan:
      return done(emit_tangent(builder_, x));
    case HloOpcode::kCbrt:
      return done(emit_cube_root(builder_, x));
    case HloOpcode::kRoundNearestAfz:
      return done(emit_round(builder_, x, false));
    case HloOpcode::kRoundNearestEven:
      return done(emit_round(builder_, x, true));
    default:
      refuse(node, "this operation has no code on the vector unit");
  }
}

}  // namespace tpu::compiler
