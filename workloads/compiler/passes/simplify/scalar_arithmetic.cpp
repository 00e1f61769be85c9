#include "workloads/compiler/passes/simplify/scalar_arithmetic.h"

#include <cmath>

#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Result = std::optional<double>;

bool holds(hlo::ComparisonDirection direction, double a, double b) {
  switch (direction) {
    case hlo::ComparisonDirection::kEq:
      return a == b;
    case hlo::ComparisonDirection::kNe:
      return a != b;
    case hlo::ComparisonDirection::kLt:
      return a < b;
    case hlo::ComparisonDirection::kLe:
      return a <= b;
    case hlo::ComparisonDirection::kGt:
      return a > b;
    case hlo::ComparisonDirection::kGe:
      return a >= b;
  }
  return false;
}

template <class Float>
Result of_float(HloOpcode opcode, Float a) {
  switch (opcode) {
    case HloOpcode::kNegate:
      return -a;
    case HloOpcode::kAbs:
      return std::fabs(a);
    case HloOpcode::kExponential:
      return std::exp(a);
    case HloOpcode::kLog:
      return std::log(a);
    case HloOpcode::kSqrt:
      return std::sqrt(a);
    case HloOpcode::kRsqrt:
      return 1 / std::sqrt(a);
    case HloOpcode::kTanh:
      return std::tanh(a);
    case HloOpcode::kFloor:
      return std::floor(a);
    case HloOpcode::kCeil:
      return std::ceil(a);
    default:
      return std::nullopt;
  }
}

template <class Float>
Result of_floats(HloOpcode opcode, Float a, Float b) {
  const bool is_nan = std::isnan(a) || std::isnan(b);
  switch (opcode) {
    case HloOpcode::kAdd:
      return a + b;
    case HloOpcode::kSubtract:
      return a - b;
    case HloOpcode::kMultiply:
      return a * b;
    case HloOpcode::kDivide:
      return a / b;
    case HloOpcode::kMaximum:
      return is_nan ? a + b : std::fmax(a, b);
    case HloOpcode::kMinimum:
      return is_nan ? a + b : std::fmin(a, b);
    case HloOpcode::kPower:
      return std::pow(a, b);
    default:
      return std::nullopt;
  }
}

/// Before it is wrapped to its type.
std::optional<std::int64_t> of_integer(HloOpcode opcode, std::int64_t a) {
  switch (opcode) {
    case HloOpcode::kNegate:
      return -a;
    case HloOpcode::kAbs:
      return a < 0 ? -a : a;
    case HloOpcode::kNot:
      return ~a;
    default:
      return std::nullopt;
  }
}

std::optional<std::int64_t> of_integers(HloOpcode opcode, std::int64_t a, std::int64_t b,
                                        bool is_signed) {
  const bool shifts_out = b < 0 || b > 31;
  switch (opcode) {
    case HloOpcode::kAdd:
      return a + b;
    case HloOpcode::kSubtract:
      return a - b;
    case HloOpcode::kMultiply:
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) *
                                       static_cast<std::uint64_t>(b));
    case HloOpcode::kDivide:
      if (b == 0) return std::nullopt;
      return a / b;
    case HloOpcode::kMaximum:
      return a > b ? a : b;
    case HloOpcode::kMinimum:
      return a < b ? a : b;
    case HloOpcode::kAnd:
      return a & b;
    case HloOpcode::kOr:
      return a | b;
    case HloOpcode::kXor:
      return a ^ b;
    case HloOpcode::kShiftLeft:
      return shifts_out ? 0 : a << b;
    case HloOpcode::kShiftRightArithmetic:
      if (!is_signed || shifts_out) return std::nullopt;
      return a >> b;
    default:
      return std::nullopt;
  }
}

Result of_predicates(HloOpcode opcode, bool a, bool b) {
  switch (opcode) {
    case HloOpcode::kNot:
      return !a;
    case HloOpcode::kAnd:
      return a && b;
    case HloOpcode::kOr:
      return a || b;
    case HloOpcode::kXor:
      return a != b;
    default:
      return std::nullopt;
  }
}

