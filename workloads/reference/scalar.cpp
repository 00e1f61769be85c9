#include "workloads/reference/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "sim/base/error.h"

namespace tpu::reference {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloOpcode;

namespace {

bool is_unsigned(ElementType type) {
  return type == ElementType::kU8 || type == ElementType::kU16 || type == ElementType::kU32 ||
         type == ElementType::kU64 || type == ElementType::kPred;
}

std::uint64_t bits_of(std::int64_t value) { return static_cast<std::uint64_t>(value); }
std::int64_t of_bits(std::uint64_t value) { return static_cast<std::int64_t>(value); }

/// The bits of the type, without the sign's extension.
std::uint64_t masked(std::int64_t value, ElementType type) {
  const int width = 8 * hlo::byte_size(type);
  return width == 64 ? bits_of(value) : bits_of(value) & ((std::uint64_t{1} << width) - 1);
}

std::int64_t power_of(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  std::uint64_t result = 1;
  std::uint64_t factor = bits_of(base);
  for (std::uint64_t rest = bits_of(exponent); rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) result *= factor;
    factor *= factor;
  }
  return of_bits(result);
}

/// The upper half of a product's bits.
std::int64_t high_product(std::int64_t a, std::int64_t b, ElementType type) {
  __extension__ using Wide = __int128;
  const int width = 8 * hlo::byte_size(type);
  if (!is_unsigned(type)) return static_cast<std::int64_t>((static_cast<Wide>(a) * b) >> width);
  __extension__ using WideUnsigned = unsigned __int128;
  const WideUnsigned product = static_cast<WideUnsigned>(masked(a, type)) * masked(b, type);
  return of_bits(static_cast<std::uint64_t>(product >> width));
}

/// Division as XLA defines it: by zero gives all ones, the most negative by -1 itself.
std::int64_t quotient(std::int64_t a, std::int64_t b, ElementType type) {
  if (b == 0) return -1;
  if (is_unsigned(type)) return of_bits(bits_of(a) / bits_of(b));
  return b == -1 ? of_bits(-bits_of(a)) : a / b;
}
std::int64_t remainder_of(std::int64_t a, std::int64_t b, ElementType type) {
  if (b == 0) return a;
  if (is_unsigned(type)) return of_bits(bits_of(a) % bits_of(b));
  return b == -1 ? 0 : a % b;
}

bool shifts_out(std::int64_t amount, ElementType type) {
  return masked(amount, type) >=
         std::uint64_t{8} * static_cast<std::uint64_t>(hlo::byte_size(type));
}

double maximum(double a, double b) { return std::isnan(a) ? a : (a >= b ? a : b); }
double minimum(double a, double b) { return std::isnan(a) ? a : (a <= b ? a : b); }

}  // namespace

NumberFunction1 number_function1(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kNegate:
      return [](double x) { return -x; };
    case HloOpcode::kAbs:
      return [](double x) { return std::fabs(x); };
    case HloOpcode::kSign:
      return [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; };
    case HloOpcode::kExponential:
      return [](double x) { return std::exp(x); };
    case HloOpcode::kExponentialMinusOne:
      return [](double x) { return std::expm1(x); };
    case HloOpcode::kLog:
      return [](double x) { return std::log(x); };
    case HloOpcode::kLogPlusOne:
      return [](double x) { return std::log1p(x); };
    case HloOpcode::kSqrt:
      return [](double x) { return std::sqrt(x); };
    case HloOpcode::kRsqrt:
      return [](double x) { return 1 / std::sqrt(x); };
    case HloOpcode::kCbrt:
      return [](double x) { return std::cbrt(x); };
    case HloOpcode::kTanh:
      return [](double x) { return std::tanh(x); };
    case HloOpcode::kLogistic:
      return [](double x) { return 1 / (1 + std::exp(-x)); };
    case HloOpcode::kSine:
      return [](double x) { return std::sin(x); };
    case HloOpcode::kCosine:
      return [](double x) { return std::cos(x); };
    case HloOpcode::kTan:
      return [](double x) { return std::tan(x); };
    case HloOpcode::kErf:
      return [](double x) { return std::erf(x); };
    case HloOpcode::kFloor:
      return [](double x) { return std::floor(x); };
    case HloOpcode::kCeil:
      return [](double x) { return std::ceil(x); };
    case HloOpcode::kRoundNearestAfz:
      return [](double x) { return std::round(x); };
    case HloOpcode::kRoundNearestEven:
      return [](double x) { return std::nearbyint(x); };
    default:
      return nullptr;
  }
}

