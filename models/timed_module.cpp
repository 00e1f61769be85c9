#include "models/timed_module.h"

#include <algorithm>

#include "sim/base/error.h"

namespace tpu {

TimedModule::TimedModule(const sc_core::sc_module_name& name, RunClock& clock, Phase phase)
    : sc_core::sc_module(name), clock_(clock), phase_(phase), event_("wake") {
  sc_core::sc_spawn_options options;
  options.spawn_method();
  options.dont_initialize();
  options.set_sensitivity(&event_);
  sc_core::sc_spawn(
      [this] {
        ++clock_.events;
        guarded([this] { tick(); });
      },
      "tick", &options);
}

bool TimedModule::quiet_until(std::uint64_t cycle) const {
  if (sc_core::sc_pending_activity_at_current_time()) return false;
  if (!sc_core::sc_pending_activity_at_future_time()) return true;
  const std::uint64_t next =
      sc_core::sc_time_stamp().value() + sc_core::sc_time_to_pending_activity().value();
  return next > cycle * RunClock::kPhases + static_cast<std::uint64_t>(phase_);
}

void TimedModule::wake_at(std::uint64_t cycle, Phase phase) {
  const std::uint64_t present = sc_core::sc_time_stamp().value();
  TPU_CHECK(cycle >= now() && cycle <= kLongestRun,
            name() << ": wake-up at cycle " << cycle << " in cycle " << now());
  const std::uint64_t at = cycle * RunClock::kPhases + static_cast<std::uint64_t>(phase);
  event_.notify(sc_core::sc_time::from_value(std::max(at, present) - present));
}

}  // namespace tpu
