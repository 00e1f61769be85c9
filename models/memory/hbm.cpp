#include "models/memory/hbm.h"

namespace tpu {

Hbm::Hbm(const sc_core::sc_module_name& name, RunClock& clock, const MachineParams& params)
    : TimedModule(name, clock, Phase::kMemory),
      controller_(params.hbm, params.clock_mhz, params.cores_per_chip) {}

void Hbm::submit(const HbmRequest& request, std::uint64_t at) {
  controller_.submit(request, at);
  schedule();
}

void Hbm::tick() {
  for (const HbmRequest& request : controller_.advance(now())) {
    request.client->hbm_done(request.token, now());
  }
  schedule();
}

void Hbm::schedule() {
  if (const std::optional<std::uint64_t> next = controller_.next_event()) wake_at(*next);
}

}  // namespace tpu
