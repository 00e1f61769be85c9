#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace tpu::config {

/// What a parameter that is a whole number takes.
inline std::string whole_number_range() {
  return "expected a whole number from 0 to " +
         std::to_string(std::numeric_limits<std::uint32_t>::max());
}

}  // namespace tpu::config
