#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "models/host/stage_account.h"
#include "models/params.h"
#include "models/step_state.h"

namespace tpu {

/// The thread of a host that hands batches over to the chips: for each batch it takes a time of its
/// own (an enqueue, a call of the runtime) and, for each core's part (the parts side by side), the
/// time to lay it out, then it stays with the batch until its last byte has left. So all of it adds
/// to the time on the wire, and the next batch waits.
class HandOver {
 public:
  explicit HandOver(const HostParams& host, std::uint32_t clock_mhz)
      : batch_cycles_(cycles_of(host.hand_over_us * 1e-6, clock_mhz)),
        cycles_per_byte_(host.hand_over_mb_per_s > 0 ? clock_mhz / host.hand_over_mb_per_s : 0) {}

  static bool is_described(const HostParams& host) {
    return host.hand_over_us > 0 || host.hand_over_mb_per_s > 0;
  }

  /// When a batch that waits since `now` may enter the wire; `bytes` of a core's part.
  std::uint64_t begin(std::uint64_t now, std::uint64_t bytes) {
    begun_ = std::max(now, free_);
    account_.idle(0, free_, begun_);
    const double layout = cycles_per_byte_ * static_cast<double>(bytes);
    return begun_ + batch_cycles_ + static_cast<std::uint64_t>(std::llround(layout));
  }
  /// A piece of it has left, the last one or one of several: the thread stays between them.
  void left(std::uint64_t cycle) {
    account_.pass(begun_, cycle);
    begun_ = free_ = cycle;
  }

  void settle(std::uint64_t now) { account_.settle(now); }
  void begin_account(std::uint64_t now) { account_.begin(now, now); }
  ExactAccount account(const std::string& part, std::uint64_t end) const {
    return account_.end(part, {end, free_, free_}, 1, {"idle: batch not ready", nullptr, nullptr});
  }
  /// How long it is taken.
  void describe(StepState& state) const {
    state.add(free_ > state.now() ? free_ - state.now() : 0);
  }

 private:
  static std::uint64_t cycles_of(double seconds, std::uint32_t clock_mhz) {
    return static_cast<std::uint64_t>(std::llround(seconds * clock_mhz * 1e6));
  }

  std::uint64_t batch_cycles_;
  double cycles_per_byte_;
  std::uint64_t begun_ = 0;
  std::uint64_t free_ = 0;
  StageAccount account_;
};

}  // namespace tpu
