#include "sim/report/json_report.h"

#include <cmath>

#include "models/parameter_table.h"
#include "sim/report/all_reduce_report.h"
#include "sim/report/comparison.h"
#include "sim/report/comparison_table.h"
#include "sim/report/critical_path_report.h"
#include "sim/report/energy.h"
#include "sim/report/estimate_comparison.h"
#include "sim/report/op_groups.h"
#include "sim/report/part_accounts.h"
#include "sim/report/training_report.h"
#include "sim/report/what_if_report.h"

namespace tpu::report {
namespace {

/// A whole number as one, so that a single core's counts stay counts.
Json number(double value) {
  const auto whole = static_cast<std::uint64_t>(value);
  return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

Json parameters_json(const MachineParams& params) {
  Json all = Json::object();
  for (const ParameterValue& parameter : parameter_table(params)) {
    Json* group = &all;
    std::string rest = parameter.path;
    for (std::size_t dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
      group = &(*group)[rest.substr(0, dot)];
      rest = rest.substr(dot + 1);
    }
    std::visit([&](const auto& value) { (*group)[rest] = value; }, parameter.value);
  }
  return all;
}

Json op_json(const traces::RunRecord& record, const OpSummary& op, double total_cycles) {
  const isa::OpInfo& info = record.ops[op.op];
  Json json;
  json["name"] = info.name;
  json["category"] = info.category;
  json["count"] = number(op.count);
  json["cycles"] = number(op.cycles);
  json["cycles_max"] = op.cycles_max;
  json["fraction"] = total_cycles > 0 ? op.cycles / total_cycles : 0;
  json["time_ms"] = op.cycles / (record.params.clock_mhz * 1e3);
  json["flops"] = number(op.flops);
  json["matmul_flops"] = number(op.matmul_flops);
  json["padded_matmul_flops"] = number(op.padded_matmul_flops);
  json["pushed_matmul_flops"] = number(op.pushed_matmul_flops);
  json["hbm_bytes"] = number(op.hbm_bytes);
  json["compulsory_hbm_bytes"] = number(op.compulsory_hbm_bytes);
  json["dmas"] = number(op.dmas);
  json["ici_bytes"] = number(op.ici_bytes);
  json.update(op_causes_json(record, op));
  json["bound_by"] = to_string(op.bound);
  json["bound_gain"] = op.bound.gain;
  json["busy"] = {{"mxu", op.shares.mxu},
                  {"vector_alu", op.shares.vector_alu},
                  {"vector_load", op.shares.vector_load},
                  {"vector_store", op.shares.vector_store},
                  {"xlu", op.shares.xlu},
                  {"eup", op.shares.eup},
                  {"hbm", op.shares.hbm},
                  {"ici", op.shares.ici},
                  {"peer", op.shares.peer},
                  {"infeed", op.shares.infeed},
                  {"memory_wait", op.shares.memory_wait},
                  {"schedule", op.shares.schedule}};
  json["matmul_padding"] = op.matmul_padding;
  json["layout_padding"] = op.layout_padding;
  json["estimated_cycles"] = info.estimated_cycles;
  json["op_name"] = info.op_name;
  json["source"] = info.source;
  json["shape"] = info.shape;
  return json;
}

/// XLA's estimates, where the program has any: the whole, and beside each operation in `ops`.
void add_estimates(const traces::RunRecord& record, const Summary& summary, Json& json) {
  const EstimateComparison comparison = compare_with_estimates(record, summary);
  if (comparison.ops.empty()) return;
  for (const EstimatedOp& each : comparison.ops) {
    json["ops"][each.op]["estimate"] = {{"cycles", number(each.estimated_cycles)},
                                        {"ratio", each.ratio()},
                                        {"differs", each.differs()},
                                        {"reason", to_string(each.reason)},
                                        {"text", reason_text(each, summary.ops[each.op])}};
  }
  Json reasons = Json::array();
  for (const EstimateGroup& group : comparison.groups) {
    reasons.push_back({{"reason", to_string(group.reason)},
                       {"longer", group.is_longer},
                       {"ops", group.count},
                       {"differing", group.differing},
                       {"cycles", number(group.cycles)},
                       {"estimated_cycles", number(group.estimated_cycles)},
                       {"text", reason_text(group)}});
  }
  json["xla_estimate"] = {{"cycles", number(comparison.estimated_cycles)},
                          {"our_cycles", number(comparison.cycles)},
                          {"ratio", comparison.cycles / comparison.estimated_cycles},
                          {"ops", comparison.ops.size()},
                          {"ops_without", comparison.without},
                          {"our_cycles_without", number(comparison.cycles_without)},
                          {"reasons", reasons}};
}

Json memory_json(const traces::RunRecord& record, const Memory& memory) {
  Json json;
  json["hbm_peak_bytes"] = memory.hbm_peak_bytes;
  json["hbm_plan_bytes"] = memory.hbm_plan_bytes;
  json["hbm_capacity_bytes"] = memory.hbm_capacity_bytes;
  json["padded_bytes"] = memory.padded_bytes;
  json["unpadded_bytes"] = memory.unpadded_bytes;
  Json& roles = json["roles"];
  for (std::size_t role = 0; role < memory.role_bytes.size(); ++role) {
    roles[role_name(static_cast<isa::BufferRole>(role))] = memory.role_bytes[role];
  }
  json["largest"] = Json::array();
  for (const std::uint32_t index : memory.largest) {
    const isa::Buffer& buffer = record.buffers[index];
    json["largest"].push_back({{"name", buffer.name},
                               {"role", role_name(buffer.role)},
                               {"shape", buffer.shape},
                               {"bytes", buffer.bytes},
                               {"unpadded_bytes", buffer.unpadded_bytes},
                               {"op_name", buffer.op_name}});
  }
  return json;
}

Json cores_json(const traces::RunRecord& record) {
  Json cores = Json::array();
  for (std::size_t i = 0; i < record.result.cores.size(); ++i) {
    const CoreResult& core = record.result.cores[i];
    Json steps = Json::array();
    Json waited_for = Json::object();
    for (const auto& [late, cycles] : core.waited_for) waited_for[std::to_string(late)] = cycles;
    for (const StepSpan& span : core.steps) steps.push_back(span.end - span.begin);
    cores.push_back({{"core", record.core_numbers[i]},
                     {"chip", core.chip},
                     {"core_of_chip", core.core},
                     {"end_cycle", core.end_cycle},
                     {"bundles", core.total.bundles},
                     {"waited_for", waited_for},
                     {"step_cycles", steps}});
  }
  return cores;
}

Json simulator_json(const Summary& summary, const SimulatorCost& cost) {
  return {{"cpu_s", cost.cpu_s},
          {"wall_s", cost.wall_s},
          {"compile_cpu_s", cost.compile_cpu_s},
          {"run_cpu_s", cost.run_cpu_s},
          {"core_cycles", summary.core_cycles},
          {"core_cycles_per_cpu_s",
           cost.cpu_s > 0 ? static_cast<double>(summary.core_cycles) / cost.cpu_s : 0},
          {"peak_rss_bytes", cost.peak_rss_bytes},
          {"version", TPUSIM_VERSION}};
}

/// The steps before those that count.
Json warm_up_json(const traces::RunRecord& record, const SteadyState& steady) {
  Json steps = Json::array();
  for (const std::uint64_t cycles : steady.warmup_cycles) {
    steps.push_back({{"cycles", cycles}, {"time_ms", record.params.seconds(cycles) * 1e3}});
  }
  return {{"steps", steps}, {"counted_from", steady.number}, {"repeats", steady.repeats}};
}

Json utilization_json(const Utilization& used) {
  return {{"mxu", used.mxu},
          {"mxu_flops", used.mxu_flops},
          {"vpu", used.vpu},
          {"hbm", used.hbm},
          {"ici", used.ici}};
}

Json breakdown_json(const Breakdown& parts) {
  return {{"compute", parts.compute},
          {"memory_wait", parts.memory_wait},
          {"infeed_wait", parts.infeed_wait},
          {"outfeed_wait", parts.outfeed_wait},
          {"ici_wait", parts.ici_wait},
          {"peer_wait", parts.peer_wait},
          {"peer_host_wait", parts.peer_host_wait},
          {"host_wait", parts.host_wait},
          {"finished", parts.finished}};
}

/// What was not modelled is no 0: it is not there.
Json energy_json(const Energy& energy) {
  if (!energy.is_known) return "not modelled: no power of this chip was published";
  Json joules = Json::object();
  for (std::size_t part = 0; part < kEnergyParts; ++part) {
    joules[to_string(static_cast<EnergyPart>(part))] = energy.joules[part];
  }
  Json json = {{"basis", "inferred"},
               {"joules", joules},
               {"step_joules", energy.total()},
               {"step_joules_interval", {energy.low, energy.high}},
               {"watts_per_chip", energy.watts_per_chip},
               {"tdp_watts", energy.tdp_watts},
               {"examples_per_joule", energy.examples_per_joule}};
  if (energy.is_die_as_made) json["die_mm2_below"] = energy.die_mm2;
  json["not_modelled"] = kEnergyNotModelled;
  return json;
}

Json cost_json(const traces::RunRecord& record, const Summary& summary, double dollars) {
  Json json = {{"dollars_per_hour", dollars},
               {"examples_per_dollar", 3600 * summary.examples_per_s / dollars}};
  if (record.params.input.images > 0 && summary.examples_per_s > 0) {
    const double hours = record.params.input.images / summary.examples_per_s / 3600;
    json["epoch"] = {
        {"examples", record.params.input.images}, {"hours", hours}, {"dollars", hours * dollars}};
  }
  return json;
}

Json checks_json(const std::vector<CheckedOutput>& checks) {
  Json list = Json::array();
  for (const CheckedOutput& check : checks) {
    list.push_back({{"name", check.name},
                    {"relative_error", check.error},
                    {"max_error", check.max_error},
                    {"passed", check.passed},
                    {"tolerance", check.tolerance},
                    {"reason", check.reason}});
  }
  return list;
}

Json paths_json(const traces::RunRecord& record) {
  Json paths = Json::array();
  for (const PathTaken& path : record.result.paths) {
    const isa::ControlOp& op = record.control[path.op];
    Json json = {{"name", op.name},       {"op_name", op.op_name},
                 {"source", op.source},   {"executions", path.executions},
                 {"stated", path.stated}, {"assumed", path.assumed}};
    if (op.branches == 0) {
      json["least_trips"] = path.least_trips;
      json["most_trips"] = path.most_trips;
    } else {
      json["branch_counts"] = path.branch_counts;
    }
    paths.push_back(std::move(json));
  }
  return paths;
}

}  // namespace

Json sequencer_json(const SequencerAccount& account) {
  Json json = Json::object();
  const double all = total(account);
  for (std::size_t part = 0; part < kSequencerParts; ++part) {
    if (account[part] > 0) json[sequencer_part_name(part)] = account[part] / all;
  }
  return json;
}

Json units_json(const std::vector<UnitSummary>& units) {
  Json json = Json::object();
  for (const UnitSummary& unit : units) {
    const auto idle = [&](CoreState state) { return unit.idle[static_cast<std::size_t>(state)]; };
    json[tpu::to_string(unit.unit)] = {
        {"busy", unit.busy},
        {"nothing_to_do", idle(CoreState::kIssue) + idle(CoreState::kDelay)},
        {"memory_wait", idle(CoreState::kMemoryWait)},
        {"infeed_wait", idle(CoreState::kInfeedWait)},
        {"outfeed_wait", idle(CoreState::kOutfeedWait)},
        {"ici_wait", idle(CoreState::kIciWait)},
        {"peer_wait", idle(CoreState::kPeerWait)},
        {"peer_host_wait", idle(CoreState::kPeerHostWait)},
        {"finished", idle(CoreState::kFinished)}};
  }
  return json;
}

Json to_json(const traces::RunRecord& record, const Summary& summary, const SimulatorCost& cost,
             const std::vector<CheckedOutput>& checks) {
  Json json;
  json["schema_version"] = kJsonSchemaVersion;
  json["config"] = record.config;
  json["workload"] = record.workload;
  json["program"] = record.program;
  json["parameters"] = parameters_json(record.params);
  json["compiler"] = record.compiler;
  json["batch"] = record.batch;
  json["cores"] = cores_json(record);
  json["values"] = record.values;
  if (record.values) json["values_from"] = record.values_from;
  json["steps"] = Json::array();
  for (const StepSummary& step : summary.steps) {
    json["steps"].push_back({{"cycles", step.cycles}, {"time_ms", step.time_ms}});
  }
  json["step_time_ms"] = {
      {"mean", summary.step_mean_ms}, {"min", summary.step_min_ms}, {"max", summary.step_max_ms}};
  json["first_step_ms"] = summary.steady.first_ms;
  json["warm_up"] = warm_up_json(record, summary.steady);
  json["examples_per_s"] = summary.examples_per_s;
  json["utilization"] = utilization_json(summary.utilization);
  json["idle_fraction"] = summary.idle_fraction;
  json["breakdown"] = breakdown_json(summary.breakdown);
  json["causes"] = causes_json(record, summary);
  json["categories"] = categories_json(record);
  json["sequencer"] = sequencer_json(summary.sequencer);
  json["units"] = units_json(summary.units);
  json["parts"] = parts_json(record.result.parts);
  json["roofline"] = {{"compute_ms", summary.roofline.compute_ms},
                      {"memory_ms", summary.roofline.memory_ms},
                      {"moved_memory_ms", moved_bytes_ms(record.params, summary)},
                      {"bound_ms", summary.roofline.bound_ms},
                      {"reached", summary.roofline.reached}};
  json["flops"] = {{"model", number(summary.model_flops)},
                   {"model_from", summary.model_flops_are_executed ? "executed" : "graph"},
                   {"data_dependent_control", record.data_dependent_control},
                   {"useful_matmul", summary.useful_matmul_flops},
                   {"padded_matmul", summary.padded_matmul_flops},
                   {"pushed_matmul", summary.pushed_matmul_flops}};
  json["hbm_bytes_per_step"] = summary.hbm_bytes_per_step;
  json["energy"] = energy_json(energy_of(record));
  if (const auto dollars = whole_slice_price(record)) {
    json["cost"] = cost_json(record, summary, *dollars);
  }
  double total_cycles = 0;
  for (const OpSummary& op : summary.ops) total_cycles += op.cycles;
  json["ops"] = Json::array();
  for (const OpSummary& op : summary.ops) json["ops"].push_back(op_json(record, op, total_cycles));
  add_estimates(record, summary, json);
  json["what_if"] = what_if_json(record, summary);
  json["memory"] = memory_json(record, summary.memory);
  if (!record.losses.empty()) json["loss"] = record.losses;
  if (!checks.empty()) json["checks"] = checks_json(checks);
  json["paths"] = paths_json(record);
  json["notes"] = record.result.notes;
  json["host_verdict"] = record.host_verdict;
  json["all_reduces"] = all_reduces_json(record, summary);
  if (record.training) json["training"] = training_json(record);
  json["simulator"] = simulator_json(summary, cost);
  return json;
}

Json comparison_json(const std::vector<traces::RunRecord>& records,
                     const std::vector<Summary>& summaries,
                     const std::vector<SimulatorCost>& costs) {
  Json json;
  json["schema_version"] = kJsonSchemaVersion;
  json["workload"] = records.empty() ? "" : records[0].workload;
  json["configs"] = Json::array();
  for (const traces::RunRecord& record : records) json["configs"].push_back(record.config);
  Json& parameters = json["parameters"] = Json::object();
  for (const ParameterDifference& difference : differing_parameters(records)) {
    parameters[difference.path] = difference.values;
  }
  json["results"] = Json::array();
  for (const ResultRow& row : result_rows(records, summaries)) {
    Json ratios = Json::array();
    for (const double value : row.values) {
      ratios.push_back(std::isfinite(value / row.values[0]) ? Json(value / row.values[0]) : Json());
    }
    json["results"].push_back({{"name", row.name}, {"values", row.values}, {"ratios", ratios}});
  }
  json["gpus"] = Json::array();
  if (!records.empty()) {
    for (const GpuBound& gpu : gpu_bounds(records[0], summaries[0])) {
      json["gpus"].push_back({{"name", gpu.name},
                              {"bound", true},
                              {"step_ms", gpu.step_ms},
                              {"examples_per_s", gpu.examples_per_s},
                              {"bound_by", gpu.bound_by},
                              {"watts", gpu.watts}});
    }
  }
  json["runs"] = Json::array();
  Json simulators = Json::array();
  for (std::size_t i = 0; i < records.size(); ++i) {
    Json run = to_json(records[i], summaries[i], costs[i]);
    simulators.push_back(run["simulator"]);
    run.erase("simulator");
    json["runs"].push_back(run);
  }
  json["simulator"] = {{"runs", simulators}};
  return json;
}

}  // namespace tpu::report
