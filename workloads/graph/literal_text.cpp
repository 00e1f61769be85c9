#include "workloads/graph/literal_text.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "sim/base/error.h"
#include "workloads/graph/small_floats.h"

namespace tpu::hlo {

namespace {

template <class Value>
Value load(const std::uint8_t* bytes) {
  Value value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// "nan", with the bits of the fraction where they are not the usual ones.
std::string nan_text(std::uint64_t bits, int fraction_bits, bool negative) {
  const std::uint64_t payload = bits & ((std::uint64_t{1} << fraction_bits) - 1);
  std::string text = negative ? "-nan" : "nan";
  if (payload == std::uint64_t{1} << (fraction_bits - 1)) return text;
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, payload, 16);
  return text + "(0x" + std::string(digits, end.ptr) + ")";
}

/// As printf's %.*g writes it.
std::string decimal(double value, int digits) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const std::to_chars_result end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, digits);
  return std::string(buffer, end.ptr);
}

/// A decimal that reads back as the same number: with the digits that the type always keeps, or
/// those that always identify one of its numbers, as XLA writes it.
template <class Float>
std::string finite_text(Float value) {
  using Limits = std::numeric_limits<Float>;
  const std::string text = decimal(value, Limits::digits10);
  Float again = 0;
  std::from_chars(text.data(), text.data() + text.size(), again);
  return std::isinf(value) || again == value ? text : decimal(value, Limits::max_digits10);
}

std::string f32_text(const std::uint8_t* bytes) {
  const float value = load<float>(bytes);
  if (std::isnan(value)) return nan_text(load<std::uint32_t>(bytes), 23, std::signbit(value));
  return finite_text(value);
}

std::string f64_text(const std::uint8_t* bytes) {
  const double value = load<double>(bytes);
  if (std::isnan(value)) return nan_text(load<std::uint64_t>(bytes), 52, std::signbit(value));
  return finite_text(value);
}

std::string small_float_text(const FloatFormat& format, std::uint32_t bits) {
  const float value = float_of_bits(format, bits);
  if (!std::isnan(value)) {
    constexpr double kDigitsPerBit = 0.30102999566398;
    std::string text = decimal(value, static_cast<int>(format.fraction_bits * kDigitsPerBit));
    double again = value;
    if (!std::isinf(value)) std::from_chars(text.data(), text.data() + text.size(), again);
    if (bits_of_float(format, again) == bits) return text;
    return decimal(value, static_cast<int>((format.fraction_bits + 1) * kDigitsPerBit) + 2);
  }
  if (format.special != FloatFormat::Special::kIeee) return std::signbit(value) ? "-nan" : "nan";
  return nan_text(bits, format.fraction_bits, std::signbit(value));
}

std::string element_text(ElementType type, const std::uint8_t* bytes, bool scalar) {
  switch (type) {
    case ElementType::kPred:
      if (scalar) return *bytes != 0 ? "true" : "false";
      return *bytes != 0 ? "1" : "0";
    case ElementType::kS8:
    case ElementType::kS1:
    case ElementType::kS2:
    case ElementType::kS4:
      return std::to_string(load<std::int8_t>(bytes));
    case ElementType::kS16:
      return std::to_string(load<std::int16_t>(bytes));
    case ElementType::kS32:
      return std::to_string(load<std::int32_t>(bytes));
    case ElementType::kS64:
      return std::to_string(load<std::int64_t>(bytes));
    case ElementType::kU8:
    case ElementType::kU1:
    case ElementType::kU2:
    case ElementType::kU4:
      return std::to_string(load<std::uint8_t>(bytes));
    case ElementType::kU16:
      return std::to_string(load<std::uint16_t>(bytes));
    case ElementType::kU32:
      return std::to_string(load<std::uint32_t>(bytes));
    case ElementType::kU64:
      return std::to_string(load<std::uint64_t>(bytes));
    case ElementType::kF32:
      return f32_text(bytes);
    case ElementType::kF64:
      return f64_text(bytes);
    case ElementType::kC64:
      return "(" + f32_text(bytes) + ", " + f32_text(bytes + 4) + ")";
    case ElementType::kC128:
      return "(" + f64_text(bytes) + ", " + f64_text(bytes + 8) + ")";
    default:
      break;
  }
  if (const std::optional<FloatFormat> format = float_format(type)) {
    return small_float_text(
        *format, byte_size(type) == 2 ? load<std::uint16_t>(bytes) : load<std::uint8_t>(bytes));
  }
  throw WorkloadError("a constant: expected an array, found a " + std::string(to_string(type)));
}

/// Appends the elements of one dimension and those within it.
void append_array(const Shape& shape, std::size_t dimension, const std::uint8_t*& bytes,
                  std::string& text) {
  if (dimension == shape.dimensions.size()) {
    text += element_text(shape.type, bytes, dimension == 0);
    bytes += byte_size(shape.type);
    return;
  }
  text += '{';
  for (std::int64_t i = 0; i < shape.dimensions[dimension]; ++i) {
    if (i > 0) text += ", ";
    append_array(shape, dimension + 1, bytes, text);
  }
  text += '}';
}

void append_value(const Shape& shape, const std::uint8_t*& bytes, std::string& text) {
  if (!shape.is_tuple()) {
    if (shape.element_count() == 0) {
      text += "{}";
    } else {
      append_array(shape, 0, bytes, text);
    }
    return;
  }
  text += '(';
  for (std::size_t i = 0; i < shape.elements.size(); ++i) {
    if (i > 0) text += ", ";
    append_value(shape.elements[i], bytes, text);
  }
  text += ')';
}

}  // namespace

void append_literal(const HloInstruction& constant, std::string& text) {
  if (constant.literal.empty() && constant.shape.unpadded_bytes() > 0) {
    text += "{...}";
    return;
  }
  const std::uint8_t* bytes = constant.literal.data();
  append_value(constant.shape, bytes, text);
}

}  // namespace tpu::hlo
