#include "models/folded_pod.h"

#include <string>

#include "models/host/host_seats.h"
#include "models/slow_parts.h"

namespace tpu {

FoldedPod::FoldedPod(const sc_core::sc_module_name& name, RunClock& clock, const CoreSetup& setup,
                     std::vector<MemoryImage>& hbm, const std::vector<CoreLoad>& loads,
                     KnownDestinations& known)
    : sc_core::sc_module(name),
      interconnect_("interconnect", clock, setup.params, setup.classes, known),
      hosts_("hosts", clock, setup.classes) {
  for (const HostSeat& seat : host_seats(setup.params, setup.classes, loads)) {
    const std::string host = "host" + std::to_string(seat.number);
    hosts_.add(std::make_unique<Host>(host.c_str(), clock, as_host(setup.params, seat.number),
                                      infeed_workload(setup.program), seat.cores),
               seat.cores);
  }
  for (std::uint32_t c = 0; c < setup.classes.size(); ++c) {
    const std::uint32_t number = setup.classes.members(c).front();
    const std::string place = std::to_string(number);
    hbm_.push_back(
        std::make_unique<Hbm>(("hbm" + place).c_str(), clock, setup.params, setup.options));
    cores_.push_back(std::make_unique<Core>(("core" + place).c_str(), clock, setup, number,
                                            hbm[number], loads[number]));
    Core& core = *cores_.back();
    core.out_hbm(*hbm_.back());
    core.out_ici(interconnect_);
    core.out_host(hosts_);
    interconnect_.connect(c, &core);
    hosts_.connect(c, &core);
    simulated_.push_back(&core);
  }
}

ExactAccounts FoldedPod::accounts(std::uint64_t end) {
  ExactAccounts accounts;
  for (std::size_t c = 0; c < simulated_.size(); ++c) {
    hbm_[c]->add_accounts(accounts);
    accounts.push_back(simulated_[c]->dma_account());
  }
  interconnect_.add_accounts(end, accounts);
  hosts_.add_accounts(end, accounts);
  return accounts;
}

void FoldedPod::describe_hosts(StepState& state) const { hosts_.describe(state); }

void FoldedPod::describe_network(StepState& state) const { interconnect_.describe(state); }

}  // namespace tpu
