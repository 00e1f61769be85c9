#pragma once

#include <cstdint>

namespace tpu::compiler {

/// Bits of fp32 numbers, as integer instructions see them.
inline constexpr std::uint32_t kSignBit = 0x80000000U;
inline constexpr std::uint32_t kMagnitude = 0x7fffffffU;  ///< All but the sign.
inline constexpr std::uint32_t kInfinity = 0x7f800000U;
inline constexpr std::uint32_t kNotANumber = 0x7fc00000U;

}  // namespace tpu::compiler
