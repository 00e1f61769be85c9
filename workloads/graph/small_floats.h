#pragma once

#include <cstdint>
#include <optional>

#include "workloads/graph/shape.h"

namespace tpu::hlo {

/// How a floating type of at most 16 bits is made.
struct FloatFormat {
  enum class Special : std::uint8_t {
    kIeee,          ///< All ones in the exponent: infinities and NaN.
    kOnlyNan,       ///< All ones everywhere: NaN; no infinities (FN).
    kUnsignedZero,  ///< Minus zero is NaN; no infinities (FNUZ).
    kFinite,        ///< Neither (MX formats of 4 bits).
    kScale,         ///< An exponent alone, without sign; all ones: NaN (E8M0).
  };
  int exponent_bits = 0, fraction_bits = 0, bias = 0;
  Special special = Special::kIeee;
};

/// The format of f16, bf16 and the types of 8 and 4 bits; nothing for other types.
std::optional<FloatFormat> float_format(ElementType type);

/// The value of its bits.
float float_of_bits(const FloatFormat& format, std::uint32_t bits);

/// The nearest number's bits, ties to even; nothing for finite values beyond the largest, and for
/// infinities and NaN where the format has none.
std::optional<std::uint32_t> bits_of_float(const FloatFormat& format, double value);

}  // namespace tpu::hlo
