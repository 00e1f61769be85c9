#include "models/pod.h"

#include <algorithm>
#include <string>

namespace tpu {

Pod::Pod(const sc_core::sc_module_name& name, RunClock& clock, const CoreSetup& setup,
         std::vector<MemoryImage>& hbm, const std::vector<CoreLoad>& loads)
    : sc_core::sc_module(name) {
  for (std::uint32_t c = 0; c < setup.params.chips(); ++c) {
    chips_.push_back(
        std::make_unique<Chip>(("chip" + std::to_string(c)).c_str(), clock, setup, c, hbm, loads));
    for (std::unique_ptr<Core>& core : chips_.back()->cores()) cores_.push_back(core.get());
  }
  connect_chips(setup.params.topology());
  connect_hosts(clock, setup, loads);
}

void Pod::connect_chips(const isa::Topology& topology) {
  for (std::uint32_t chip = 0; chip < chips_.size(); ++chip) {
    for (std::size_t d = 0; d < isa::Topology::kDirections; ++d) {
      const auto direction = static_cast<isa::Topology::Direction>(d);
      if (!topology.has_link(chip, direction)) continue;
      const std::uint32_t to = topology.neighbour(chip, direction);
      chips_[chip]->router().out_neighbours[d](chips_[to]->router());
    }
  }
}

void Pod::connect_hosts(RunClock& clock, const CoreSetup& setup,
                        const std::vector<CoreLoad>& loads) {
  const isa::Program& program = setup.program;
  const InputPipeline::Workload workload{
      program.infeed_bytes,
      program.infeed_host_bytes > 0 ? program.infeed_host_bytes : program.infeed_bytes,
      program.examples_per_core};
  const std::uint32_t chips_per_host = std::max<std::uint32_t>(setup.params.host.chips, 1);
  for (std::uint32_t first = 0; first < setup.params.chips(); first += chips_per_host) {
    std::vector<Host::Core> fed;
    std::vector<Core*> members;
    for (Core* core : cores_) {
      const std::uint32_t chip = core->number() / setup.params.cores_per_chip;
      if (chip < first || chip >= first + chips_per_host) continue;
      fed.push_back({core->number(), chip - first, &loads[core->number()].infeed});
      members.push_back(core);
    }
    hosts_.push_back(
        std::make_unique<Host>(("host" + std::to_string(first / chips_per_host)).c_str(), clock,
                               setup.params, workload, fed));
    for (Core* core : members) {
      core->out_host(*hosts_.back());
      hosts_.back()->connect(core->number(), core);
    }
  }
}

}  // namespace tpu
