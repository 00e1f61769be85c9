#pragma once

#include "tests/compiler/random_material.h"

namespace tpu::test {

/// Where cancelled sums and products with zero stand, the last bit decides what steps become.
inline Tensor off_edges(RandomMaterial& m, Tensor x) { return m.graph.offset(x, 0.0137); }

/// Between -3 and 3.
inline Tensor limited(RandomMaterial& m, Tensor x) {
  return m.graph.scale(m.graph.unary(HloOpcode::kTanh, x), 3);
}

inline Tensor positive(RandomMaterial& m, Tensor x) {
  return m.graph.offset(m.graph.unary(HloOpcode::kAbs, x), 0.25);
}

inline Tensor binary(RandomMaterial& m, Tensor x) {
  const Tensor y = m.partner(m.extents_of(x), m.graph.type(x));
  switch (m.below(7)) {
    case 0:
      return m.graph.subtract(x, y);
    case 1:
      return m.graph.multiply(x, y);
    case 2:
      return m.graph.divide(x, m.graph.offset(m.graph.unary(HloOpcode::kAbs, y), 0.5));
    case 3:
      return m.graph.binary(HloOpcode::kMaximum, x, y);
    case 4:
      return m.graph.binary(HloOpcode::kMinimum, x, y);
    case 5:
      return m.graph.binary(HloOpcode::kPower,
                            m.graph.offset(m.graph.unary(HloOpcode::kAbs, limited(m, x)), 0.25),
                            m.graph.unary(HloOpcode::kTanh, y));
    default:
      return m.graph.add(x, y);
  }
}

inline Tensor unary(RandomMaterial& m, Tensor x) {
  switch (m.below(12)) {
    case 0:
      return m.graph.unary(HloOpcode::kExponential, limited(m, x));
    case 1:
      return m.graph.unary(HloOpcode::kLog, positive(m, x));
    case 2:
      return m.graph.unary(HloOpcode::kSqrt, positive(m, x));
    case 3:
      return m.graph.unary(HloOpcode::kRsqrt, positive(m, x));
    case 4:
      return m.graph.unary(HloOpcode::kTanh, x);
    case 5:
      return m.graph.unary(HloOpcode::kLogistic, x);
    case 6:
      return m.graph.unary(HloOpcode::kAbs, x);
    case 7:
      return m.graph.unary(HloOpcode::kExponentialMinusOne, limited(m, x));
    case 8:
      return m.graph.unary(HloOpcode::kLogPlusOne, positive(m, x));
    case 9:
      return m.graph.unary(HloOpcode::kFloor, off_edges(m, m.graph.scale(x, 1.7)));
    case 10:
      return m.graph.unary(HloOpcode::kSign, off_edges(m, x));
    default:
      return m.graph.unary(HloOpcode::kNegate, x);
  }
}

inline Tensor integer_operation(RandomMaterial& m, Tensor x) {
  static constexpr HloOpcode kOpcodes[] = {
      HloOpcode::kAdd, HloOpcode::kSubtract, HloOpcode::kMaximum, HloOpcode::kMinimum,
      HloOpcode::kAnd, HloOpcode::kOr,       HloOpcode::kXor,     HloOpcode::kMultiply};
  const HloOpcode opcode = kOpcodes[m.below(std::size(kOpcodes))];
  Tensor y = m.partner(m.extents_of(x), ElementType::kS32);
  if (opcode == HloOpcode::kMultiply) {
    const Tensor mask = m.graph.splat_like(x, 63);
    x = m.graph.binary(HloOpcode::kAnd, x, mask);
    y = m.graph.binary(HloOpcode::kAnd, y, mask);
  }
  return m.graph.binary(opcode, x, y);
}

/// A select by a comparison, or the comparison.
inline Tensor choice(RandomMaterial& m, Tensor x) {
  const ElementType type = m.graph.type(x);
  // Whether two rounded numbers are equal is chance.
  const auto direction = static_cast<hlo::ComparisonDirection>(
      type == ElementType::kS32 ? m.below(6) : 2 + m.below(4));
  Tensor other = m.partner(m.extents_of(x), type);
  if (type == ElementType::kF32) other = off_edges(m, other);
  const Tensor condition = m.graph.compare(x, other, direction);
  if (m.one_in(4)) return condition;
  return m.graph.select(condition, x, m.partner(m.extents_of(x), type));
}

inline void add_elementwise(RandomMaterial& m) {
  const Tensor x = m.any();
  switch (m.below(5)) {
    case 0:
    case 1:
      m.keep(m.graph.type(x) == ElementType::kS32 ? integer_operation(m, x)
                                                  : binary(m, m.number(x)));
      break;
    case 2:
      m.keep(unary(m, m.number(x)));
      break;
    case 3:
      m.keep(choice(m, m.graph.type(x) == ElementType::kPred ? m.number(x) : x));
      break;
    default:
      m.keep(m.converted(x, m.random_type()));
  }
}

inline void add_reduction(RandomMaterial& m) {
  Tensor x = m.any();
  if (m.graph.type(x) == ElementType::kPred || m.graph.type(x) == ElementType::kU32) {
    x = m.number(x);
  }
  const Extents extents = m.extents_of(x);
  if (extents.empty()) return add_elementwise(m);
  Extents dimensions, kept, kept_dimensions;
  const std::size_t always = m.below(extents.size());
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (d == always || m.one_in(2)) {
      dimensions.push_back(static_cast<std::int64_t>(d));
    } else {
      kept.push_back(extents[d]);
      kept_dimensions.push_back(static_cast<std::int64_t>(d));
    }
  }
  const bool sums = m.graph.type(x) != ElementType::kS32 && !m.one_in(3);
  if (m.graph.type(x) == ElementType::kS32) x = m.number(x);
  const Tensor reduced =
      sums ? m.graph.reduce_sum(x, dimensions) : m.graph.reduce_max(x, dimensions);
  m.keep(reduced);
  // As in a softmax or a normalisation: back to the extent of the operand.
  if (m.one_in(2))
    m.keep(m.graph.subtract(x, m.graph.broadcast(reduced, extents, kept_dimensions)));
}

}  // namespace tpu::test
