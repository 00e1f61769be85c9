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

}  // namespace tpu::compiler
