#pragma once

#include <algorithm>
#include <cstdint>

namespace tpu {

/// The most bytes that a compressed file may hold: so many, more where the file itself is large.
/// Files of zeros pack a thousand times, what people bring a few dozen times at most.
struct UnpackLimit {
  std::uint64_t always_allowed = std::uint64_t{1} << 30;
  std::uint64_t ratio = 64;

  std::uint64_t of_file(std::uint64_t packed_bytes) const {
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(packed_bytes, ratio, &bytes)) return ~std::uint64_t{0};
    return std::max(always_allowed, bytes);
  }
};

}  // namespace tpu
