#pragma once

#include <memory>
#include <vector>

#include "models/core/core.h"
#include "models/memory/hbm.h"
#include "models/network/packet_router.h"
#include "models/network/router.h"

namespace tpu {

/// A chip: its router, the two halves of its HBM, and those of its cores that take part in the run.
class Chip : public sc_core::sc_module {
 public:
  Chip(const sc_core::sc_module_name& name, RunClock& clock, const CoreSetup& setup,
       std::uint32_t number, std::vector<MemoryImage>& hbm, const std::vector<CoreLoad>& loads);

  /// Packet by packet, routers have no account.
  void add_accounts(std::uint64_t end, ExactAccounts& accounts);

  /// The state of its router; packet by packet there is none.
  void describe_network(StepState& state) const {
    if (router_) router_->describe(state);
  }

  /// The one, or packet by packet the other.
  Router& router() { return *router_; }
  PacketRouter& packet_router() { return *packet_router_; }
  std::vector<std::unique_ptr<Core>>& cores() { return cores_; }

 private:
  std::unique_ptr<Router> router_;
  std::unique_ptr<PacketRouter> packet_router_;
  std::vector<std::unique_ptr<Hbm>> hbm_;
  std::vector<std::unique_ptr<Core>> cores_;  ///< Only those that run.
};

}  // namespace tpu
