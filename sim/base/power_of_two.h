#pragma once

#include <cstdint>

namespace tpu {

/// The greatest n whose power of two is not above the number, which is at least 1.
constexpr int floor_log2(std::int64_t number) {
  int bits = 0;
  while (number >> (bits + 1) != 0) ++bits;
  return bits;
}

/// The least n whose power of two is not below the number.
constexpr int ceil_log2(std::int64_t number) {
  return number <= 1 ? 0 : floor_log2(number - 1) + 1;
}

constexpr bool is_power_of_two(std::int64_t number) {
  return number > 0 && (number & (number - 1)) == 0;
}

/// The least power of two that is not below the number.
constexpr std::int64_t round_up_to_power_of_two(std::int64_t number) {
  return std::int64_t{1} << ceil_log2(number);
}

}  // namespace tpu
