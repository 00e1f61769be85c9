#pragma once

#include <vector>

#include "isa/program.h"
#include "models/core_classes.h"
#include "models/host/host.h"

namespace tpu {

/// Which cores of a run a host feeds.
struct HostSeat {
  std::uint32_t number = 0;
  std::vector<Host::Core> cores;
};
/// Host after host, each with the next `host.chips` chips.
std::vector<HostSeat> host_seats(const MachineParams& params, const CoreClasses& classes,
                                 const std::vector<CoreLoad>& loads);
/// What a program asks of its host.
InputPipeline::Workload infeed_workload(const isa::Program& program);

}  // namespace tpu
