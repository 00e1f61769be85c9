#include "sim/report/html_report.h"

#include <algorithm>
#include <cmath>

#include "models/parameter_table.h"
#include "sim/base/error.h"
#include "sim/report/comparison.h"
#include "sim/report/comparison_table.h"
#include "sim/report/critical_path_report.h"
#include "sim/report/energy.h"
#include "sim/report/op_groups.h"
#include "sim/report/part_accounts.h"
#include "sim/report/report_page.h"
#include "sim/report/run_diff.h"
#include "sim/report/what_if_report.h"
#include "traces/buffer_lifetimes.h"
#include "traces/core_events.h"
#include "traces/host_stages.h"
#include "traces/link_loads.h"

namespace tpu::report {
namespace {

constexpr std::size_t kSamples = 300;
constexpr std::size_t kMostOps = 2000;
constexpr std::size_t kLargestBuffers = 12;
constexpr std::size_t kLargestChanges = 25;

/// Four digits are what a page shows, and keep it small.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10, 4 - std::ceil(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

Json rounded_list(const std::vector<double>& values, double scale) {
  Json list = Json::array();
  for (const double value : values) list.push_back(rounded(value * scale));
  return list;
}

/// Of each op the number of those that it is alike with; of each such number scope and bound.
Json ops_data(const traces::RunRecord& record, const Summary& summary, Json& scopes) {
  Json ops = Json::array();
  std::vector<std::size_t> alike(record.ops.size(), 0);
  scopes = Json::array();
  for (const OpGroup& group : alike_ops(record, summary)) {
    for (const std::uint32_t op : group.ops) alike[op] = scopes.size();
    scopes.push_back({group.scope, to_string(group.sum.bound)});
  }
  double total = 0;
  for (const OpSummary& op : summary.ops) total += op.cycles;
  for (const OpSummary& op : summary.ops) {
    if (ops.size() == kMostOps) break;
    const isa::OpInfo& info = record.ops[op.op];
    ops.push_back({{"name", info.name},
                   {"category", info.category},
                   {"scope", info.op_name},
                   {"count", rounded(op.count)},
                   {"ms", rounded(op.cycles / (record.params.clock_mhz * 1e3))},
                   {"share", total > 0 ? rounded(op.cycles / total) : 0},
                   {"flops", rounded(op.flops)},
                   {"bytes", rounded(op.hbm_bytes)},
                   {"bound", to_string(op.bound)},
                   {"alike", alike[op.op]}});
  }
  return ops;
}

/// Shares over the time of the first core, from the begin of the first step that counts.
Json timeline_data(const traces::RunRecord& record) {
  if (!record.has_events || record.result.cores.empty()) return nullptr;
  const traces::CoreEvents events = traces::core_events(record, 0);
  std::uint64_t first = record.result.cycles;
  for (const StepSpan& step : events.result->steps) first = std::min(first, step.begin);
  const std::uint64_t total = record.result.cycles - first;
  const std::size_t bins = std::min<std::uint64_t>(kSamples, total);
  if (bins == 0) return nullptr;
  const MxuParams& mxu = record.params.core.mxu;
  std::vector<traces::Quantity> pushes, waits;
  for (const traces::OpEvent* op : events.ops) {
    pushes.push_back(
        {op->begin, op->end,
         static_cast<double>(op->matmul_pushes) * mxu.push_interval_cycles / mxu.blocks()});
  }
  for (const traces::WaitEvent* wait : events.waits) {
    waits.push_back({wait->begin, wait->end, static_cast<double>(wait->end - wait->begin)});
  }
  const double width = static_cast<double>(total) / static_cast<double>(bins);
  const double pins = record.params.core_hbm_bytes_per_s() / (record.params.clock_mhz * 1e6);
  const auto shares = [&](const std::vector<traces::Quantity>& quantities) {
    return rounded_list(traces::binned(traces::since(first, quantities), total, bins), 1 / width);
  };
  return {{"ms", rounded(record.params.seconds(total) * 1e3)},
          {"mxu", shares(pushes)},
          {"hbm", rounded_list(traces::hbm_bytes(record, events, bins, first), 1 / width / pins)},
          {"waits", shares(waits)}};
}

Json memory_data(const traces::RunRecord& record, const Summary& summary) {
  Json in_use = Json::array(), buffers = Json::array();
  const std::vector<std::uint64_t> bytes = traces::hbm_in_use(record);
  const std::size_t every = std::max<std::size_t>(1, bytes.size() / kSamples);
  for (std::size_t i = 0; i < bytes.size(); i += every) {
    const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(std::min(i + every, bytes.size()));
    const auto most = std::max_element(bytes.begin() + static_cast<std::ptrdiff_t>(i), end);
    in_use.push_back({record.ops[static_cast<std::size_t>(most - bytes.begin())].name,
                      static_cast<double>(*most)});
  }
  std::vector<const isa::Buffer*> order;
  for (const isa::Buffer& buffer : record.buffers) order.push_back(&buffer);
  std::stable_sort(order.begin(), order.end(),
                   [](const isa::Buffer* a, const isa::Buffer* b) { return a->bytes > b->bytes; });
  for (const isa::Buffer* buffer : order) {
    if (buffers.size() == kLargestBuffers) break;
    buffers.push_back({{"name", buffer->name},
                       {"role", role_name(buffer->role)},
                       {"shape", buffer->shape},
                       {"bytes", buffer->bytes},
                       {"unpadded", buffer->unpadded_bytes}});
  }
  return {{"in_use", in_use},
          {"buffers", buffers},
          {"peak", summary.memory.hbm_peak_bytes},
          {"plan", summary.memory.hbm_plan_bytes},
          {"capacity", summary.memory.hbm_capacity_bytes}};
}

/// Shares of the step by cause, the largest first.
Json causes_data(const traces::RunRecord& record, const Summary& summary) {
  Json causes = Json::object();
  for (const Cause& cause : causes_of(record, summary)) {
    causes[tpu::to_string(cause.resource)] = cause.share;
  }
  return causes;
}

/// Rows: from, to, direction, share of the rate, bytes. Nothing where no link carried anything.
Json links_data(const traces::RunRecord& record) {
  Json rows = Json::array();
  bool any = false;
  for (const traces::LinkLoad& link : traces::link_loads(record)) {
    any = any || link.bytes > 0;
    rows.push_back({link.from_chip, link.to_chip, traces::direction_name(link.direction),
                    rounded(link.utilization), link.bytes});
  }
  return any ? rows : Json::array();
}

Json host_data(const traces::RunRecord& record) {
  Json rows = Json::array();
  for (const traces::HostStage& stage : traces::host_stages(record)) {
    rows.push_back({stage.name, rounded(stage.capacity), rounded(stage.examples_per_s),
                    rounded(stage.utilization())});
  }
  return rows;
}

Json energy_data(const traces::RunRecord& record) {
  const Energy energy = energy_of(record);
  if (!energy.is_known) return nullptr;
  Json parts = Json::array();
  for (std::size_t part = 0; part < kEnergyParts; ++part) {
    parts.push_back({to_string(static_cast<EnergyPart>(part)), rounded(energy.joules[part])});
  }
  return {{"parts", parts},
          {"total", energy.total()},
          {"low", energy.low},
          {"high", energy.high},
          {"watts", energy.watts_per_chip},
          {"tdp", energy.tdp_watts},
          {"not_modelled", kEnergyNotModelled}};
}

Json run_data(const traces::RunRecord& record, const Summary& summary) {
  Json figures = Json::array();
  for (const ResultRow& row : result_rows({record}, {summary})) {
    const bool is_missing = std::isnan(row.values[0]);
    figures.push_back({row.label, is_missing ? Json(row.missing) : Json(rounded(row.values[0]))});
  }
  Json run = {
      {"config", record.config},
      {"workload", record.workload},
      {"compiler", record.compiler},
      {"batch", record.batch},
      {"cores", record.result.cores.size()},
      {"step_ms", summary.step_mean_ms},
      {"peak_flops", record.params.core_peak_flops()},
      {"hbm_rate", record.params.core_hbm_bytes_per_s()},
      {"figures", figures},
      {"causes", causes_data(record, summary)},
      {"categories", categories_json(record)},
      {"timeline", timeline_data(record)},
      {"memory", memory_data(record, summary)},
      {"mesh", {record.params.ici.mesh_x, record.params.ici.mesh_y, record.params.ici.mesh_z}},
      {"links", links_data(record)},
      {"host_stages", host_data(record)},
      {"parts", parts_json(record.result.parts)},
      {"energy", energy_data(record)},
      {"notes", record.result.notes}};
  Json scopes;
  run["ops"] = ops_data(record, summary, scopes);
  run["alike"] = scopes;
  run["sequencer"] = sequencer_json(summary.sequencer);
  run["units"] = units_json(summary.units);
  run["what_if"] = what_if_json(record, summary);
  return run;
}

/// Rows: name, microseconds of the first run, of the second. What is not listed is in `rest`.
Json diff_data(const traces::RunRecord& first, const traces::RunRecord& second) {
  const RunDifference difference = difference_of(first, second);
  Json causes = Json::array(), ops = Json::array();
  for (std::size_t cause = 0; cause < kResources; ++cause) {
    if (difference.first[cause] == 0 && difference.second[cause] == 0) continue;
    causes.push_back({tpu::to_string(static_cast<Resource>(cause)),
                      rounded(difference.first[cause]), rounded(difference.second[cause])});
  }
  double rest[2] = {total(difference.first), total(difference.second)};
  const std::vector<OpDifference> rows = alike_differences(difference.ops);
  for (const OpDifference& row : rows) {
    if (ops.size() == kLargestChanges) break;
    const char* alone = row.in_first && row.in_second ? ""
                        : row.in_first                ? " (first alone)"
                                                      : " (second alone)";
    const std::string places =
        row.places > 1 ? " (at " + grouped(row.places) + " places)" : std::string();
    ops.push_back({row.name + (row.shape.empty() ? "" : " " + row.shape) + places + alone,
                   rounded(total(row.first)), rounded(total(row.second))});
    rest[0] -= total(row.first);
    rest[1] -= total(row.second);
  }
  Json categories = Json::array();
  for (const OpDifference& row : difference.categories) {
    categories.push_back({row.name, rounded(total(row.first)), rounded(total(row.second))});
  }
  return {{"us", {total(difference.first), total(difference.second)}},
          {"by_scope", difference.by_scope},
          {"causes", causes},
          {"categories", categories},
          {"ops", ops},
          {"rest", {rest[0], rest[1]}},
          {"others", rows.size() - ops.size()}};
}

}  // namespace

Json html_data(const std::vector<traces::RunRecord>& records,
               const std::vector<Summary>& summaries) {
  Json data;
  data["runs"] = Json::array();
  for (std::size_t i = 0; i < records.size(); ++i) {
    data["runs"].push_back(run_data(records[i], summaries[i]));
  }
  data["parameters"] = Json::array();
  for (const ParameterDifference& difference : differing_parameters(records)) {
    data["parameters"].push_back(
        {{"path", difference.path}, {"unit", difference.unit}, {"values", difference.values}});
  }
  data["diffs"] = Json::array();
  for (std::size_t i = 1; i < records.size(); ++i) {
    data["diffs"].push_back(diff_data(records[0], records[i]));
  }
  data["gpus"] = Json::array();
  if (records.empty()) return data;
  for (const GpuBound& gpu : gpu_bounds(records[0], summaries[0])) {
    data["gpus"].push_back({{"name", gpu.name},
                            {"step_ms", rounded(gpu.step_ms)},
                            {"examples_per_s", rounded(gpu.examples_per_s)},
                            {"bound_by", gpu.bound_by},
                            {"watts", gpu.watts}});
  }
  return data;
}

std::string html_report(const std::vector<traces::RunRecord>& records,
                        const std::vector<Summary>& summaries) {
  constexpr std::string_view kPlace = "RUN_DATA";
  std::string data =
      html_data(records, summaries).dump(-1, ' ', true, Json::error_handler_t::replace);
  // No text of a run ends the script that holds it.
  for (std::size_t at = data.find('<'); at != std::string::npos; at = data.find('<', at)) {
    data.replace(at, 1, "\\u003c");
  }
  std::string page(report_page());
  const std::size_t place = page.find(kPlace);
  TPU_CHECK(place != std::string::npos, "the page has no place for data");
  return page.replace(place, kPlace.size(), data);
}

}  // namespace tpu::report
