#include <algorithm>
#include <cmath>
#include <string>

#include "sim/base/error.h"
#include "workloads/reference/operations.h"

namespace tpu::reference {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

[[noreturn]] void refuse(const HloInstruction& instruction) {
  throw WorkloadError("the reference interpreter: no meaning for " +
                      std::string(hlo::to_string(instruction.opcode)) + " on " +
                      hlo::to_string(instruction.shape, false) + " (instruction \"" +
                      instruction.name + "\")");
}

void round_all(Value& value) {
  if (value.shape.type == ElementType::kF32) return;
  for (float& number : value.numbers) number = round_to(value.shape.type, number);
}

template <class Function>
void map_numbers(const Value& a, const Value& b, Value& result, Function&& function) {
  const float* left = a.numbers.data();
  const float* right = b.numbers.data();
  for (float& number : result.numbers) {
    number =
        static_cast<float>(function(static_cast<double>(*left++), static_cast<double>(*right++)));
  }
}

Value number_operation(const HloInstruction& instruction, const Operands& operands) {
  Value result = make_value(instruction.shape);
  if (operands.size() == 1) {
    const NumberFunction1 function = number_function1(instruction.opcode);
    if (function == nullptr) refuse(instruction);
    const float* from = operands[0]->numbers.data();
    for (float& number : result.numbers) {
      number = static_cast<float>(function(static_cast<double>(*from++)));
    }
  } else if (instruction.opcode == HloOpcode::kAdd) {
    map_numbers(*operands[0], *operands[1], result, [](double a, double b) { return a + b; });
  } else if (instruction.opcode == HloOpcode::kMultiply) {
    map_numbers(*operands[0], *operands[1], result, [](double a, double b) { return a * b; });
  } else {
    const NumberFunction2 function = number_function2(instruction.opcode);
    if (function == nullptr) refuse(instruction);
    map_numbers(*operands[0], *operands[1], result, function);
  }
  round_all(result);
  return result;
}

Value integer_operation(const HloInstruction& instruction, const Operands& operands) {
  Value result = make_value(instruction.shape);
  const ElementType type = instruction.shape.type;
  const IntegerFunction1 function1 = integer_function1(instruction.opcode);
  const IntegerFunction2 function2 = integer_function2(instruction.opcode);
  if (operands.size() == 1 ? function1 == nullptr : function2 == nullptr) refuse(instruction);
  for (std::size_t i = 0; i < result.integers.size(); ++i) {
    const std::int64_t a = operands[0]->integers[i];
    const std::int64_t value =
        operands.size() == 1 ? function1(a, type) : function2(a, operands[1]->integers[i], type);
    result.integers[i] = wrap_to(type, value);
  }
  return result;
}

Value compare(const HloInstruction& instruction, const Value& a, const Value& b) {
  Value result = make_value(instruction.shape);
  for (std::size_t i = 0; i < result.integers.size(); ++i) {
    result.integers[i] =
        is_floating(a.shape.type)
            ? compare_numbers(instruction.direction, a.numbers[i], b.numbers[i])
            : compare_integers(instruction.direction, a.integers[i], b.integers[i], a.shape.type);
  }
  return result;
}

Value select(const HloInstruction& instruction, const Operands& operands) {
  Value result = make_value(instruction.shape);
  const std::vector<std::int64_t>& condition = operands[0]->integers;
  for (std::size_t i = 0; i < result.numbers.size(); ++i) {
    result.numbers[i] = operands[condition[i] != 0 ? 1 : 2]->numbers[i];
  }
  for (std::size_t i = 0; i < result.integers.size(); ++i) {
    result.integers[i] = operands[condition[i] != 0 ? 1 : 2]->integers[i];
  }
  round_all(result);
  return result;
}

Value clamp(const HloInstruction& instruction, const Operands& operands) {
  Value result = make_value(instruction.shape);
  const auto at = [](const Value& bound, std::size_t i) { return bound.size() == 1 ? 0 : i; };
  const Value& low = *operands[0];
  const Value& x = *operands[1];
  const Value& high = *operands[2];
  const NumberFunction2 larger = number_function2(HloOpcode::kMaximum);
  const NumberFunction2 smaller = number_function2(HloOpcode::kMinimum);
  for (std::size_t i = 0; i < result.numbers.size(); ++i) {
    const double raised = larger(x.numbers[i], low.numbers[at(low, i)]);
    result.numbers[i] = static_cast<float>(smaller(raised, high.numbers[at(high, i)]));
  }
  for (std::size_t i = 0; i < result.integers.size(); ++i) {
    result.integers[i] =
        std::min(std::max(x.integers[i], low.integers[at(low, i)]), high.integers[at(high, i)]);
  }
  return result;
}

Value convert(const HloInstruction& instruction, const Value& x) {
  Value result = make_value(instruction.shape);
  if (is_floating(x.shape.type) && is_floating(result.shape.type)) {
    result.numbers = x.numbers;
    round_all(result);
    return result;
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    set_element(result, i, convert_scalar(x.shape.type, result.shape.type, element(x, i)));
  }
  return result;
}

Value is_finite(const HloInstruction& instruction, const Value& x) {
  Value result = make_value(instruction.shape);
  for (std::size_t i = 0; i < result.integers.size(); ++i) {
    result.integers[i] = std::isfinite(x.numbers[i]) ? 1 : 0;
  }
  return result;
}

/// Rounds to the format that the attributes name, where it is one that XLA's programs use.
Value reduce_precision(const HloInstruction& instruction, const Value& x) {
  Value result = make_value(instruction.shape);
  const auto has = [&](const char* text) {
    return instruction.raw_attributes->find(text) != std::string::npos;
  };
  const bool bf16 = has("exponent_bits=8") && has("mantissa_bits=7");
  const bool f16 = has("exponent_bits=5") && has("mantissa_bits=10");
  if (!bf16 && !f16 && !(has("exponent_bits=8") && has("mantissa_bits=23"))) refuse(instruction);
  for (std::size_t i = 0; i < result.numbers.size(); ++i) {
    const float number = x.numbers[i];
    result.numbers[i] = bf16 ? round_to_bf16(number) : f16 ? round_to_f16(number) : number;
  }
  return result;
}

}  // namespace

Value elementwise(const HloInstruction& instruction, const Operands& operands) {
  switch (instruction.opcode) {
    case HloOpcode::kCompare:
      return compare(instruction, *operands[0], *operands[1]);
    case HloOpcode::kSelect:
      return select(instruction, operands);
    case HloOpcode::kClamp:
      return clamp(instruction, operands);
    case HloOpcode::kConvert:
      return convert(instruction, *operands[0]);
    case HloOpcode::kIsFinite:
      return is_finite(instruction, *operands[0]);
    case HloOpcode::kReducePrecision:
      return reduce_precision(instruction, *operands[0]);
    default:
      return is_floating(instruction.shape.type) ? number_operation(instruction, operands)
                                                 : integer_operation(instruction, operands);
  }
}

}  // namespace tpu::reference
