#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/report/json_report.h"
#include "sim/report/summary.h"
#include "sim/report/text_layout.h"

namespace tpu::report {

/// A workload on one machine of a scaling study.
struct ScalingRun {
  std::uint64_t batch = 0;  ///< On all cores together.
  double step_ms = 0;
  double examples_per_s = 0;
  double all_reduce_ms = 0;  ///< In collectives, of a step and core: nothing else runs meanwhile.
  double waiting_ms = 0;     ///< Of those, for another core that is late.
  std::uint32_t simulated_cores = 0;
  double hidden_ms = 0;  ///< Of collectives, what is under way while other kernels run.
};
ScalingRun scaling_run(const traces::RunRecord& record, const Summary& summary);

/// A machine with the same batch on each core as the first one has (weak), and with the same batch
/// on all cores together (strong), where it can be divided.
struct ScalingPoint {
  std::string config;
  std::size_t cores = 0;
  ScalingRun weak;
  std::optional<ScalingRun> strong;
  std::string why_not_strong;
};

/// One table: examples/s, efficiency (examples/s a core over those of the first machine), exposed
/// all-reduce.
std::string scaling_report(const std::string& workload, const std::vector<ScalingPoint>& points,
                           const TextStyle& style);
Json scaling_json(const std::string& workload, const std::vector<ScalingPoint>& points);

}  // namespace tpu::report
