#include "sim/report/scaling_report.h"

namespace tpu::report {
namespace {

bool is_collective(const std::string& category) {
  return category == "all-reduce" || category == "all-gather" || category == "reduce-scatter" ||
         category == "all-to-all" || category == "collective-permute";
}

double efficiency(const ScalingRun& run, std::size_t cores, const ScalingPoint& first) {
  const double alone = first.weak.examples_per_s / static_cast<double>(first.cores);
  return alone > 0 ? run.examples_per_s / static_cast<double>(cores) / alone : 0;
}

std::vector<std::string> cells(const ScalingRun& run, std::size_t cores,
                               const ScalingPoint& first) {
  return {grouped(run.batch),
          fixed(run.step_ms, 2),
          grouped(static_cast<std::uint64_t>(run.examples_per_s + 0.5)),
          percent(efficiency(run, cores, first)),
          fixed(run.all_reduce_ms, 2),
          percent(run.step_ms > 0 ? run.all_reduce_ms / run.step_ms : 0)};
}

Json to_json(const ScalingRun& run, std::size_t cores, const ScalingPoint& first) {
  return {{"batch", run.batch},
          {"step_ms", run.step_ms},
          {"examples_per_s", run.examples_per_s},
          {"efficiency", efficiency(run, cores, first)},
          {"exposed_all_reduce_ms", run.all_reduce_ms},
          {"waiting_for_peers_ms", run.waiting_ms},
          {"simulated_cores", run.simulated_cores}};
}

}  // namespace

ScalingRun scaling_run(const traces::RunRecord& record, const Summary& summary) {
  ScalingRun run;
  run.batch = record.batch;
  run.step_ms = summary.step_mean_ms;
  run.examples_per_s = summary.examples_per_s;
  run.simulated_cores = record.result.simulated_cores;
  const double steps = static_cast<double>(summary.steps.size());
  for (const OpSummary& op : summary.ops) {
    if (!is_collective(record.ops[op.op].category)) continue;
    run.all_reduce_ms += record.params.seconds(1) * op.cycles / steps * 1e3;
  }
  run.waiting_ms = (summary.breakdown.peer_wait + summary.breakdown.peer_host_wait) * run.step_ms;
  return run;
}

std::string scaling_report(const std::string& workload, const std::vector<ScalingPoint>& points,
                           const TextStyle& style) {
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"machine", "cores", "batch", "step ms", "examples/s", "efficiency",
                  "all-reduce ms", "of step", "strong: batch", "step ms", "examples/s",
                  "efficiency", "all-reduce ms", "of step"});
  std::string notes;
  for (const ScalingPoint& point : points) {
    std::vector<std::string> row{point.config, grouped(point.cores)};
    for (std::string& cell : cells(point.weak, point.cores, points[0])) row.push_back(cell);
    if (point.strong) {
      for (std::string& cell : cells(*point.strong, point.cores, points[0])) row.push_back(cell);
    } else {
      row.resize(rows[0].size(), "-");
      notes += "  " + point.config + ", strong: " + point.why_not_strong + "\n";
    }
    rows.push_back(row);
  }
  std::string text = workload +
                     ": weak scaling (the batch of a core stays), then strong scaling "
                     "(that of all cores together stays)\n\n";
  text += columns(rows);
  text += "\nEfficiency: examples/s a core over those of " + points[0].config +
          ". All-reduce: time of collectives in which a core does nothing else.\n";
  return fit_to_width(text + notes, style);
}

Json scaling_json(const std::string& workload, const std::vector<ScalingPoint>& points) {
  Json list = Json::array();
  for (const ScalingPoint& point : points) {
    Json each{{"config", point.config},
              {"cores", point.cores},
              {"weak", to_json(point.weak, point.cores, points[0])}};
    each["strong"] = point.strong ? to_json(*point.strong, point.cores, points[0]) : Json();
    if (!point.strong) each["why_not_strong"] = point.why_not_strong;
    list.push_back(each);
  }
  return {{"workload", workload}, {"points", list}};
}

}  // namespace tpu::report
