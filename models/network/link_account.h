#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/part_account.h"
#include "sim/base/error.h"

namespace tpu {

/// What a wire did, in ticks (fractions of a cycle): bytes pass, or there are none for one of the
/// causes that its holder names. Each stretch is counted when the next message passes; nothing is
/// what others leave.
class LinkAccount {
 public:
  static constexpr std::size_t kCauses = 3;
  using Causes = std::array<const char*, kCauses>;

  void pass(std::uint64_t ticks) { busy_ += ticks; }
  void idle(std::size_t cause, std::uint64_t ticks) { idle_[cause] += ticks; }

  /// The account begins at a tick up to which all is counted, and the wire is taken until `free`.
  void begin(std::uint64_t tick, std::uint64_t free) {
    begin_ = tick;
    busy_ = free > tick ? free - tick : 0;
    idle_ = {};
  }
  /// Up to a tick, or where the wire is free again, if that comes later; without a message from
  /// `free` on. In whole cycles, which add up.
  PartAccount end(const std::string& part, std::uint64_t tick, std::uint64_t free,
                  std::uint64_t ticks_per_cycle, const Causes& causes) const {
    tick = std::max(tick, free);
    std::array<std::uint64_t, kCauses> idle = idle_;
    idle[0] += tick - std::max(free, begin_);
    std::uint64_t all = busy_;
    for (const std::uint64_t ticks : idle) all += ticks;
    TPU_CHECK(all == tick - begin_, part << ": of " << tick - begin_ << " ticks, " << busy_
                                         << " busy and " << all - busy_ << " idle");
    PartAccount account;
    account.part = part;
    std::uint64_t ticks = 0, cycles = 0;
    const auto add = [&](const std::string& activity, std::uint64_t more) {
      ticks += more;
      account.cycles.emplace_back(activity, ticks / ticks_per_cycle - cycles);
      cycles = ticks / ticks_per_cycle;
    };
    add("busy", busy_);
    for (std::size_t c = 0; c < kCauses; ++c) {
      if (causes[c] != nullptr) add(causes[c], idle[c]);
    }
    return account;
  }

 private:
  std::uint64_t begin_ = 0;
  std::uint64_t busy_ = 0;
  std::array<std::uint64_t, kCauses> idle_{};
};

/// "link 2 of chip 5": the direction, as in isa::Topology.
inline std::string link_name(std::size_t chip, std::size_t direction) {
  return "link " + std::to_string(direction) + " of chip " + std::to_string(chip);
}
/// The way to a core from the other one of its chip.
inline std::string way_name(std::size_t core) { return "way to core " + std::to_string(core); }

}  // namespace tpu