bool has_sign(ElementType type) {
  return type == ElementType::kS8 || type == ElementType::kS16 || type == ElementType::kS32 ||
         type == ElementType::kS64;
}
bool is_integer(ElementType type) {
  return has_sign(type) || type == ElementType::kU8 || type == ElementType::kU16 ||
         type == ElementType::kU32 || type == ElementType::kU64;
}

/// The low bits of a whole number as the type has them.
double wrapped(ElementType type, std::int64_t value) {
  const int unused = 64 - 8 * hlo::byte_size(type);
  const std::uint64_t high = static_cast<std::uint64_t>(value) << unused;
  return has_sign(type) ? static_cast<double>(static_cast<std::int64_t>(high) >> unused)
                        : static_cast<double>(high >> unused);
}

/// An integer of 64 bits; none beyond what a double holds.
Result whole(ElementType type, double value) {
  constexpr double kExact = 9007199254740992.0;
  if (!(std::fabs(value) < kExact) || (value < 0 && !has_sign(type))) return std::nullopt;
  return std::trunc(value);
}

Result of_long_integers(ElementType type, HloOpcode opcode, const std::vector<double>& operands) {
  if (opcode == HloOpcode::kDivide && operands.at(1) == 0) return std::nullopt;
  const Result result = operands.size() == 1 ? of_float(opcode, operands[0])
                                             : of_floats(opcode, operands[0], operands[1]);
  return result ? whole(type, *result) : std::nullopt;
}

Result converted(ElementType from, ElementType to, double value) {
  if (to == ElementType::kPred) return value != 0;
  if (!is_integer(to)) return rounded_to(to, value);
  if (hlo::byte_size(to) == 8) return whole(to, value);
  if (is_integer(from) && hlo::byte_size(from) <= 4) {
    return wrapped(to, static_cast<std::int64_t>(value));
  }
  const Result number = whole(ElementType::kS64, value);
  const bool fits = number && wrapped(to, static_cast<std::int64_t>(*number)) == *number;
  return fits ? number : std::nullopt;
}

}  // namespace

Result scalar_result(const HloInstruction& instruction, ElementType from,
                     const std::vector<double>& operands) {
  const HloOpcode opcode = instruction.opcode;
  const ElementType type = instruction.shape.type;
  if (operands.size() == 3) {
    if (opcode == HloOpcode::kSelect) return operands[0] != 0 ? operands[1] : operands[2];
    if (opcode != HloOpcode::kClamp) return std::nullopt;
    return std::fmin(std::fmax(operands[1], operands[0]), operands[2]);
  }
  if (operands.empty() || operands.size() > 2) return std::nullopt;
  const bool is_binary = operands.size() == 2;
  const double a = operands[0], b = is_binary ? operands[1] : 0;
  if (opcode == HloOpcode::kConvert) return converted(from, type, a);
  if (opcode == HloOpcode::kIsFinite) return std::isfinite(a);
  if (opcode == HloOpcode::kCompare) return holds(instruction.direction, a, b);
  if (type == ElementType::kPred) return of_predicates(opcode, a != 0, b != 0);
  if (is_float(type)) {
    const auto x = static_cast<float>(a), y = static_cast<float>(b);
    const Result result = is_binary ? of_floats(opcode, x, y) : of_float(opcode, x);
    return result ? Result(rounded_to(type, *result)) : std::nullopt;
  }
  if (is_integer(type) && hlo::byte_size(type) <= 4) {
    const auto x = static_cast<std::int64_t>(a), y = static_cast<std::int64_t>(b);
    const auto result =
        is_binary ? of_integers(opcode, x, y, has_sign(type)) : of_integer(opcode, x);
    return result ? Result(wrapped(type, *result)) : std::nullopt;
  }
  if (is_integer(type)) return of_long_integers(type, opcode, operands);
  return is_binary ? of_floats(opcode, a, b) : of_float(opcode, a);
}

}  // namespace tpu::compiler