NumberFunction2 number_function2(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kAdd:
      return [](double a, double b) { return a + b; };
    case HloOpcode::kSubtract:
      return [](double a, double b) { return a - b; };
    case HloOpcode::kMultiply:
      return [](double a, double b) { return a * b; };
    case HloOpcode::kDivide:
      return [](double a, double b) { return a / b; };
    case HloOpcode::kMaximum:
      return maximum;
    case HloOpcode::kMinimum:
      return minimum;
    case HloOpcode::kPower:
      return [](double a, double b) { return std::pow(a, b); };
    case HloOpcode::kRemainder:
      return [](double a, double b) { return std::fmod(a, b); };
    case HloOpcode::kAtan2:
      return [](double a, double b) { return std::atan2(a, b); };
    default:
      return nullptr;
  }
}

IntegerFunction1 integer_function1(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kNegate:
      return [](std::int64_t x, ElementType) { return of_bits(-bits_of(x)); };
    case HloOpcode::kAbs:
      return [](std::int64_t x, ElementType type) {
        return x < 0 && !is_unsigned(type) ? of_bits(-bits_of(x)) : x;
      };
    case HloOpcode::kSign:
      return [](std::int64_t x, ElementType type) {
        return std::int64_t{x == 0 ? 0 : x < 0 && !is_unsigned(type) ? -1 : 1};
      };
    case HloOpcode::kNot:
      return [](std::int64_t x, ElementType type) {
        return type == ElementType::kPred ? std::int64_t{x == 0} : ~x;
      };
    case HloOpcode::kPopcnt:
      return [](std::int64_t x, ElementType type) {
        return std::int64_t{__builtin_popcountll(masked(x, type))};
      };
    case HloOpcode::kCountLeadingZeros:
      return [](std::int64_t x, ElementType type) {
        const std::uint64_t bits = masked(x, type);
        const int width = 8 * hlo::byte_size(type);
        return std::int64_t{bits == 0 ? width : __builtin_clzll(bits) - (64 - width)};
      };
    default:
      return nullptr;
  }
}

IntegerFunction2 integer_function2(HloOpcode opcode) {
  using Integer = std::int64_t;
  switch (opcode) {
    case HloOpcode::kAdd:
      return [](Integer a, Integer b, ElementType) { return of_bits(bits_of(a) + bits_of(b)); };
    case HloOpcode::kSubtract:
      return [](Integer a, Integer b, ElementType) { return of_bits(bits_of(a) - bits_of(b)); };
    case HloOpcode::kMultiply:
      return [](Integer a, Integer b, ElementType) { return of_bits(bits_of(a) * bits_of(b)); };
    case HloOpcode::kMulhi:
      return high_product;
    case HloOpcode::kDivide:
      return quotient;
    case HloOpcode::kRemainder:
      return remainder_of;
    case HloOpcode::kPower:
      return [](Integer a, Integer b, ElementType) { return power_of(a, b); };
    case HloOpcode::kMaximum:
      return [](Integer a, Integer b, ElementType type) {
        return compare_integers(ComparisonDirection::kGe, a, b, type) ? a : b;
      };
    case HloOpcode::kMinimum:
      return [](Integer a, Integer b, ElementType type) {
        return compare_integers(ComparisonDirection::kLe, a, b, type) ? a : b;
      };
    case HloOpcode::kAnd:
      return [](Integer a, Integer b, ElementType) { return a & b; };
    case HloOpcode::kOr:
      return [](Integer a, Integer b, ElementType) { return a | b; };
    case HloOpcode::kXor:
      return [](Integer a, Integer b, ElementType) { return a ^ b; };
    case HloOpcode::kShiftLeft:
      return [](Integer a, Integer b, ElementType type) {
        return shifts_out(b, type) ? 0 : of_bits(bits_of(a) << bits_of(b));
      };
    case HloOpcode::kShiftRightLogical:
      return [](Integer a, Integer b, ElementType type) {
        return shifts_out(b, type) ? 0 : of_bits(masked(a, type) >> bits_of(b));
      };
    case HloOpcode::kShiftRightArithmetic:
      return [](Integer a, Integer b, ElementType type) {
        // The highest bit is a sign in unsigned types too, as XLA has it.
        const int unused = 64 - 8 * hlo::byte_size(type);
        const Integer value = of_bits(masked(a, type) << unused) >> unused;
        return value >> (shifts_out(b, type) ? 63 : b);
      };
    default:
      return nullptr;
  }
}

