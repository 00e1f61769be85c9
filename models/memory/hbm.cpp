#include "models/memory/hbm.h"

#include <algorithm>

#include "models/memory/hbm_command_controller.h"
#include "models/memory/hbm_controller.h"

namespace tpu {

Hbm::Hbm(const sc_core::sc_module_name& name, RunClock& clock, const MachineParams& params,
         const RunOptions& options)
    : TimedModule(name, clock, Phase::kMemory) {
  if (options.hbm_command) {
    model_ =
        std::make_unique<HbmCommandController>(params.hbm, params.clock_mhz, params.cores_per_chip);
  } else {
    model_ = std::make_unique<HbmController>(params.hbm, params.clock_mhz, params.cores_per_chip);
  }
  if (options.observer != nullptr) model_->keep_history();
}

void Hbm::submit(const HbmRequest& request, std::uint64_t at) {
  model_->submit(request, at);
  if (request.exact) ++exact_;
  schedule();
}

void Hbm::advance(std::uint64_t cycle) {
  for (const HbmRequest& request : model_->advance(cycle)) {
    if (request.exact) --exact_;
    request.client->hbm_done(request.token, request.done);
  }
}

void Hbm::set_awaited(bool awaited) {
  awaited_ = awaited;
  schedule();
}

void Hbm::tick() {
  advance(now());
  schedule();
}

void Hbm::schedule() {
  if (exact_ == 0 && !awaited_) return;
  // What could have been done before now, nobody has asked about since.
  if (const auto next = model_->next_event()) wake_at(std::max(*next, now()));
}

}  // namespace tpu
