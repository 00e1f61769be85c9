#include "models/chip.h"

#include <string>

namespace tpu {

Chip::Chip(const sc_core::sc_module_name& name, RunClock& clock, const CoreSetup& setup,
           std::uint32_t number, std::vector<MemoryImage>& hbm, const std::vector<CoreLoad>& loads)
    : sc_core::sc_module(name) {
  if (setup.options.ici_packet) {
    packet_router_ = std::make_unique<PacketRouter>("router", clock, setup.params, number);
  } else {
    router_ = std::make_unique<Router>("router", clock, setup.params, setup.routes, number);
  }
  for (std::uint32_t c = 0; c < setup.params.cores_per_chip; ++c) {
    const std::uint32_t core = number * setup.params.cores_per_chip + c;
    hbm_.push_back(std::make_unique<Hbm>(("hbm" + std::to_string(c)).c_str(), clock, setup.params,
                                         setup.options));
    if (!setup.classes.runs(core)) continue;
    cores_.push_back(std::make_unique<Core>(("core" + std::to_string(c)).c_str(), clock, setup,
                                            core, hbm[core], loads[core]));
    cores_.back()->out_hbm(*hbm_.back());
    if (packet_router_) {
      cores_.back()->out_ici(*packet_router_);
      packet_router_->connect(c, cores_.back().get());
    } else {
      cores_.back()->out_ici(*router_);
      router_->connect(c, cores_.back().get());
    }
  }
}

void Chip::add_accounts(std::uint64_t end, ExactAccounts& accounts) {
  for (const std::unique_ptr<Core>& core : cores_) {
    const std::size_t half = core->number() % hbm_.size();
    hbm_[half]->add_accounts(accounts);
    accounts.push_back(core->dma_account());
  }
  if (router_) router_->add_accounts(end, accounts);
  if (packet_router_) packet_router_->add_accounts(end, accounts);
}

}  // namespace tpu
