#pragma once

#include <memory>
#include <vector>

#include "models/chip.h"
#include "models/exact_account.h"
#include "models/host/host.h"

namespace tpu {

/// A slice of a pod: its chips, the links between neighbours, and the hosts.
class Pod : public sc_core::sc_module {
 public:
  Pod(const sc_core::sc_module_name& name, RunClock& clock, const CoreSetup& setup,
      std::vector<MemoryImage>& hbm, const std::vector<CoreLoad>& loads);

  /// The cores that run, in order of their numbers.
  const std::vector<Core*>& cores() const { return cores_; }
  ExactAccounts accounts(std::uint64_t end);
  void describe_hosts(StepState& state) const;
  void describe_network(StepState& state) const;

 private:
  void connect_chips(const isa::Topology& topology, bool packets);
  void connect_hosts(RunClock& clock, const CoreSetup& setup, const std::vector<CoreLoad>& loads);

  std::vector<std::unique_ptr<Chip>> chips_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<Core*> cores_;
};

}  // namespace tpu