namespace {

template <class Number>
bool compare_with(ComparisonDirection direction, Number a, Number b) {
  switch (direction) {
    case ComparisonDirection::kEq:
      return a == b;
    case ComparisonDirection::kNe:
      return a != b;
    case ComparisonDirection::kLt:
      return a < b;
    case ComparisonDirection::kLe:
      return a <= b;
    case ComparisonDirection::kGt:
      return a > b;
    case ComparisonDirection::kGe:
      return a >= b;
  }
  return false;
}

}  // namespace

bool compare_numbers(ComparisonDirection direction, double a, double b) {
  return compare_with(direction, a, b);
}

namespace {

/// Numbers of at most 32 bits in the order of their bits: -NaN, -inf, ..., -0, 0, ..., inf, NaN.
std::int64_t place_in_total_order(double number) {
  const auto narrow = static_cast<float>(number);
  std::int32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof bits);
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}

bool compare_floating(const hlo::HloInstruction& compare, double a, double b) {
  if (compare.raw_attributes->find("TOTALORDER") == std::string::npos) {
    return compare_numbers(compare.direction, a, b);
  }
  return compare_with(compare.direction, place_in_total_order(a), place_in_total_order(b));
}

}  // namespace

bool compare_integers(ComparisonDirection direction, std::int64_t a, std::int64_t b,
                      ElementType type) {
  if (is_unsigned(type)) return compare_with(direction, bits_of(a), bits_of(b));
  return compare_with(direction, a, b);
}

namespace {

/// Truncates towards zero; beyond the type's range its nearest end, NaN gives 0. A pred is whether
/// the value is not 0, which NaN is not.
std::int64_t saturated(double value, ElementType type) {
  if (type == ElementType::kPred) return value != 0 ? 1 : 0;
  if (std::isnan(value)) return 0;
  const int width = 8 * hlo::byte_size(type);
  const double low = is_unsigned(type) ? 0 : -std::ldexp(1.0, width - 1);
  const double limit = std::ldexp(1.0, is_unsigned(type) ? width : width - 1);
  if (value <= low) return is_unsigned(type) ? 0 : of_bits(~std::uint64_t{0} << (width - 1));
  if (value >= limit) {
    const int bits = is_unsigned(type) ? width : width - 1;
    return of_bits(bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1);
  }
  if (type == ElementType::kU64) return of_bits(static_cast<std::uint64_t>(value));
  return static_cast<std::int64_t>(value);
}

}  // namespace

Scalar convert_scalar(ElementType from, ElementType to, Scalar value) {
  Scalar result;
  if (is_floating(from)) {
    if (is_floating(to)) {
      result.number = round_to(to, value.number);
    } else {
      result.integer = saturated(value.number, to);
    }
  } else if (is_floating(to)) {
    const double number = from == ElementType::kU64 ? static_cast<double>(bits_of(value.integer))
                                                    : static_cast<double>(value.integer);
    result.number = round_to(to, number);
  } else {
    result.integer = wrap_to(to, value.integer);
  }
  return result;
}

Scalar element(const Value& value, std::size_t i) {
  Scalar scalar;
  if (value.numbers.empty()) {
    scalar.integer = value.integers[i];
  } else {
    scalar.number = static_cast<double>(value.numbers[i]);
  }
  return scalar;
}

void set_element(Value& value, std::size_t i, Scalar scalar) {
  if (value.numbers.empty()) {
    value.integers[i] = wrap_to(value.shape.type, scalar.integer);
  } else {
    value.numbers[i] = round_to(value.shape.type, scalar.number);
  }
}

