#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>

#include "models/machine.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"

namespace tpu {

/// A wire with a rate, used by one message after the other in the order of their arrival: an ICI
/// link in one direction, the path between the cores of a chip, a direction of PCIe. Time is exact:
/// it counts in fractions of a core cycle of which a byte takes a whole number. Latency is the
/// business of whoever holds the link. Its account counts the bytes that pass and the gaps between
/// them apart from each other.
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
      idle_ticks_ += (now - free_cycle_) * ticks_per_cycle_ - free_ticks_;
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
  /// Cycles up to `end`, or up to the end of the last message where that comes later. A part of a
  /// cycle counts as idle.
  PartAccount account(const std::string& part, std::uint64_t end) const {
    end = std::max(end, free_at());
    const std::uint64_t ends = end * ticks_per_cycle_;
    const std::uint64_t busy = busy_ticks_;
    const std::uint64_t idle = idle_ticks_ + ends - (free_cycle_ * ticks_per_cycle_ + free_ticks_);
    TPU_CHECK(busy + idle == ends, part << ": of " << end << " cycles, " << busy
                                        << " ticks busy and " << idle << " idle");
    return {part,
            {{"busy", busy / ticks_per_cycle_}, {"idle", ceil_divide(idle, ticks_per_cycle_)}}};
  }

 private:
  std::uint64_t ticks_per_cycle_ = 1;
  std::uint64_t ticks_per_byte_ = 1;
  std::uint64_t free_cycle_ = 0;  ///< The wire is free from free_ticks_ behind this cycle on.
  std::uint64_t free_ticks_ = 0;  ///< Less than a cycle.
  std::uint64_t busy_ticks_ = 0;
  std::uint64_t idle_ticks_ = 0;
};

/// "link 2 of chip 5": the direction, as in isa::Topology.
inline std::string link_name(std::size_t chip, std::size_t direction) {
  return "link " + std::to_string(direction) + " of chip " + std::to_string(chip);
}
/// The way to a core from the other one of its chip.
inline std::string way_name(std::size_t core) { return "way to core " + std::to_string(core); }

}  // namespace tpu
