#include "models/host/host_seats.h"

#include <algorithm>

namespace tpu {

std::vector<HostSeat> host_seats(const MachineParams& params, const CoreClasses& classes,
                                 const std::vector<CoreLoad>& loads) {
  const std::uint32_t chips = std::max<std::uint32_t>(params.host.chips, 1);
  const std::uint32_t cores = chips * params.cores_per_chip;
  std::vector<HostSeat> seats;
  for (std::uint32_t first = 0; first < params.cores(); first += cores) {
    HostSeat seat;
    seat.number = static_cast<std::uint32_t>(seats.size());
    const std::uint32_t end = std::min(first + cores, params.cores());
    for (std::uint32_t core = first; core < end; ++core) {
      if (!classes.runs(core)) continue;
      seat.cores.push_back({core, (core - first) / params.cores_per_chip, &loads[core].infeed});
    }
    seats.push_back(std::move(seat));
  }
  return seats;
}

InputPipeline::Workload infeed_workload(const isa::Program& program) {
  return {program.infeed_bytes,
          program.infeed_host_bytes > 0 ? program.infeed_host_bytes : program.infeed_bytes,
          program.examples_per_core};
}

}  // namespace tpu
