#include "workloads/compiler/passes/simplify/constant_folding.h"

#include <cmath>
#include <cstring>
#include <optional>

#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/passes/simplify/scalar_arithmetic.h"
#include "workloads/graph/small_floats.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

template <class Number>
Number read_as(const std::vector<std::uint8_t>& bytes) {
  Number value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

template <class Number>
std::vector<std::uint8_t> bytes_of(Number value) {
  std::vector<std::uint8_t> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

float from_bf16(std::uint16_t half) {
  const std::uint32_t word = std::uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

/// Round to nearest even.
std::uint16_t to_bf16(float value) {
  std::uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  if (std::isnan(value)) return static_cast<std::uint16_t>((word >> 16) | 0x40);
  word += 0x7fff + ((word >> 16) & 1);
  return static_cast<std::uint16_t>(word >> 16);
}

float from_f16(std::uint16_t half) {
  return hlo::float_of_bits(*hlo::float_format(ElementType::kF16), half);
}

/// Round to nearest even; infinite beyond the largest.
std::uint16_t to_f16(float value) {
  const auto bits = hlo::bits_of_float(*hlo::float_format(ElementType::kF16), value);
  if (bits) return static_cast<std::uint16_t>(*bits);
  return std::signbit(value) ? 0xfc00 : 0x7c00;
}

}  // namespace

std::optional<double> scalar_value(const HloInstruction& constant) {
  const auto size = static_cast<std::size_t>(hlo::byte_size(constant.shape.type));
  if (constant.literal.size() < size) return std::nullopt;  // Elided in the HLO text.
  switch (constant.shape.type) {
    case ElementType::kF32:
      return read_as<float>(constant.literal);
    case ElementType::kBf16:
      return from_bf16(read_as<std::uint16_t>(constant.literal));
    case ElementType::kS32:
      return read_as<std::int32_t>(constant.literal);
    case ElementType::kU32:
      return read_as<std::uint32_t>(constant.literal);
    case ElementType::kPred:
      return read_as<std::uint8_t>(constant.literal) != 0 ? 1.0 : 0.0;
    case ElementType::kS8:
      return read_as<std::int8_t>(constant.literal);
    case ElementType::kU8:
      return read_as<std::uint8_t>(constant.literal);
    case ElementType::kS16:
      return read_as<std::int16_t>(constant.literal);
    case ElementType::kU16:
      return read_as<std::uint16_t>(constant.literal);
    case ElementType::kF16:
      return from_f16(read_as<std::uint16_t>(constant.literal));
    case ElementType::kF64:
      return read_as<double>(constant.literal);
    case ElementType::kS64:
      return static_cast<double>(read_as<std::int64_t>(constant.literal));
    default: {
      const auto format = hlo::float_format(constant.shape.type);
      if (!format || size != 1) return std::nullopt;
      return hlo::float_of_bits(*format, constant.literal[0]);
    }
  }
}

std::optional<double> splat_value(const hlo::Computation& computation, hlo::InstructionId id) {
  while (computation.at(id).opcode == HloOpcode::kBroadcast) id = computation.at(id).operands[0];
  const HloInstruction& made = computation.at(id);
  const bool is_scalar =
      made.opcode == HloOpcode::kConstant && !made.shape.is_tuple() && made.shape.rank() == 0;
  return is_scalar ? scalar_value(made) : std::nullopt;
}

HloInstruction scalar_constant(ElementType type, double value) {
  HloInstruction constant;
  constant.opcode = HloOpcode::kConstant;
  constant.name = "constant";
  constant.shape = hlo::array_shape(type, {});
  switch (type) {
    case ElementType::kBf16:
      constant.literal = bytes_of(to_bf16(static_cast<float>(value)));
      break;
    case ElementType::kS32:
      constant.literal = bytes_of(static_cast<std::int32_t>(value));
      break;
    case ElementType::kU32:
      constant.literal = bytes_of(static_cast<std::uint32_t>(value));
      break;
    case ElementType::kPred:
      constant.literal = bytes_of(static_cast<std::uint8_t>(value != 0));
      break;
    case ElementType::kS8:
      constant.literal = bytes_of(static_cast<std::int8_t>(value));
      break;
    case ElementType::kU8:
      constant.literal = bytes_of(static_cast<std::uint8_t>(value));
      break;
    case ElementType::kS16:
      constant.literal = bytes_of(static_cast<std::int16_t>(value));
      break;
    case ElementType::kU16:
      constant.literal = bytes_of(static_cast<std::uint16_t>(value));
      break;
    case ElementType::kF16:
      constant.literal = bytes_of(to_f16(static_cast<float>(value)));
      break;
    case ElementType::kF64:
      constant.literal = bytes_of(value);
      break;
    case ElementType::kS64:
      constant.literal = bytes_of(static_cast<std::int64_t>(value));
      break;
    case ElementType::kU64:
      constant.literal = bytes_of(static_cast<std::uint64_t>(value));
      break;
    default:
      if (hlo::byte_size(type) == 1 && hlo::float_format(type)) {
        const hlo::FloatFormat format = *hlo::float_format(type);
        const auto nan = hlo::bits_of_float(format, std::nan(""));
        const auto bits = hlo::bits_of_float(format, value);
        constant.literal = bytes_of(static_cast<std::uint8_t>(bits ? *bits : nan.value_or(0)));
      } else {
        constant.literal = bytes_of(static_cast<float>(value));
      }
      break;
  }
  return constant;
}

double rounded_to(ElementType type, double value) {
  if (!is_float(type)) return value;
  const auto rounded = static_cast<float>(value);
  return type == ElementType::kF32 ? rounded : from_bf16(to_bf16(rounded));
}

std::optional<double> fold_scalar(const HloInstruction& instruction,
                                  const std::vector<const HloInstruction*>& operands) {
  if (operands.empty() || operands.size() > 2) return std::nullopt;
  std::vector<double> values;
  for (const HloInstruction* operand : operands) {
    const std::optional<double> value = scalar_value(*operand);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  const ElementType from = operands[0]->shape.type;
  const ElementType to = instruction.shape.type;
  const auto is_word = [](ElementType type) {
    return type == ElementType::kS32 || type == ElementType::kU32;
  };
  const bool is_known = instruction.opcode == HloOpcode::kConvert
                            ? is_float(to) || from == ElementType::kPred || to == from ||
                                  (is_word(from) && is_word(to))
                            : (is_float(to) && is_float(from)) || (to == from && is_word(to));
  return is_known ? scalar_result(instruction, from, values) : std::nullopt;
}

std::optional<std::vector<std::uint8_t>> sliced_literal(const HloInstruction& slice,
                                                        const HloInstruction& constant) {
  constexpr std::int64_t kMostBytes = 4096;
  const std::int64_t size = hlo::byte_size(constant.shape.type);
  if (size * constant.shape.element_count() != static_cast<std::int64_t>(constant.literal.size()) ||
      size * slice.shape.element_count() > kMostBytes) {
    return std::nullopt;
  }
  std::vector<std::uint8_t> bytes;
  std::vector<std::int64_t> at(slice.shape.rank(), 0);
  for (std::int64_t i = 0; i < slice.shape.element_count(); ++i) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      place = place * constant.shape.dimensions[d] + slice.slice->starts[d] +
              at[d] * slice.slice->strides[d];
    }
    const auto first = constant.literal.begin() + static_cast<std::ptrdiff_t>(place * size);
    bytes.insert(bytes.end(), first, first + static_cast<std::ptrdiff_t>(size));
    for (std::size_t d = at.size(); d-- > 0;) {
      if (++at[d] < slice.shape.dimensions[d]) break;
      at[d] = 0;
    }
  }
  return bytes;
}

bool starts_from_neutral(const hlo::Module& module, const HloInstruction& reduce) {
  const HloInstruction& initial = module.entry_computation().at(reduce.operands[1]);
  if (initial.opcode != HloOpcode::kConstant || reduce.called.empty()) return false;
  const std::optional<double> value = scalar_value(initial);
  if (!value) return false;
  switch (combining_operation(module.computation(reduce.called[0]))) {
    case HloOpcode::kAdd:
      return *value == 0;
    case HloOpcode::kMultiply:
      return *value == 1;
    case HloOpcode::kMaximum:
      return std::isinf(*value) && *value < 0;
    case HloOpcode::kMinimum:
      return std::isinf(*value) && *value > 0;
    default:
      return false;
  }
}

}  // namespace tpu::compiler
