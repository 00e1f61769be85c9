#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/app/arguments.h"
#include "sim/app/program_cache.h"
#include "sim/app/value_arrays.h"
#include "sim/app/workload_source.h"
#include "sim/config/configuration.h"
#include "sim/report/json_report.h"
#include "traces/run_record.h"

namespace tpu::app {

/// A finished run and what it cost.
struct Simulation {
  traces::RunRecord record;
  report::SimulatorCost cost;
  std::map<std::uint32_t, compiler::HostArray> outputs;  ///< With values.
  /// The program takes random bits out of the chip's own generator (XLA's rbg): another one than
  /// that of any other device.
  bool draws_own_bits = false;
};

/// The configuration with the settings of the command line, checked.
config::Configuration effective_configuration(const Arguments& arguments, const std::string& name);

/// Compiles the workload for the machine and runs it.
///
/// The steps that count are warm ones: the first waits for the first batch, so unless --warmup says
/// otherwise steps run until one repeats the one before, and that is the first to count. With
/// values those would train, so they are simulated apart, with values off.
Simulation simulate(const Arguments& arguments, const config::Configuration& configuration,
                    const std::string& config_name);

/// The same with the program out of those of earlier runs, where it is there, which keep it.
Simulation simulate(const Arguments& arguments, const config::Configuration& configuration,
                    const std::string& config_name, ProgramCache& programs);

/// The same with a workload that is prepared already, for this machine or one that its program does
/// not differ for. A hidden run draws no progress bar.
Simulation simulate(const Arguments& arguments, const config::Configuration& configuration,
                    const std::string& config_name, const PreparedWorkload& workload,
                    bool hidden = false);

}  // namespace tpu::app
