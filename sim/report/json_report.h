#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/report/summary.h"

namespace tpu::report {

/// What the simulation cost: the only part of a report that differs from run to run.
struct SimulatorCost {
  double cpu_s = 0;
  double wall_s = 0;
  double compile_cpu_s = 0;  ///< Part of cpu_s: building and compiling the workload.
  double run_cpu_s = 0;      ///< Part of cpu_s: the machine.
  std::uint64_t peak_rss_bytes = 0;
};

/// The outcome of --check, for the report.
struct CheckedOutput {
  std::string name;      ///< The reference that it is nearest to: "out_003" (fp32), "bf16_003".
  double error = 0;      ///< Relative L2 error.
  double max_error = 0;  ///< Largest absolute difference.
  bool passed = false;
  double tolerance = 0;
  std::string reason;  ///< Where the tolerance comes from.
};

using Json = nlohmann::ordered_json;

/// Of every JSON report, `schema_version`: a key that changes its meaning or goes raises it.
constexpr int kJsonSchemaVersion = 2;

/// What the sequencers did, as shares; those without time are left out.
Json sequencer_json(const SequencerAccount& account);
Json units_json(const std::vector<UnitSummary>& units);

/// The report of a run with the keys of README.md in this folder.
Json to_json(const traces::RunRecord& record, const Summary& summary, const SimulatorCost& cost,
             const std::vector<CheckedOutput>& checks = {});

/// The report of a comparison: the runs, the parameters that differ, the ratios to the first.
Json comparison_json(const std::vector<traces::RunRecord>& records,
                     const std::vector<Summary>& summaries,
                     const std::vector<SimulatorCost>& costs);

}  // namespace tpu::report
