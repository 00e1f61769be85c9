#include "models/timed_module.h"

#include "sim/base/error.h"

namespace tpu {

TimedModule::TimedModule(const sc_core::sc_module_name& name, RunClock& clock)
    : sc_core::sc_module(name), clock_(clock), event_("wake") {
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

void TimedModule::wake_at(std::uint64_t cycle) {
  const std::uint64_t at = cycle * clock_.femtoseconds;
  const std::uint64_t present = sc_core::sc_time_stamp().value();
  TPU_CHECK(at >= present, name() << ": wake-up at cycle " << cycle << " in cycle " << now());
  event_.notify(sc_core::sc_time::from_value(at - present));
}

}  // namespace tpu
