#pragma once

#include <string>
#include <vector>

#include "sim/app/arguments.h"
#include "sim/app/simulation.h"
#include "sim/config/configuration.h"

namespace tpu::app {

/// What to say of the input pipeline of a run whose cores waited for their host: which stage
/// bounds, what the chips would take, what would lift the bound, and what bounds then. Each
/// sentence with a rate is from a run of the same program with that one change. Empty where the
/// cores hardly waited, or where the configuration describes no dataset.
std::vector<std::string> host_verdict(const Arguments& arguments,
                                      const config::Configuration& configuration,
                                      const PreparedWorkload& workload,
                                      const traces::RunRecord& record);

}  // namespace tpu::app
