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
  const Id found = edit.select(is_beyond, beyond, rounded);
  if (format.special != FloatFormat::Special::kUnsignedZero) return found;
  const Id zero = number(0);
  return edit.select(edit.compare(size, zero, ComparisonDirection::kEq), zero, found);
}

Id rounded_to_half(GraphEditor& edit, Id value) {
  const GraphEditor::Extents extents = edit.dimensions(value);
  const auto number = [&](double x) { return edit.splat(ElementType::kF32, extents, x); };
  hlo::HloInstruction rounding = edit.start(HloOpcode::kReducePrecision, {value},
                                            hlo::array_shape(ElementType::kF32, extents));
  rounding.raw_attributes = "exponent_bits=5, mantissa_bits=10";
  const Id normal = edit.append_instruction(std::move(rounding));
  // Neighbours below the normal numbers are as far apart as those of f32 between a half and one.
  const Id size = edit.unary(HloOpcode::kAbs, value), half = number(0.5);
  const Id small =
      edit.binary(HloOpcode::kSubtract, edit.binary(HloOpcode::kAdd, size, half), half);
  const Id is_small = edit.compare(size, number(0x1p-14), ComparisonDirection::kLt);
  const Id sign = edit.unary(HloOpcode::kSign, value);
  return edit.select(is_small, edit.binary(HloOpcode::kMultiply, sign, small), normal);
}

namespace {

double ones(int bits) { return std::ldexp(1.0, bits) - 1; }

/// What the constants of a format are where its fields stand at the places of those of f32.
struct Fields {
  explicit Fields(const FloatFormat& format)
      : dropped(23 - format.fraction_bits),
        sign(std::ldexp(1.0, format.exponent_bits + format.fraction_bits)),
        apart(std::ldexp(127 - format.bias, 23)),
        infinity(std::ldexp(ones(format.exponent_bits), format.fraction_bits)),
        subnormals(std::ldexp(1.0, format.bias - 1 + format.fraction_bits)) {}

  double dropped;     ///< Bits of a fraction of f32 that the format lacks.
  double sign;        ///< The bit of the sign.
  double apart;       ///< Between the exponents of one number.
  double infinity;    ///< All ones in the exponent.
  double subnormals;  ///< So many make one.
};

}  // namespace

Id bits_in_format(GraphEditor& edit, Id value, const FloatFormat& format) {
  const Fields fields(format);
  const GraphEditor::Extents extents = edit.dimensions(value);
  const auto number = [&](ElementType type, double x) { return edit.splat(type, extents, x); };
  const auto with = [&](HloOpcode opcode, Id x, double y) {
    return edit.binary_with(opcode, x, y);
  };
  const int sign_place = format.exponent_bits + format.fraction_bits;
  const Id all = edit.bitcast_convert(value, ElementType::kU32);
  const Id size = with(HloOpcode::kAnd, all, ones(31));
  const Id sign =
      with(HloOpcode::kAnd, with(HloOpcode::kShiftRightLogical, all, 31 - sign_place), fields.sign);
  const Id normal = with(HloOpcode::kShiftRightLogical,
                         with(HloOpcode::kSubtract, size, fields.apart), fields.dropped);
  const Id absolute = edit.bitcast_convert(size, ElementType::kF32);
  const Id small =
      edit.convert(with(HloOpcode::kMultiply, absolute, fields.subnormals), ElementType::kU32);
  const Id is_small =
      edit.compare(absolute, number(ElementType::kF32, std::ldexp(1.0, 1 - format.bias)),
                   ComparisonDirection::kLt);
  const Id infinity = number(ElementType::kU32, 255 * 0x1p23);
  const Id found = edit.select(is_small, small, normal);
  if (format.special == FloatFormat::Special::kIeee) {
    // Infinity and NaN have all bits of the exponent in both.
    const Id fraction = with(HloOpcode::kShiftRightLogical, size, fields.dropped);
    const Id marked =
        with(HloOpcode::kOr, with(HloOpcode::kAnd, fraction, ones(format.fraction_bits)),
             fields.infinity);
    const Id is_special = edit.compare(size, infinity, ComparisonDirection::kGe);
    return edit.binary(HloOpcode::kOr, sign, edit.select(is_special, marked, found));
  }
  const Id is_nan = edit.compare(size, infinity, ComparisonDirection::kGt);
  const bool is_all_ones = format.special == FloatFormat::Special::kOnlyNan;
  const Id nan = number(ElementType::kU32, is_all_ones ? fields.sign - 1 : fields.sign);
  return edit.select(is_nan, nan, edit.binary(HloOpcode::kOr, sign, found));
}

Id number_in_format(GraphEditor& edit, Id bits, const FloatFormat& format) {
  const Fields fields(format);
  const GraphEditor::Extents extents = edit.dimensions(bits);
  const auto number = [&](double x) { return edit.splat(ElementType::kU32, extents, x); };
  const auto with = [&](HloOpcode opcode, Id x, double y) {
    return edit.binary_with(opcode, x, y);
  };
  const int sign_place = format.exponent_bits + format.fraction_bits;
  const Id size = with(HloOpcode::kAnd, bits, fields.sign - 1);
  const Id sign =
      with(HloOpcode::kShiftLeft, with(HloOpcode::kAnd, bits, fields.sign), 31 - sign_place);
  const Id moved = with(HloOpcode::kShiftLeft, size, fields.dropped);
  const Id normal = with(HloOpcode::kAdd, moved, fields.apart);
  const Id small = edit.bitcast_convert(
      with(HloOpcode::kMultiply, edit.convert(size, ElementType::kF32), 1 / fields.subnormals),
      ElementType::kU32);
  const Id is_small =
      edit.compare(size, number(std::ldexp(1.0, format.fraction_bits)), ComparisonDirection::kLt);
  Id special = number(0x7fc00000), is_special = -1;
  switch (format.special) {
    case FloatFormat::Special::kIeee:
      special = with(HloOpcode::kOr, moved, 255 * 0x1p23);
      is_special = edit.compare(size, number(fields.infinity), ComparisonDirection::kGe);
      break;
    case FloatFormat::Special::kUnsignedZero:
      is_special = edit.compare(with(HloOpcode::kAnd, bits, 2 * fields.sign - 1),
                                number(fields.sign), ComparisonDirection::kEq);
      break;
    default:
      is_special = edit.compare(size, number(fields.sign - 1), ComparisonDirection::kEq);
  }
  const Id found = edit.select(is_special, special, edit.select(is_small, small, normal));
  return edit.bitcast_convert(edit.binary(HloOpcode::kOr, sign, found), ElementType::kF32);
}

}  // namespace tpu::compiler
