#include "workloads/reference/value.h"

#include <cmath>
#include <cstring>
#include <string>

#include "sim/base/error.h"

namespace tpu::reference {

using hlo::ElementType;

bool is_floating(ElementType type) {
  return type == ElementType::kF16 || type == ElementType::kBf16 || type == ElementType::kF32;
}

void check_type(const hlo::Shape& shape) {
  for (const hlo::Shape& element : shape.elements) check_type(element);
  if (shape.type == ElementType::kF64 || shape.type == ElementType::kOpaque) {
    throw WorkloadError(
        "the reference interpreter: expected integers, pred, bf16, f16 or f32, found " +
        hlo::to_string(shape, false));
  }
}

Value make_value(const hlo::Shape& shape) {
  check_type(shape);
  Value value;
  value.shape = shape;
  if (shape.is_tuple() || shape.type == ElementType::kToken) return value;
  const std::size_t count = static_cast<std::size_t>(shape.element_count());
  if (is_floating(shape.type)) {
    value.numbers.resize(count);
  } else {
    value.integers.resize(count);
  }
  return value;
}

float round_to_f16(float value) {
  const float magnitude = std::fabs(value);
  if (std::isnan(value) || std::isinf(value) || magnitude == 0) return value;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int lowest_bit = std::max(exponent - 11, -24);
  const float rounded = std::ldexp(std::nearbyint(std::ldexp(value, -lowest_bit)), lowest_bit);
  return std::fabs(rounded) > 65504.0f ? std::copysign(INFINITY, value) : rounded;
}

std::int64_t wrap_to(ElementType type, std::int64_t value) {
  switch (type) {
    case ElementType::kPred:
      return value != 0 ? 1 : 0;
    case ElementType::kS8:
      return static_cast<std::int8_t>(value);
    case ElementType::kS16:
      return static_cast<std::int16_t>(value);
    case ElementType::kS32:
      return static_cast<std::int32_t>(value);
    case ElementType::kU8:
      return static_cast<std::uint8_t>(value);
    case ElementType::kU16:
      return static_cast<std::uint16_t>(value);
    case ElementType::kU32:
      return static_cast<std::uint32_t>(value);
    default:
      return value;
  }
}

namespace {

float f16_number(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const float fraction = static_cast<float>(bits & 1023);
  float value = 0;
  if (exponent == 31) {
    value = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(fraction + 1024, exponent - 25);
  }
  return (bits >> 15) != 0 ? -value : value;
}

std::uint16_t f16_bits(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (std::isinf(value)) return sign | 0x7c00;
  if (magnitude < std::ldexp(1.0f, -14)) {
    return static_cast<std::uint16_t>(sign | static_cast<int>(std::ldexp(magnitude, 24)));
  }
  int exponent = 0;
  const float fraction = std::frexp(magnitude, &exponent);
  const int bits = static_cast<int>(std::ldexp(fraction, 11)) - 1024;
  return static_cast<std::uint16_t>(sign | (exponent + 14) << 10 | bits);
}

float load_number(ElementType type, const std::uint8_t* bytes) {
  if (type == ElementType::kF32) {
    float value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, bytes, sizeof half);
  if (type == ElementType::kF16) return f16_number(half);
  const std::uint32_t bits = std::uint32_t{half} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

void store_number(ElementType type, float value, std::uint8_t* bytes) {
  if (type == ElementType::kF32) {
    std::memcpy(bytes, &value, sizeof value);
    return;
  }
  std::uint16_t half = 0;
  if (type == ElementType::kF16) {
    half = f16_bits(value);
  } else {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    if (std::isnan(value)) bits |= 0x400000;
    half = static_cast<std::uint16_t>(bits >> 16);
  }
  std::memcpy(bytes, &half, sizeof half);
}

}  // namespace

Value from_bytes(const hlo::Shape& shape, const std::vector<std::uint8_t>& bytes) {
  Value value = make_value(shape);
  TPU_CHECK(!shape.is_tuple() && static_cast<std::int64_t>(bytes.size()) == shape.unpadded_bytes(),
            hlo::to_string(shape) << " from " << bytes.size() << " bytes");
  const std::size_t size = static_cast<std::size_t>(hlo::byte_size(shape.type));
  for (std::size_t i = 0; i < value.numbers.size(); ++i) {
    value.numbers[i] = load_number(shape.type, &bytes[i * size]);
  }
  for (std::size_t i = 0; i < value.integers.size(); ++i) {
    std::int64_t integer = 0;
    std::memcpy(&integer, &bytes[i * size], size);
    value.integers[i] = wrap_to(shape.type, integer);
  }
  return value;
}

std::vector<std::uint8_t> to_bytes(const Value& value) {
  TPU_CHECK(!value.shape.is_tuple(), hlo::to_string(value.shape));
  const std::size_t size = static_cast<std::size_t>(hlo::byte_size(value.shape.type));
  std::vector<std::uint8_t> bytes(value.size() * size);
  for (std::size_t i = 0; i < value.numbers.size(); ++i) {
    store_number(value.shape.type, value.numbers[i], &bytes[i * size]);
  }
  for (std::size_t i = 0; i < value.integers.size(); ++i) {
    std::memcpy(&bytes[i * size], &value.integers[i], size);
  }
  return bytes;
}

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& dimensions) {
  std::vector<std::int64_t> strides(dimensions.size(), 1);
  for (std::size_t d = dimensions.size(); d-- > 1;) strides[d - 1] = strides[d] * dimensions[d];
  return strides;
}

}  // namespace tpu::reference
