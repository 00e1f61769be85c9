#pragma once

#include <cstdint>

namespace tpu {

/// Cycles of a clock until a time given in nanoseconds has passed.
constexpr std::uint64_t cycles_of_ns(std::uint64_t ns, std::uint32_t clock_mhz) {
  return (ns * clock_mhz + 999) / 1000;
}

/// The same of a way between two clocked parts: at least one cycle, however short.
constexpr std::uint64_t latency_cycles(std::uint64_t ns, std::uint32_t clock_mhz) {
  return ns == 0 ? 1 : cycles_of_ns(ns, clock_mhz);
}

}  // namespace tpu
