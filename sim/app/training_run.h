#pragma once

#include <optional>

#include "sim/app/arguments.h"
#include "sim/app/workload_source.h"
#include "sim/config/configuration.h"
#include "traces/run_record.h"

namespace tpu::app {

/// Whether the command line asks for more than steps: a scenario, epochs, a dataset.
bool asks_for_training(const Arguments& arguments);

/// The training that the command line describes around the run of `record`: the shapes that its
/// steps have (the full batch; the smaller one at the end of an epoch; an evaluation) are compiled
/// and simulated, what happens between them is the scenario's. Throws ConfigurationError,
/// UsageError or WorkloadError.
traces::Training train(const Arguments& arguments, const config::Configuration& configuration,
                       const PreparedWorkload& workload, const traces::RunRecord& record);

}  // namespace tpu::app
