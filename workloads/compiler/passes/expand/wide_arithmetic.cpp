#include "workloads/compiler/passes/expand/wide_arithmetic.h"

#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;

bool is_signed_integer(ElementType type) {
  return type >= ElementType::kS8 && type <= ElementType::kS64;
}

/// Arithmetic on arrays of the replaced instruction's extents.
class WideArithmetic {
 public:
  WideArithmetic(GraphEditor& edit, const GraphEditor::Extents& extents)
      : edit_(edit), extents_(extents) {}

  Id number(ElementType type, double value) { return edit_.splat(type, extents_, value); }
  Id plus(Id a, Id b) { return edit_.binary(HloOpcode::kAdd, a, b); }
  Id minus(Id a, Id b) { return edit_.binary(HloOpcode::kSubtract, a, b); }
  Id times(Id a, Id b) { return edit_.binary(HloOpcode::kMultiply, a, b); }
  Id is_zero(Id a) {
    return edit_.compare(a, number(edit_.shape(a).type, 0), ComparisonDirection::kEq);
  }
  Id word(Id wide, bool is_high) {
    if (is_high) wide = edit_.binary_with(HloOpcode::kShiftRightLogical, wide, 32);
    return edit_.convert(wide, ElementType::kU32);
  }

  /// Quotient and remainder of u64, as a divisor of 0 has them: all ones, and the dividend.
  std::pair<Id, Id> divided(Id a, Id b);
  Id high_product(Id a, Id b);
  Id unary(HloOpcode opcode, Id a);
  /// To the right, as a number with a sign.
  Id shifted_with_sign(Id a, Id amount);

 private:
  Id high_of_unsigned(Id a, Id b);

  GraphEditor& edit_;
  const GraphEditor::Extents extents_;
};

/// Each step takes what fp32 says of the quotient, a little less of it than it could be, from what
/// is left: the next one has 17 bits less to find. In the end the divisor fits at most twice.
std::pair<Id, Id> WideArithmetic::divided(Id a, Id b) {
  constexpr int kSteps = 4, kCorrections = 2;
  // Conversions of both and the quotient are within 2^-21 of what they stand for.
  constexpr double kSurelyLess = 1 - 0x1p-18;
  const Id divisor = edit_.convert(b, ElementType::kF32);
  Id left = a, quotient = number(ElementType::kU64, 0);
  for (int step = 0; step < kSteps; ++step) {
    const Id about = edit_.binary_with(
        HloOpcode::kMultiply,
        edit_.binary(HloOpcode::kDivide, edit_.convert(left, ElementType::kF32), divisor),
        kSurelyLess);
    const Id part = edit_.convert(edit_.unary(HloOpcode::kFloor, about), ElementType::kU64);
    quotient = plus(quotient, part);
    left = minus(left, times(part, b));
  }
  const Id zero = number(ElementType::kU64, 0);
  for (int i = 0; i < kCorrections; ++i) {
    const Id fits = edit_.compare(left, b, ComparisonDirection::kGe);
    left = minus(left, edit_.select(fits, b, zero));
    quotient = plus(quotient, edit_.convert(fits, ElementType::kU64));
  }
  const Id none = is_zero(b);
  return {edit_.select(none, edit_.unary(HloOpcode::kNot, zero), quotient),
          edit_.select(none, a, left)};
}

/// From products of halves of the bits.
Id WideArithmetic::high_of_unsigned(Id a, Id b) {
  const int half = 4 * hlo::byte_size(edit_.shape(a).type);
  const Id mask =
      edit_.binary_with(HloOpcode::kShiftRightLogical,
                        edit_.unary(HloOpcode::kNot, number(edit_.shape(a).type, 0)), half);
  const auto low = [&](Id x) { return edit_.binary(HloOpcode::kAnd, x, mask); };
  const auto high = [&](Id x) { return edit_.binary_with(HloOpcode::kShiftRightLogical, x, half); };
  const Id first = plus(times(high(a), low(b)), high(times(low(a), low(b))));
  const Id second = plus(times(low(a), high(b)), low(first));
  return plus(times(high(a), high(b)), plus(high(first), high(second)));
}

