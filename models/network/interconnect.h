#pragma once

#include <vector>

#include "models/network/folded_network.h"
#include "models/ports.h"

namespace tpu {

/// The interconnect of a folded run: the module around a FoldedNetwork. In a full run each chip has
/// a Router.
class Interconnect : public TimedModule, public IciPort {
 public:
  Interconnect(const sc_core::sc_module_name& name, RunClock& clock, const MachineParams& params,
               const CoreClasses& classes, KnownDestinations& known);

  /// The representative of a class.
  void connect(std::uint32_t of_class, IciEndpoint* endpoint) { endpoints_[of_class] = endpoint; }

  void add_accounts(std::uint64_t end, ExactAccounts& accounts) const {
    network_.add_accounts(end, accounts);
  }

  void begin_account(std::uint64_t now) override { network_.begin_account(now); }
  void describe(StepState& state) const { network_.describe(state); }
  void send(const IciMessage& message, std::uint64_t now) override;

 private:
  void tick() override;
  void schedule();

  FoldedNetwork network_;
  std::vector<IciEndpoint*> endpoints_;
};

}  // namespace tpu
