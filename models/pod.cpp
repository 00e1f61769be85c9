#include "models/pod.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include "models/host/host_seats.h"
#include "models/host/part_names.h"
#include "models/slow_parts.h"

namespace tpu {
namespace {

/// The order in which modules are made, which is that in which the SystemC kernel calls those that
/// act in the same phase.
std::vector<std::uint32_t> construction_order(std::size_t count, const RunOptions& options) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (options.construction_seed == 0) return order;
  std::shuffle(order.begin(), order.end(), std::mt19937(options.construction_seed));
  return order;
}

}  // namespace

Pod::Pod(const sc_core::sc_module_name& name, RunClock& clock, const CoreSetup& setup,
         std::vector<MemoryImage>& hbm, const std::vector<CoreLoad>& loads)
    : sc_core::sc_module(name) {
  chips_.resize(setup.params.chips());
  for (const std::uint32_t c : construction_order(chips_.size(), setup.options)) {
    chips_[c] =
        std::make_unique<Chip>(("chip" + std::to_string(c)).c_str(), clock, setup, c, hbm, loads);
  }
  for (const std::unique_ptr<Chip>& chip : chips_) {
    for (std::unique_ptr<Core>& core : chip->cores()) cores_.push_back(core.get());
  }
  connect_chips(setup.params.topology(), setup.options.ici_packet);
  connect_hosts(clock, setup, loads);
}

void Pod::connect_chips(const isa::Topology& topology, bool packets) {
  for (std::uint32_t chip = 0; chip < chips_.size(); ++chip) {
    for (std::size_t d = 0; d < isa::Topology::kDirections; ++d) {
      const auto direction = static_cast<isa::Topology::Direction>(d);
      if (!topology.has_link(chip, direction)) continue;
      const std::uint32_t to = topology.neighbour(chip, direction);
      if (packets) {
        chips_[chip]->packet_router().out_neighbours[d](chips_[to]->packet_router());
      } else {
        chips_[chip]->router().out_neighbours[d](chips_[to]->router());
      }
    }
  }
}

void Pod::connect_hosts(RunClock& clock, const CoreSetup& setup,
                        const std::vector<CoreLoad>& loads) {
  std::map<std::uint32_t, Core*> by_number;
  for (Core* core : cores_) by_number[core->number()] = core;
  const std::vector<HostSeat> seats = host_seats(setup.params, setup.classes, loads);
  for (const std::uint32_t number : construction_order(seats.size(), setup.options)) {
    const HostSeat& seat = seats[number];
    hosts_.push_back(std::make_unique<Host>(("host" + std::to_string(seat.number)).c_str(), clock,
                                            as_host(setup.params, seat.number),
                                            infeed_workload(setup.program), seat.cores));
    for (const Host::Core& fed : seat.cores) {
      by_number.at(fed.number)->out_host(*hosts_.back());
      hosts_.back()->connect(fed.number, by_number.at(fed.number));
    }
  }
}

ExactAccounts Pod::accounts(std::uint64_t end) {
  ExactAccounts accounts;
  for (const std::unique_ptr<Chip>& chip : chips_) chip->add_accounts(end, accounts);
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    hosts_[h]->add_accounts(host_name(h), end, accounts);
  }
  return accounts;
}

void Pod::describe_hosts(StepState& state) const {
  for (const std::unique_ptr<Host>& host : hosts_) host->describe(state);
}

void Pod::describe_network(StepState& state) const {
  for (const std::unique_ptr<Chip>& chip : chips_) chip->describe_network(state);
}

}  // namespace tpu