Id WideArithmetic::high_product(Id a, Id b) {
  const ElementType type = edit_.shape(a).type;
  const int bits = 8 * hlo::byte_size(type);
  if (bits < 32) {
    const ElementType word = is_signed_integer(type) ? ElementType::kS32 : ElementType::kU32;
    const HloOpcode shift =
        is_signed_integer(type) ? HloOpcode::kShiftRightArithmetic : HloOpcode::kShiftRightLogical;
    const Id product = times(edit_.convert(a, word), edit_.convert(b, word));
    return edit_.convert(edit_.binary_with(shift, product, bits), type);
  }
  const auto is_negative = [&](Id x) {
    return edit_.compare(x, number(type, 0), ComparisonDirection::kLt);
  };
  if (type == ElementType::kS64) {
    // Which has values of 32 bits: of their products the upper half is the sign.
    const Id sign = edit_.binary(HloOpcode::kXor, is_negative(a), is_negative(b));
    const Id is_none = edit_.binary(HloOpcode::kOr, is_zero(a), is_zero(b));
    const Id zero = number(type, 0);
    return edit_.select(is_none, zero, edit_.select(sign, number(type, -1), zero));
  }
  if (type == ElementType::kS32) {
    const Id high = high_of_unsigned(edit_.bitcast_convert(a, ElementType::kU32),
                                     edit_.bitcast_convert(b, ElementType::kU32));
    const Id zero = number(type, 0);
    return minus(edit_.bitcast_convert(high, type), plus(edit_.select(is_negative(a), b, zero),
                                                         edit_.select(is_negative(b), a, zero)));
  }
  return high_of_unsigned(a, b);
}

Id WideArithmetic::unary(HloOpcode opcode, Id a) {
  switch (opcode) {
    case HloOpcode::kPopcnt:
      return edit_.convert(
          plus(edit_.unary(opcode, word(a, false)), edit_.unary(opcode, word(a, true))),
          ElementType::kU64);
    case HloOpcode::kCountLeadingZeros: {
      const Id high = word(a, true);
      const Id below = edit_.binary_with(HloOpcode::kAdd, edit_.unary(opcode, word(a, false)), 32);
      return edit_.convert(edit_.select(is_zero(high), below, edit_.unary(opcode, high)),
                           ElementType::kU64);
    }
    case HloOpcode::kSign:
      return edit_.convert(edit_.unary(HloOpcode::kNot, is_zero(a)), ElementType::kU64);
    case HloOpcode::kNegate:
      return minus(number(ElementType::kU64, 0), a);
    default:
      return a;  // Its size.
  }
}

Id WideArithmetic::shifted_with_sign(Id a, Id amount) {
  const HloOpcode shift = HloOpcode::kShiftRightLogical;
  const Id zero = number(ElementType::kU64, 0);
  const Id ones = edit_.unary(HloOpcode::kNot, zero);
  const Id above = edit_.unary(HloOpcode::kNot, edit_.binary(shift, ones, amount));
  const Id is_negative = edit_.compare(word(a, true), number(ElementType::kU32, 2147483648.0),
                                       ComparisonDirection::kGe);
  return edit_.binary(HloOpcode::kOr, edit_.binary(shift, a, amount),
                      edit_.select(is_negative, above, zero));
}

/// Which have no counterpart in words.
bool is_expanded(const HloInstruction& instruction) {
  if (instruction.shape.is_tuple()) return false;
  if (instruction.opcode == HloOpcode::kMulhi) return true;
  if (instruction.shape.type != ElementType::kU64) return false;
  switch (instruction.opcode) {
    case HloOpcode::kDivide:
    case HloOpcode::kRemainder:
    case HloOpcode::kShiftRightArithmetic:
    case HloOpcode::kPopcnt:
    case HloOpcode::kCountLeadingZeros:
    case HloOpcode::kSign:
    case HloOpcode::kNegate:
    case HloOpcode::kAbs:
      return true;
    default:
      return false;
  }
}

Id expanded(GraphEditor& edit, const HloInstruction& given) {
  WideArithmetic arithmetic(edit, given.shape.dimensions);
  const auto& operands = given.operands;
  if (given.opcode == HloOpcode::kMulhi) return arithmetic.high_product(operands[0], operands[1]);
  switch (given.opcode) {
    case HloOpcode::kDivide:
      return arithmetic.divided(operands[0], operands[1]).first;
    case HloOpcode::kRemainder:
      return arithmetic.divided(operands[0], operands[1]).second;
    case HloOpcode::kShiftRightArithmetic:
      return arithmetic.shifted_with_sign(operands[0], operands[1]);
    default:
      return arithmetic.unary(given.opcode, operands[0]);
  }
}

}  // namespace

void expand_wide_arithmetic(hlo::Module& module) {
  const auto takes = [](const hlo::Computation&, const HloInstruction& instruction) {
    return is_expanded(instruction);
  };
  rewrite_everywhere(module, takes, [](GraphEditor& edit, const HloInstruction& given) {
    edit.finish(expanded(edit, given));
  });
}

}  // namespace tpu::compiler
