#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/exact_account.h"
#include "sim/base/error.h"

namespace tpu {

/// What a wire did, in ticks (fractions of a cycle): bytes pass, or there are none for one of the
/// causes that its holder names. Each stretch is counted when the next message passes; nothing is
/// what others leave.
class LinkAccount {
 public:
  static constexpr std::size_t kCauses = 3;
  using Causes = std::array<const char*, kCauses>;

  static std::uint64_t instant(std::uint64_t cycle, std::uint64_t ticks,
                               std::uint64_t ticks_per_cycle) {
    return cycle * ticks_per_cycle + ticks;
  }
  void pass(std::uint64_t from, std::uint64_t to) { busy_ += counted(from, to); }
  void idle(std::size_t cause, std::uint64_t from, std::uint64_t to) {
    idle_[cause] += counted(from, to);
  }

  /// The account begins at a tick up to which all is counted, and the wire is taken until `free`.
  void begin(std::uint64_t tick, std::uint64_t free) {
    begin_ = tick;
    busy_ = is_before(tick, free) ? free - tick : 0;
    idle_ = {};
  }
  /// Where an account ends: the end of the run, the first cycle in which the wire is free again,
  /// and the very tick.
  struct End {
    std::uint64_t run = 0, free_cycle = 0, free = 0;
  };
  /// Up to the end of the run, or of the last message if that comes later. In whole cycles, which
  /// add up.
  ExactAccount end(const std::string& part, const End& at, std::uint64_t ticks_per_cycle,
                   const Causes& causes) const {
    const std::uint64_t tick = is_before(at.run, at.free_cycle) ? at.free_cycle : at.run;
    std::array<std::uint64_t, kCauses> idle = idle_;
    idle[0] += counted(at.free, tick);
    std::uint64_t all = busy_;
    for (const std::uint64_t ticks : idle) all += ticks;
    TPU_CHECK(all == tick - begin_, part << ": of " << tick - begin_ << " ticks, " << busy_
                                         << " busy and " << all - busy_ << " idle");
    return in_cycles(part, busy_, idle, ticks_per_cycle, causes);
  }

  /// Ticks as whole cycles, which add up as they do.
  static ExactAccount in_cycles(const std::string& part, std::uint64_t busy,
                                const std::array<std::uint64_t, kCauses>& idle,
                                std::uint64_t ticks_per_cycle, const Causes& causes) {
    ExactAccount account{PartAccount{part, {}}};
    account.fractions_of_cycle = ticks_per_cycle;
    const auto add = [&](const std::string& activity, std::uint64_t ticks) {
      account.cycles.emplace_back(activity, 0);
      account.fractions.push_back(ticks);
    };
    add("busy", busy);
    for (std::size_t c = 0; c < kCauses; ++c) {
      if (causes[c] != nullptr) add(causes[c], idle[c]);
    }
    account.round_fractions();
    return account;
  }

 private:
  /// Ticks of weeks are more than a counter holds: they begin anew at 0.
  static bool is_before(std::uint64_t a, std::uint64_t b) {
    return static_cast<std::int64_t>(a - b) < 0;
  }
  std::uint64_t counted(std::uint64_t from, std::uint64_t to) const {
    if (is_before(from, begin_)) from = begin_;
    return is_before(from, to) ? to - from : 0;
  }

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
