#include "workloads/graph/small_floats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tpu::hlo {

namespace {

using Special = FloatFormat::Special;

std::uint32_t ones(int bits) { return (std::uint32_t{1} << bits) - 1; }

std::uint32_t sign_bit(const FloatFormat& format) {
  return format.special == Special::kScale
             ? 0
             : std::uint32_t{1} << (format.exponent_bits + format.fraction_bits);
}

bool is_nan(const FloatFormat& format, std::uint32_t bits) {
  const std::uint32_t magnitude = bits & ~sign_bit(format);
  const std::uint32_t infinity = ones(format.exponent_bits) << format.fraction_bits;
  switch (format.special) {
    case Special::kIeee:
      return magnitude > infinity;
    case Special::kOnlyNan:
    case Special::kScale:
      return magnitude == ones(format.exponent_bits + format.fraction_bits);
    case Special::kUnsignedZero:
      return bits == sign_bit(format);
    case Special::kFinite:
      break;
  }
  return false;
}

bool is_infinite(const FloatFormat& format, std::uint32_t bits) {
  return format.special == Special::kIeee &&
         (bits & ~sign_bit(format)) == ones(format.exponent_bits) << format.fraction_bits;
}

}  // namespace

std::optional<FloatFormat> float_format(ElementType type) {
  switch (type) {
    case ElementType::kF16:
      return FloatFormat{5, 10, 15, Special::kIeee};
    case ElementType::kBf16:
      return FloatFormat{8, 7, 127, Special::kIeee};
    case ElementType::kF4E2M1Fn:
      return FloatFormat{2, 1, 1, Special::kFinite};
    case ElementType::kF8E3M4:
      return FloatFormat{3, 4, 3, Special::kIeee};
    case ElementType::kF8E4M3:
      return FloatFormat{4, 3, 7, Special::kIeee};
    case ElementType::kF8E4M3Fn:
      return FloatFormat{4, 3, 7, Special::kOnlyNan};
    case ElementType::kF8E4M3B11Fnuz:
      return FloatFormat{4, 3, 11, Special::kUnsignedZero};
    case ElementType::kF8E4M3Fnuz:
      return FloatFormat{4, 3, 8, Special::kUnsignedZero};
    case ElementType::kF8E5M2:
      return FloatFormat{5, 2, 15, Special::kIeee};
    case ElementType::kF8E5M2Fnuz:
      return FloatFormat{5, 2, 16, Special::kUnsignedZero};
    case ElementType::kF8E8M0Fnu:
      return FloatFormat{8, 0, 127, Special::kScale};
    default:
      return std::nullopt;
  }
}

float float_of_bits(const FloatFormat& format, std::uint32_t bits) {
  const bool negative = (bits & sign_bit(format)) != 0;
  float value = 0;
  if (is_nan(format, bits)) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (is_infinite(format, bits)) {
    value = std::numeric_limits<float>::infinity();
  } else {
    const int exponent =
        static_cast<int>(bits >> format.fraction_bits & ones(format.exponent_bits));
    const std::uint32_t fraction = bits & ones(format.fraction_bits);
    const bool normal = exponent != 0 || format.special == Special::kScale;
    const std::uint32_t significand = fraction + (normal ? ones(format.fraction_bits) + 1 : 0);
    value = std::ldexp(static_cast<float>(significand), std::max(exponent, normal ? exponent : 1) -
                                                            format.bias - format.fraction_bits);
  }
  return std::copysign(value, negative ? -1.0f : 1.0f);
}

std::optional<std::uint32_t> bits_of_float(const FloatFormat& format, double value) {
  const bool scale = format.special == Special::kScale;
  const std::uint32_t sign = std::signbit(value) ? sign_bit(format) : 0;
  const std::uint32_t infinity = ones(format.exponent_bits) << format.fraction_bits;
  if (std::isnan(value)) {
    if (format.special == Special::kFinite) return std::nullopt;
    if (format.special == Special::kUnsignedZero) return sign_bit(format);
    if (format.special == Special::kIeee)
      return sign | infinity | std::uint32_t{1} << (format.fraction_bits - 1);
    return sign | ones(format.exponent_bits + format.fraction_bits);
  }
  if (std::isinf(value)) {
    if (format.special != Special::kIeee) return std::nullopt;
    return sign | infinity;
  }
  const double magnitude = std::fabs(value);
  if (scale && (std::signbit(value) || magnitude == 0)) return std::nullopt;
  if (magnitude == 0) return format.special == Special::kUnsignedZero ? 0 : sign;
  const int smallest = scale ? -format.bias : 1 - format.bias;
  int exponent = std::max(std::ilogb(magnitude), smallest);
  double significand = std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent));
  const double top = std::ldexp(1.0, format.fraction_bits + 1);
  if (significand >= top) {
    significand /= 2;
    ++exponent;
  }
  const bool normal = significand >= top / 2;
  const auto fraction =
      static_cast<std::uint32_t>(significand) & (normal ? ones(format.fraction_bits) : ~0u);
  const std::int64_t field = normal ? exponent + format.bias : 0;
  if (field > static_cast<std::int64_t>(ones(format.exponent_bits))) return std::nullopt;
  const std::uint32_t bits =
      sign | static_cast<std::uint32_t>(field) << format.fraction_bits | fraction;
  if (is_infinite(format, bits)) return std::nullopt;
  if (bits == sign_bit(format) && format.special == Special::kUnsignedZero) return 0;
  if (is_nan(format, bits)) return std::nullopt;
  return bits;
}

}  // namespace tpu::hlo
