#pragma once

#include <vector>

#include "models/network/ici_router.h"
#include "models/ports.h"

namespace tpu {

/// The ICI router of a chip: the module around an IciRouter.
class Router : public TimedModule, public IciPort, public NeighbourPort {
 public:
  using NeighbourOut = sc_core::sc_port<NeighbourPort, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;
  /// To the routers in the directions of isa::Topology; unbound at the edge of a mesh.
  sc_core::sc_vector<NeighbourOut> out_neighbours{"out_neighbours", isa::Topology::kDirections};

  Router(const sc_core::sc_module_name& name, RunClock& clock, const MachineParams& params,
         const IciRoutes& routes, std::uint32_t chip);

  /// A core of this chip, by its number in the chip; nullptr: takes no part in the run.
  void connect(std::uint32_t core, IciEndpoint* endpoint) { endpoints_[core] = endpoint; }

  void add_accounts(std::uint64_t end, ExactAccounts& accounts) const {
    router_.add_accounts(end, accounts);
  }

  void begin_account(std::uint64_t now) override { router_.begin_account(now); }
  void describe(StepState& state) const { router_.describe(state); }
  void send(const IciMessage& message, std::uint64_t now) override;
  void head_arrives(const IciMessage& message, std::uint64_t at) override;

 private:
  void tick() override;
  void schedule();

  IciRouter router_;
  std::vector<IciEndpoint*> endpoints_;
};

}  // namespace tpu