ScalarComputation::ScalarComputation(const hlo::Module& module, hlo::ComputationId id)
    : computation_(module.computation(id)), values_(computation_.instructions.size()) {
  const hlo::HloInstruction& root = computation_.at(computation_.root);
  if (computation_.instructions.size() == 3 && root.operands.size() == 2) {
    const hlo::HloInstruction& a = computation_.at(root.operands[0]);
    const hlo::HloInstruction& b = computation_.at(root.operands[1]);
    if (a.opcode == HloOpcode::kParameter && a.parameter_number == 0 &&
        b.opcode == HloOpcode::kParameter && b.parameter_number == 1) {
      single_ = root.opcode;
      single_number_ = number_function2(single_);
    }
  }
}

const std::vector<Scalar>& ScalarComputation::run(const std::vector<Scalar>& parameters) {
  for (const hlo::HloInstruction& instruction : computation_.instructions) {
    if (instruction.opcode == HloOpcode::kTuple) continue;
    values_[static_cast<std::size_t>(instruction.id)] =
        instruction.opcode == HloOpcode::kParameter
            ? parameters.at(static_cast<std::size_t>(instruction.parameter_number))
            : evaluate(instruction);
  }
  results_.clear();
  const hlo::HloInstruction& root = computation_.at(computation_.root);
  if (root.opcode != HloOpcode::kTuple) {
    results_.push_back(values_[static_cast<std::size_t>(root.id)]);
  } else {
    for (hlo::InstructionId operand : root.operands) {
      results_.push_back(values_[static_cast<std::size_t>(operand)]);
    }
  }
  return results_;
}

Scalar ScalarComputation::run(Scalar a, Scalar b) {
  const hlo::Shape& type = computation_.instructions.front().shape;
  if (is_floating(type.type)) {
    Scalar result;
    if (single_number_ != nullptr) {
      result.number = round_to(type.type, single_number_(a.number, b.number));
      return result;
    }
    if (single_ == HloOpcode::kCompare) {
      result.integer = compare_floating(computation_.at(computation_.root), a.number, b.number);
      return result;
    }
  }
  return run({a, b}).front();
}

Scalar ScalarComputation::evaluate(const hlo::HloInstruction& instruction) const {
  const auto operand = [&](std::size_t i) {
    return values_[static_cast<std::size_t>(instruction.operands[i])];
  };
  const HloOpcode opcode = instruction.opcode;
  const ElementType type = instruction.shape.type;
  const ElementType from =
      instruction.operands.empty() ? type : computation_.at(instruction.operands[0]).shape.type;
  Scalar result;
  if (opcode == HloOpcode::kConstant && instruction.shape.rank() == 0 &&
      !instruction.literal.empty()) {
    return element(from_bytes(instruction.shape, instruction.literal), 0);
  }
  if (opcode == HloOpcode::kConvert) return convert_scalar(from, type, operand(0));
  if (opcode == HloOpcode::kCopy || opcode == HloOpcode::kReshape ||
      opcode == HloOpcode::kBitcast) {
    return operand(0);
  }
  if (opcode == HloOpcode::kSelect) return operand(0).integer != 0 ? operand(1) : operand(2);
  if (opcode == HloOpcode::kCompare) {
    result.integer =
        is_floating(from)
            ? compare_floating(instruction, operand(0).number, operand(1).number)
            : compare_integers(instruction.direction, operand(0).integer, operand(1).integer, from);
    return result;
  }
  if (is_floating(type) && instruction.operands.size() == 1 &&
      number_function1(opcode) != nullptr) {
    result.number = round_to(type, number_function1(opcode)(operand(0).number));
  } else if (is_floating(type) && instruction.operands.size() == 2 &&
             number_function2(opcode) != nullptr) {
    result.number = round_to(type, number_function2(opcode)(operand(0).number, operand(1).number));
  } else if (!is_floating(type) && instruction.operands.size() == 1 &&
             integer_function1(opcode) != nullptr) {
    result.integer = wrap_to(type, integer_function1(opcode)(operand(0).integer, type));
  } else if (!is_floating(type) && instruction.operands.size() == 2 &&
             integer_function2(opcode) != nullptr) {
    result.integer =
        wrap_to(type, integer_function2(opcode)(operand(0).integer, operand(1).integer, type));
  } else {
    throw WorkloadError("the reference interpreter: expected scalar arithmetic in computation \"" +
                        computation_.name + "\", found " + std::string(hlo::to_string(opcode)) +
                        " " + hlo::to_string(instruction.shape, false));
  }
  return result;
}

}  // namespace tpu::reference
