#pragma once

#include "tests/compiler/random_elementwise.h"
#include "tests/compiler/random_material.h"

namespace tpu::test {

/// Operations on s32 and u32 of any value: amounts of shifts beyond the width, divisions by zero.
inline Tensor integer_function(RandomMaterial& m, Tensor x, ElementType type) {
  static constexpr HloOpcode kBinary[] = {HloOpcode::kShiftLeft,
                                          HloOpcode::kShiftRightLogical,
                                          HloOpcode::kShiftRightArithmetic,
                                          HloOpcode::kDivide,
                                          HloOpcode::kRemainder,
                                          HloOpcode::kMultiply,
                                          HloOpcode::kAdd,
                                          HloOpcode::kSubtract,
                                          HloOpcode::kMaximum,
                                          HloOpcode::kMinimum,
                                          HloOpcode::kXor};
  static constexpr HloOpcode kUnary[] = {HloOpcode::kNot,
                                         HloOpcode::kNegate,
                                         HloOpcode::kAbs,
                                         HloOpcode::kSign,
                                         HloOpcode::kCountLeadingZeros,
                                         HloOpcode::kPopcnt};
  if (m.one_in(3)) {
    HloOpcode opcode = kUnary[m.below(std::size(kUnary))];
    const bool is_signed_only =
        opcode == HloOpcode::kAbs || opcode == HloOpcode::kSign || opcode == HloOpcode::kNegate;
    if (type == ElementType::kU32 && is_signed_only) opcode = HloOpcode::kNot;
    return m.graph.unary(opcode, x);
  }
  const Tensor y = m.partner(m.extents_of(x), type);
  return m.graph.binary(kBinary[m.below(std::size(kBinary))], x, y);
}

/// To fewer bits and back.
inline Tensor through_narrow_type(RandomMaterial& m, Tensor x) {
  static constexpr ElementType kNarrow[] = {ElementType::kS8, ElementType::kU8, ElementType::kS16,
                                            ElementType::kU16};
  const Tensor narrow = m.graph.convert(x, kNarrow[m.below(std::size(kNarrow))]);
  return m.graph.convert(narrow, ElementType::kS32);
}

inline void add_integer_function(RandomMaterial& m) {
  const Tensor any = m.any();
  const ElementType type = m.one_in(3) ? ElementType::kU32 : ElementType::kS32;
  Tensor x = m.converted(any, type);
  if (m.one_in(4)) x = m.graph.binary(HloOpcode::kMultiply, x, x);
  switch (m.below(6)) {
    case 0:
      if (m.one_in(4)) m.keep(through_narrow_type(m, m.converted(x, ElementType::kS32)));
      break;
    case 1:
      m.keep(m.graph.compare(x, m.partner(m.extents_of(x), type),
                             static_cast<hlo::ComparisonDirection>(m.below(6))));
      break;
    default:
      m.keep(integer_function(m, x, type));
  }
}

inline Tensor logical(RandomMaterial& m, Tensor x) {
  const Tensor a = m.converted(x, ElementType::kPred);
  if (m.one_in(4)) return m.graph.unary(HloOpcode::kNot, a);
  static constexpr HloOpcode kOpcodes[] = {HloOpcode::kAnd, HloOpcode::kOr, HloOpcode::kXor};
  return m.graph.binary(kOpcodes[m.below(3)], a, m.partner(m.extents_of(x), ElementType::kPred));
}

inline Tensor clamped(RandomMaterial& m, Tensor x) {
  const bool scalars = m.one_in(2);
  const auto bound = [&](double value) {
    const Tensor scalar = m.graph.constant(m.graph.type(x), value);
    return scalars ? scalar : m.graph.splat_like(x, value);
  };
  return m.graph.instruction(m.make(HloOpcode::kClamp, {bound(-0.5), x, bound(1.25)}));
}

/// Functions that few graphs have.
inline void add_function(RandomMaterial& m) {
  const Tensor x = m.any_number();
  static constexpr HloOpcode kOfAny[] = {
      HloOpcode::kSine, HloOpcode::kCosine,           HloOpcode::kErf,
      HloOpcode::kCeil, HloOpcode::kRoundNearestEven, HloOpcode::kRoundNearestAfz};
  switch (m.below(8)) {
    case 0:
      m.keep(clamped(m, x));
      break;
    case 1:
      m.keep(logical(m, x));
      break;
    case 2: {
      const Tensor y = m.partner(m.extents_of(x), m.graph.type(x));
      m.keep(m.graph.binary(HloOpcode::kAtan2, positive(m, x), y));
      break;
    }
    case 3:
      m.keep(m.graph.unary(HloOpcode::kIsFinite, x));
      break;
    case 4: {
      // Its condition is the same everywhere.
      const Tensor condition =
          m.graph.broadcast(m.partner({}, ElementType::kPred), m.extents_of(x), {});
      m.keep(m.graph.select(condition, x, m.partner(m.extents_of(x), m.graph.type(x))));
      break;
    }
    default:
      m.keep(m.graph.unary(kOfAny[m.below(std::size(kOfAny))], off_edges(m, limited(m, x))));
  }
}

}  // namespace tpu::test
