#include "workloads/compiler/passes/expand/float_rounding.h"

#include <cmath>
#include <limits>

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::FloatFormat;
using hlo::HloOpcode;
using Id = GraphEditor::Id;

namespace {

/// The largest finite number: infinities take the last exponent, a NaN one fraction of it.
double largest(const FloatFormat& format) {
  const bool is_ieee = format.special == FloatFormat::Special::kIeee;
  const int last = (1 << format.exponent_bits) - (is_ieee ? 2 : 1) - format.bias;
  const int steps = format.special == FloatFormat::Special::kOnlyNan ? 2 : 1;
  return std::ldexp(2 - std::ldexp(steps, -format.fraction_bits), last);
}

}  // namespace

Id rounded_to_format(GraphEditor& edit, Id value, const FloatFormat& format) {
  constexpr double kExponentMask = 0x7f800000;
  const GraphEditor::Extents extents = edit.dimensions(value);
  const auto number = [&](double x) { return edit.splat(ElementType::kF32, extents, x); };
  const Id bits = edit.bitcast_convert(value, ElementType::kU32);
  const Id power = edit.bitcast_convert(edit.binary_with(HloOpcode::kAnd, bits, kExponentMask),
                                        ElementType::kF32);
  // The distance of neighbours: a power of two, so that dividing and multiplying by it is exact.
  const Id least = number(std::ldexp(1.0, 1 - format.bias));
  const Id bounded =
      edit.binary(HloOpcode::kMinimum, edit.binary(HloOpcode::kMaximum, power, least),
                  number(std::ldexp(1.0, 127)));
  const Id step =
      edit.binary_with(HloOpcode::kMultiply, bounded, std::ldexp(1.0, -format.fraction_bits));
  const Id count =
      edit.unary(HloOpcode::kRoundNearestEven, edit.binary(HloOpcode::kDivide, value, step));
  const Id rounded = edit.binary(HloOpcode::kMultiply, count, step);
  const bool has_infinities = format.special == FloatFormat::Special::kIeee;
  const Id size = edit.unary(HloOpcode::kAbs, rounded);
  const Id beyond = has_infinities
                        ? edit.binary(HloOpcode::kMultiply, edit.unary(HloOpcode::kSign, value),
                                      number(std::numeric_limits<double>::infinity()))
                        : number(std::numeric_limits<double>::quiet_NaN());
  const Id is_beyond = edit.compare(size, number(largest(format)), ComparisonDirection::kGt);
  return edit.select(is_beyond, beyond, rounded);
}

namespace {

constexpr double kLeastNormalHalf = 0x1p-14, kSubnormalHalves = 0x1p24;
/// Exponents of f32 begin 112 below those of f16, 13 bits further up.
constexpr double kExponentsApart = 112.0 * 0x1p23;

}  // namespace

GraphEditor::Id bits_of_half(GraphEditor& edit, GraphEditor::Id value) {
  const GraphEditor::Extents extents = edit.dimensions(value);
  const auto number = [&](ElementType type, double x) { return edit.splat(type, extents, x); };
  const auto with = [&](HloOpcode opcode, Id x, double y) {
    return edit.binary_with(opcode, x, y);
  };
  const Id all = edit.bitcast_convert(value, ElementType::kU32);
  const Id size = with(HloOpcode::kAnd, all, 2147483647.0);
  const Id sign = with(HloOpcode::kAnd, with(HloOpcode::kShiftRightLogical, all, 16), 32768);
  const Id normal =
      with(HloOpcode::kShiftRightLogical, with(HloOpcode::kSubtract, size, kExponentsApart), 13);
  const Id absolute = edit.bitcast_convert(size, ElementType::kF32);
  const Id small =
      edit.convert(with(HloOpcode::kMultiply, absolute, kSubnormalHalves), ElementType::kU32);
  const Id special = with(HloOpcode::kAnd, with(HloOpcode::kShiftRightLogical, size, 13), 0x7fff);
  const Id is_small =
      edit.compare(absolute, number(ElementType::kF32, kLeastNormalHalf), ComparisonDirection::kLt);
  const Id is_special =
      edit.compare(size, number(ElementType::kU32, 255 * 0x1p23), ComparisonDirection::kGe);
  // Infinity and NaN have all bits of the exponent in both.
  const Id marked = with(HloOpcode::kOr, with(HloOpcode::kAnd, special, 0x3ff), 0x7c00);
  return edit.binary(HloOpcode::kOr, sign,
                     edit.select(is_special, marked, edit.select(is_small, small, normal)));
}

GraphEditor::Id half_of_bits(GraphEditor& edit, GraphEditor::Id bits) {
  const GraphEditor::Extents extents = edit.dimensions(bits);
  const auto number = [&](ElementType type, double x) { return edit.splat(type, extents, x); };
  const auto with = [&](HloOpcode opcode, Id x, double y) {
    return edit.binary_with(opcode, x, y);
  };
  const Id size = with(HloOpcode::kAnd, bits, 0x7fff);
  const Id sign = with(HloOpcode::kShiftLeft, with(HloOpcode::kAnd, bits, 32768), 16);
  const Id moved = with(HloOpcode::kShiftLeft, size, 13);
  const Id normal = with(HloOpcode::kAdd, moved, kExponentsApart);
  const Id special = with(HloOpcode::kAdd, normal, kExponentsApart);
  const Id small = edit.bitcast_convert(
      with(HloOpcode::kMultiply, edit.convert(size, ElementType::kF32), 1 / kSubnormalHalves),
      ElementType::kU32);
  const Id is_small =
      edit.compare(size, number(ElementType::kU32, 0x400), ComparisonDirection::kLt);
  const Id is_special =
      edit.compare(size, number(ElementType::kU32, 0x7c00), ComparisonDirection::kGe);
  const Id found = edit.select(is_special, special, edit.select(is_small, small, normal));
  return edit.bitcast_convert(edit.binary(HloOpcode::kOr, sign, found), ElementType::kF32);
}

}  // namespace tpu::compiler
