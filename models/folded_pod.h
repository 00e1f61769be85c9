#pragma once

#include <memory>
#include <vector>

#include "models/core/core.h"
#include "models/host/folded_hosts.h"
#include "models/memory/hbm.h"
#include "models/network/interconnect.h"

namespace tpu {

/// A slice in which one core of each class is simulated, with its half of the HBM; the links of all
/// chips are one module, and all hosts are there. Its slow twin is Pod.
class FoldedPod : public sc_core::sc_module {
 public:
  FoldedPod(const sc_core::sc_module_name& name, RunClock& clock, const CoreSetup& setup,
            std::vector<MemoryImage>& hbm, const std::vector<CoreLoad>& loads,
            KnownDestinations& known);

  /// The representatives, in the order of the classes.
  const std::vector<Core*>& cores() const { return simulated_; }
  /// Of the parts that are simulated; the links and hosts are those of all cores.
  ExactAccounts accounts(std::uint64_t end);
  void describe_hosts(StepState& state) const;
  void describe_network(StepState& state) const;

 private:
  Interconnect interconnect_;
  FoldedHosts hosts_;
  std::vector<std::unique_ptr<Hbm>> hbm_;
  std::vector<std::unique_ptr<Core>> cores_;
  std::vector<Core*> simulated_;
};

}  // namespace tpu
