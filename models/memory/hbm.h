#pragma once

#include "models/memory/hbm_controller.h"
#include "models/ports.h"

namespace tpu {

/// The half of a chip's HBM behind one core: the module around an HbmController.
class Hbm : public TimedModule, public HbmPort {
 public:
  Hbm(const sc_core::sc_module_name& name, RunClock& clock, const MachineParams& params);

  void submit(const HbmRequest& request, std::uint64_t now) override;

 private:
  void tick() override;
  void schedule();

  HbmController controller_;
};

}  // namespace tpu
