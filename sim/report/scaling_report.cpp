#include "sim/report/scaling_report.h"

#include <cmath>

#include "sim/report/all_reduce_report.h"

namespace tpu::report {
namespace {

double efficiency(const ScalingRun& run, std::size_t cores, const ScalingPoint& first) {
  const double alone = first.weak.examples_per_s / static_cast<double>(first.cores);
  return alone > 0 ? run.examples_per_s / static_cast<double>(cores) / alone : 0;
}

std::vector<std::string> row(const ScalingPoint& point, const ScalingRun& run,
                             const ScalingPoint& first) {
  return {point.config,
          grouped(point.cores),
          grouped(run.batch),
          fixed(run.step_ms, 2),
          grouped(static_cast<std::uint64_t>(std::llround(run.examples_per_s))),
          percent(efficiency(run, point.cores, first)),
          fixed(run.all_reduce_ms, 2)};
}

Json run_json(const ScalingRun& run, std::size_t cores, const ScalingPoint& first) {
  return {{"batch", run.batch},
          {"step_ms", run.step_ms},
          {"examples_per_s", run.examples_per_s},
          {"efficiency", efficiency(run, cores, first)},
          {"exposed_all_reduce_ms", run.all_reduce_ms},
          {"hidden_all_reduce_ms", run.hidden_ms},
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
  const AllReduceTime all_reduces = all_reduce_sum(all_reduce_times(record, summary));
  run.all_reduce_ms = all_reduces.exposed_ms;
  run.hidden_ms = all_reduces.hidden_ms;
  run.waiting_ms = (summary.breakdown.peer_wait + summary.breakdown.peer_host_wait) * run.step_ms;
  return run;
}

std::string scaling_report(const std::string& workload, const std::vector<ScalingPoint>& points,
                           const TextStyle& style) {
  std::vector<std::vector<std::string>> rows{
      {"machine", "cores", "batch", "step ms", "examples/s", "efficiency", "exposed ms"}};
  std::string notes;
  rows.push_back({"weak"});
  for (const ScalingPoint& point : points) rows.push_back(row(point, point.weak, points[0]));
  rows.push_back({"strong"});
  for (const ScalingPoint& point : points) {
    if (point.strong) {
      rows.push_back(row(point, *point.strong, points[0]));
    } else {
      notes += "No strong scaling on " + point.config + ": " + point.why_not_strong + ".\n";
    }
  }
  for (std::vector<std::string>& each : rows) each.resize(rows[0].size());
  return fit_to_width(
      workload + " from slice to slice\n\n" + columns(rows, style.width) +
          "\nWeak: the batch of a core stays; strong: that of all cores together. Efficiency:\n"
          "examples/s a core over those of " +
          points[0].config +
          ". Exposed: time in collectives,\nin which a core does nothing else, with "
          "waits for late cores.\n" +
          notes,
      style);
}

Json scaling_json(const std::string& workload, const std::vector<ScalingPoint>& points) {
  Json list = Json::array();
  for (const ScalingPoint& point : points) {
    Json each{{"config", point.config},
              {"cores", point.cores},
              {"weak", run_json(point.weak, point.cores, points[0])}};
    each["strong"] = point.strong ? run_json(*point.strong, point.cores, points[0]) : Json();
    if (!point.strong) each["why_not_strong"] = point.why_not_strong;
    list.push_back(each);
  }
  return {{"schema_version", kJsonSchemaVersion}, {"workload", workload}, {"points", list}};
}

}  // namespace tpu::report
