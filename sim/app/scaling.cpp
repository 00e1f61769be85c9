#include "sim/app/scaling.h"

#include "sim/app/simulation.h"
#include "sim/base/error.h"

namespace tpu::app {
namespace {

report::ScalingRun run_with(Arguments arguments, const config::Configuration& configuration,
                            const std::string& name, std::uint64_t batch) {
  arguments.set_batch(static_cast<std::int64_t>(batch));
  const Simulation simulation = simulate(arguments, configuration, name);
  return report::scaling_run(simulation.record, report::summarize(simulation.record));
}

/// Why a batch can't be shared by so many cores; empty: it can.
std::string why_not(std::uint64_t batch, std::size_t cores) {
  if (batch % cores == 0) return {};
  return "a batch of " + std::to_string(batch) + " is no multiple of " + std::to_string(cores) +
         " cores";
}

/// A small part of a batch may be more than the compiler takes: the other machines have theirs.
void run_strong(const Arguments& arguments, const config::Configuration& configuration,
                std::uint64_t batch, report::ScalingPoint& point) {
  try {
    point.strong = run_with(arguments, configuration, point.config, batch);
  } catch (const WorkloadError& error) {
    point.why_not_strong = error.what();
  }
}

}  // namespace

std::vector<report::ScalingPoint> scale(const Arguments& arguments) {
  std::vector<config::Configuration> machines;
  for (const std::string& name : arguments.configs) {
    machines.push_back(effective_configuration(arguments, name));
  }
  std::vector<report::ScalingPoint> points;
  std::uint64_t whole = 0, of_core = 0;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    report::ScalingPoint point;
    point.config = arguments.configs[i];
    point.cores = machines[i].params.cores();
    if (i == 0) {
      const Simulation first = simulate(arguments, machines[0], point.config);
      point.weak = report::scaling_run(first.record, report::summarize(first.record));
      point.strong = point.weak;
      whole = point.weak.batch;
      of_core = whole / point.cores;
      if (of_core == 0) {
        throw WorkloadError(arguments.input +
                            ": expected a workload that says how many examples a step takes");
      }
      points.push_back(point);
      continue;
    }
    point.weak = run_with(arguments, machines[i], point.config, of_core * point.cores);
    point.why_not_strong = why_not(whole, point.cores);
    if (point.why_not_strong.empty()) run_strong(arguments, machines[i], whole, point);
    points.push_back(point);
  }
  return points;
}

}  // namespace tpu::app
