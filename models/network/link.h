#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>

#include "models/network/link_account.h"
#include "models/step_state.h"
#include "sim/base/error.h"

namespace tpu {

/// A wire with a rate, used by one message after the other in the order of their arrival: an ICI
/// link in one direction, the path between the cores of a chip, a direction of PCIe. Time is exact:
/// it counts in fractions of a core cycle of which a byte takes a whole number. Latency is the
/// business of whoever holds the link. Its account counts the bytes that pass and the gaps between
/// them apart from each other.
template <class Account>
class Wire {
 public:
  /// The rate in bytes per core cycle is `bytes / cycles`.
  Wire(std::uint64_t bytes, std::uint64_t cycles) {
    TPU_CHECK(bytes > 0 && cycles > 0, "link of " << bytes << " B in " << cycles << " cycles");
    const std::uint64_t divisor = std::gcd(bytes, cycles);
    ticks_per_cycle_ = bytes / divisor;
    ticks_per_byte_ = cycles / divisor;
  }

  struct Passage {
    std::uint64_t begin = 0;  ///< First cycle in which the message is on the wire.
    std::uint64_t end = 0;    ///< The cycle after its last byte.
  };

  /// A message that arrives at `now` and waits for those before it. While the wire waits for it:
  /// up to `asked`, nothing was asked of the wire, then the message was made or on its way; or,
  /// with `before`, the other way round.
  Passage pass(std::uint64_t now, std::uint64_t bytes, std::uint64_t asked = kAtOnce,
               std::size_t before = 0) {
    wait(now, asked, before);
    const std::uint64_t begin = free_cycle_;
    const std::uint64_t first_byte = free_instant();
    free_ticks_ += bytes * ticks_per_byte_;
    free_cycle_ += free_ticks_ / ticks_per_cycle_;
    free_ticks_ %= ticks_per_cycle_;
    account_.pass(first_byte, free_instant());
    return {begin, free_at()};
  }
  /// First cycle at which the wire is free again.
  std::uint64_t free_at() const { return free_cycle_ + (free_ticks_ > 0 ? 1 : 0); }
  /// How long it is taken.
  void describe(StepState& state) const {
    const bool is_taken =
        free_cycle_ > state.now() || (free_cycle_ == state.now() && free_ticks_ > 0);
    state.add(is_taken ? 1 + free_cycle_ - state.now() : 0);
    state.add(is_taken ? free_ticks_ : 0);
  }
  void begin_account(std::uint64_t now) { account_.begin(instant(now), free_instant()); }
  /// No run ends before now: what is over can be counted.
  void settle(std::uint64_t now) { account_.settle(instant(now)); }
  /// Cycles up to `end`; of a LinkAccount up to the end of the last message where that comes later.
  ExactAccount account(const std::string& part, std::uint64_t end,
                       const LinkAccount::Causes& causes = {"idle: not asked", "idle: on its way",
                                                            nullptr}) const {
    return account_.end(part, {instant(end), instant(free_at()), free_instant()}, ticks_per_cycle_,
                        causes);
  }

 private:
  static constexpr std::uint64_t kAtOnce = ~std::uint64_t{0};

  /// No message enters before `now`; why, as pass() says.
  void wait(std::uint64_t now, std::uint64_t asked, std::size_t before) {
    if (now <= free_cycle_) return;
    const std::uint64_t split = std::min(asked, now);
    const std::uint64_t at = split > free_cycle_ ? instant(split) : free_instant();
    account_.idle(before, free_instant(), at);
    account_.idle(1 - before, at, instant(now));
    free_cycle_ = now;
    free_ticks_ = 0;
  }

  std::uint64_t instant(std::uint64_t cycle, std::uint64_t ticks = 0) const {
    return Account::instant(cycle, ticks, ticks_per_cycle_);
  }
  std::uint64_t free_instant() const { return instant(free_cycle_, free_ticks_); }

  std::uint64_t ticks_per_cycle_ = 1;
  std::uint64_t ticks_per_byte_ = 1;
  std::uint64_t free_cycle_ = 0;  ///< The wire is free from free_ticks_ behind this cycle on.
  std::uint64_t free_ticks_ = 0;  ///< Less than a cycle.
  Account account_;
};

using Link = Wire<LinkAccount>;

}  // namespace tpu
