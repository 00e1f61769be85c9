#pragma once

#include <cstdint>
#include <numeric>

#include "sim/base/error.h"

namespace tpu {

/// A wire with a rate, used by one message after the other in the order of their arrival: an ICI
/// link in one direction, the path between the cores of a chip, a direction of PCIe. Time is exact:
/// it counts in fractions of a core cycle of which a byte takes a whole number. Latency is the
/// business of whoever holds the link.
class Link {
 public:
  /// The rate in bytes per core cycle is `bytes / cycles`.
  Link(std::uint64_t bytes, std::uint64_t cycles) {
    TPU_CHECK(bytes > 0 && cycles > 0, "link of " << bytes << " B in " << cycles << " cycles");
    const std::uint64_t divisor = std::gcd(bytes, cycles);
    ticks_per_cycle_ = bytes / divisor;
    ticks_per_byte_ = cycles / divisor;
  }

  struct Passage {
    std::uint64_t begin = 0;  ///< First cycle in which the message is on the wire.
    std::uint64_t end = 0;    ///< The cycle after its last byte.
  };

  /// A message that arrives at `now` and waits for those before it.
  Passage pass(std::uint64_t now, std::uint64_t bytes) {
    if (now > free_cycle_) {
      free_cycle_ = now;
      free_ticks_ = 0;
    }
    const std::uint64_t begin = free_cycle_;
    free_ticks_ += bytes * ticks_per_byte_;
    busy_ticks_ += bytes * ticks_per_byte_;
    free_cycle_ += free_ticks_ / ticks_per_cycle_;
    free_ticks_ %= ticks_per_cycle_;
    return {begin, free_at()};
  }
  /// First cycle at which the wire is free again.
  std::uint64_t free_at() const { return free_cycle_ + (free_ticks_ > 0 ? 1 : 0); }
  std::uint64_t busy_cycles() const { return busy_ticks_ / ticks_per_cycle_; }

 private:
  std::uint64_t ticks_per_cycle_ = 1;
  std::uint64_t ticks_per_byte_ = 1;
  std::uint64_t free_cycle_ = 0;  ///< The wire is free from free_ticks_ behind this cycle on.
  std::uint64_t free_ticks_ = 0;  ///< Less than a cycle.
  std::uint64_t busy_ticks_ = 0;
};

}  // namespace tpu
