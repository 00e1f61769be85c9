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
  connect_chips(setup.params.ici);
  connect_hosts(clock, setup, loads);
}

void Pod::connect_chips(const IciParams& ici) {
  const auto connect = [&](std::uint32_t from, IciRouter::Direction direction, std::uint32_t to) {
    chips_[from]->router().out_neighbours[direction](chips_[to]->router());
  };
  for (std::uint32_t y = 0; y < ici.mesh_y; ++y) {
    for (std::uint32_t x = 0; x < ici.mesh_x; ++x) {
      const std::uint32_t chip = y * ici.mesh_x + x;
      const std::uint32_t east = y * ici.mesh_x + (x + 1) % ici.mesh_x;
      const std::uint32_t north = (y + 1) % ici.mesh_y * ici.mesh_x + x;
      if (x + 1 < ici.mesh_x || (ici.wrap_x && ici.mesh_x > 1)) {
        connect(chip, IciRouter::kEast, east);
        connect(east, IciRouter::kWest, chip);
      }
      if (y + 1 < ici.mesh_y || (ici.wrap_y && ici.mesh_y > 1)) {
        connect(chip, IciRouter::kNorth, north);
        connect(north, IciRouter::kSouth, chip);
      }
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
