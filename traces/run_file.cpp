#include "traces/run_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "models/parameter_table.h"
#include "sim/base/error.h"
#include "traces/buffer_lifetimes.h"
#include "traces/column_texts.h"
#include "traces/critical_path_table.h"
#include "traces/event_tables.h"
#include "traces/hdf5_file.h"
#include "traces/host_stages.h"
#include "traces/link_loads.h"
#include "traces/op_operands.h"
#include "traces/part_table.h"
#include "traces/program_tables.h"
#include "traces/training_table.h"
#include "traces/what_if_table.h"

namespace tpu::traces {
namespace {

const FileKind kRunFile{"run", 10};
using U64 = std::vector<std::uint64_t>;
using U32 = std::vector<std::uint32_t>;
using Strings = std::vector<std::string>;

Table parameters_table(const MachineParams& params) {
  const std::vector<ParameterValue> values = parameter_table(params);
  Table table;
  table.add("path", column_of<std::string>(values, [](const auto& v) { return v.path; }));
  table.add("value", column_of<std::string>(values, [](const auto& v) { return value_text(v); }));
  table.add("unit", column_of<std::string>(values, [](const auto& v) { return v.unit; }));
  table.add("help", column_of<std::string>(values, [](const auto& v) { return v.help; }));
  return table;
}

template <class Type>
void parse_value(const std::string& text, Type& to, const std::string& where) {
  if constexpr (std::is_same_v<Type, std::string>) {
    to = text;
  } else if constexpr (std::is_same_v<Type, bool>) {
    to = text == "true";
  } else {
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, to);
    if (result.ec != std::errc() || result.ptr != end) {
      throw WorkloadError(where + ": expected a number, found \"" + text + "\"");
    }
  }
}

MachineParams params_of(const Table& table, const std::string& file) {
  const Strings& paths = table.column<std::string>("path");
  const Strings& values = table.column<std::string>("value");
  MachineParams params;
  visit_parameters(params, "", [&](const std::string& path, const auto&, auto& value) {
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (paths[i] == path) parse_value(values[i], value, file + ": parameters: " + path);
    }
  });
  return params;
}

/// The scalar members of Counters by name; `visit(name, member)`.
template <class Visitor>
void visit_counters(Visitor&& visit) {
  visit("bundles", &Counters::bundles);
  visit("scalar_ops", &Counters::scalar_ops);
  visit("vector_alu_ops", &Counters::vector_alu_ops);
  visit("vector_loads", &Counters::vector_loads);
  visit("vector_stores", &Counters::vector_stores);
  visit("matmul_pushes", &Counters::matmul_pushes);
  visit("weight_pushes", &Counters::weight_pushes);
  visit("xlu_pushes", &Counters::xlu_pushes);
  visit("eup_pushes", &Counters::eup_pushes);
  visit("dmas", &Counters::dmas);
  visit("hbm_read_bytes", &Counters::hbm_read_bytes);
  visit("hbm_write_bytes", &Counters::hbm_write_bytes);
  visit("ici_bytes", &Counters::ici_bytes);
}

constexpr std::size_t kStates = CycleAccount<CoreState>::kStates;
constexpr const char* kStateColumns[] = {
    "issue_cycles",       "delay_cycles",          "memory_wait_cycles",
    "infeed_wait_cycles", "outfeed_wait_cycles",   "ici_wait_cycles",
    "peer_wait_cycles",   "peer_host_wait_cycles", "finished_cycles"};
static_assert(std::size(kStateColumns) == kStates);
constexpr const char* kUnitColumns[] = {"scalar_busy_cycles",      "vector_alu_busy_cycles",
                                        "vector_load_busy_cycles", "vector_store_busy_cycles",
                                        "mxu0_busy_cycles",        "mxu1_busy_cycles",
                                        "mxu2_busy_cycles",        "mxu3_busy_cycles",
                                        "xlu_busy_cycles",         "eup_busy_cycles"};
static_assert(std::size(kUnitColumns) == kUnits);

std::string schedule_column(std::size_t cause) {
  return std::string(to_string(static_cast<ScheduleCause>(cause))) + "_cycles";
}

void add_counters(Table& table, const std::vector<const Counters*>& rows) {
  visit_counters([&](const char* name, std::uint64_t Counters::*member) {
    table.add(name, column_of<std::uint64_t>(rows, [&](auto* row) { return row->*member; }));
  });
  for (std::size_t unit = 0; unit < kUnits; ++unit) {
    table.add(kUnitColumns[unit],
              column_of<std::uint64_t>(rows, [&](auto* row) { return row->busy_cycles[unit]; }));
  }
  for (std::size_t state = 0; state < kStates; ++state) {
    table.add(kStateColumns[state], column_of<std::uint64_t>(rows, [&](auto* row) {
                return row->core[static_cast<CoreState>(state)];
              }));
  }
  for (std::size_t cause = 0; cause < kScheduleCauses; ++cause) {
    table.add(schedule_column(cause),
              column_of<std::uint64_t>(rows, [&](auto* row) { return row->schedule[cause]; }));
  }
}

Counters counters_of(const Table& table, std::size_t row) {
  Counters counters;
  visit_counters([&](const char* name, std::uint64_t Counters::*member) {
    counters.*member = table.column<std::uint64_t>(name)[row];
  });
  for (std::size_t unit = 0; unit < kUnits; ++unit) {
    counters.busy_cycles[unit] = table.column<std::uint64_t>(kUnitColumns[unit])[row];
  }
  for (std::size_t state = 0; state < kStates; ++state) {
    counters.core.add(static_cast<CoreState>(state),
                      table.column<std::uint64_t>(kStateColumns[state])[row]);
  }
  for (std::size_t cause = 0; cause < kScheduleCauses; ++cause) {
    counters.schedule[cause] = table.column<std::uint64_t>(schedule_column(cause))[row];
  }
  return counters;
}

Table waited_for_table(const RunRecord& record) {
  std::vector<std::uint32_t> cores, late;
  std::vector<std::uint64_t> cycles;
  for (std::size_t i = 0; i < record.result.cores.size(); ++i) {
    for (const auto& [core, waited] : record.result.cores[i].waited_for) {
      cores.push_back(record.core_numbers[i]);
      late.push_back(core);
      cycles.push_back(waited);
    }
  }
  Table table;
  table.add("core", cores);
  table.add("late_core", late);
  table.add("cycles", cycles);
  return table;
}

Table transfers_beside_table(const RunRecord& record) {
  U32 cores, ops, others;
  U64 cycles;
  for (std::size_t i = 0; i < record.result.cores.size(); ++i) {
    const OpResults& results = record.result.cores[i].ops;
    for (std::uint32_t op = 0; op < results.size(); ++op) {
      for (const auto& [other, beside] : results[op].beside) {
        cores.push_back(record.core_numbers[i]);
        ops.push_back(op);
        others.push_back(other);
        cycles.push_back(beside);
      }
    }
  }
  Table table;
  table.add("core", cores).add("op", ops).add("beside_op", others).add("cycles", cycles);
  return table;
}

Table cores_table(const RunRecord& record) {
  const std::vector<CoreResult>& cores = record.result.cores;
  Table table;
  table.add("core", record.core_numbers);
  table.add("chip", column_of<std::uint32_t>(cores, [](const auto& c) { return c.chip; }));
  table.add("core_of_chip", column_of<std::uint32_t>(cores, [](const auto& c) { return c.core; }));
  table.add("end_cycle",
            column_of<std::uint64_t>(cores, [](const auto& c) { return c.end_cycle; }));
  add_counters(table, column_of<const Counters*>(cores, [](const auto& c) { return &c.total; }));
  return table;
}

/// Per core and unit: idle cycles by what the core did.
Table core_units_table(const RunRecord& record) {
  U32 core, unit;
  std::vector<const CycleAccount<CoreState>*> accounts;
  for (std::size_t i = 0; i < record.result.cores.size(); ++i) {
    for (std::size_t index = 0; index < kUnits; ++index) {
      core.push_back(record.core_numbers[i]);
      unit.push_back(static_cast<std::uint32_t>(index));
      accounts.push_back(&record.result.cores[i].total.idle[index]);
    }
  }
  Table table;
  table.add("core", core).add("unit", unit);
  for (std::size_t state = 0; state < kStates; ++state) {
    table.add(kStateColumns[state], column_of<std::uint64_t>(accounts, [&](auto* account) {
                return (*account)[static_cast<CoreState>(state)];
              }));
  }
  return table;
}

Table steps_table(const RunRecord& record, std::vector<StepSpan> CoreResult::*steps) {
  U32 core, step;
  U64 begin, end;
  for (std::size_t i = 0; i < record.result.cores.size(); ++i) {
    std::uint32_t number = 0;
    for (const StepSpan& span : record.result.cores[i].*steps) {
      core.push_back(record.core_numbers[i]);
      step.push_back(number++);
      begin.push_back(span.begin);
      end.push_back(span.end);
    }
  }
  Table table;
  table.add("core", core).add("step", step).add("begin_cycle", begin).add("end_cycle", end);
  return table;
}

Table op_counters_table(const RunRecord& record) {
  U32 core, op;
  U64 count, cycles;
  std::vector<const Counters*> counters;
  for (std::size_t i = 0; i < record.result.cores.size(); ++i) {
    const OpResults& results = record.result.cores[i].ops;
    for (std::size_t index = 0; index < results.size(); ++index) {
      core.push_back(record.core_numbers[i]);
      op.push_back(static_cast<std::uint32_t>(index));
      count.push_back(results[index].count);
      cycles.push_back(results[index].cycles);
      counters.push_back(&results[index].counters);
    }
  }
  Table table;
  table.add("core", core).add("op", op).add("count", count).add("cycles", cycles);
  add_counters(table, counters);
  return table;
}

/// The numbers of the record itself by name; `visit(name, number)`.
template <class Record, class Visitor>
void visit_record_numbers(Record& record, Visitor&& visit) {
  visit("batch", record.batch);
  visit("examples_per_core", record.examples_per_core);
  visit("model_flops", record.model_flops);
  visit("data_dependent_control", record.data_dependent_control);
  visit("compulsory_hbm_bytes", record.compulsory_hbm_bytes);
  visit("hbm_plan_bytes", record.hbm_plan_bytes);
  visit("infeed_bytes", record.infeed_bytes);
  visit("infeed_host_bytes", record.infeed_host_bytes);
  visit("cycles", record.result.cycles);
  visit("events", record.result.events);
}

/// The places of the cores in the record by their numbers.
std::map<std::uint32_t, std::size_t> places_of(const U32& core_numbers, const std::string& file) {
  std::map<std::uint32_t, std::size_t> places;
  for (const std::uint32_t number : core_numbers) {
    if (places.emplace(number, places.size()).second) continue;
    throw WorkloadError(file + ": cores: expected each core once, found core " +
                        std::to_string(number) + " twice");
  }
  return places;
}

/// Refuses results that are not of each core and op: the record has a place for each.
void check_op_counters(const Hdf5Contents& contents, const RunRecord& record) {
  const std::size_t cores = record.core_numbers.size(), ops = record.ops.size();
  const std::size_t rows = contents.table("op_counters").rows();
  if (rows == cores * ops) return;
  throw WorkloadError(contents.file + ": op_counters: expected a row for each of " +
                      std::to_string(cores) + " cores and " + std::to_string(ops) + " ops, found " +
                      std::to_string(rows) + " rows");
}

void read_cores(const Hdf5Contents& contents, RunRecord& record) {
  const Table& cores = contents.table("cores");
  record.core_numbers = cores.column<std::uint32_t>("core");
  check_op_counters(contents, record);
  record.result.cores.resize(cores.rows());
  const std::map<std::uint32_t, std::size_t> places = places_of(record.core_numbers, contents.file);
  const auto position = [&](std::uint32_t number, const char* table) -> CoreResult& {
    const auto place = places.find(number);
    if (place != places.end()) return record.result.cores[place->second];
    throw WorkloadError(contents.file + ": " + table + ": no core " + std::to_string(number));
  };
  for (std::size_t i = 0; i < cores.rows(); ++i) {
    CoreResult& core = record.result.cores[i];
    core.chip = cores.column<std::uint32_t>("chip")[i];
    core.core = cores.column<std::uint32_t>("core_of_chip")[i];
    core.end_cycle = cores.column<std::uint64_t>("end_cycle")[i];
    core.total = counters_of(cores, i);
    core.ops.resize(record.ops.size());
  }
  const Table& units = contents.table("core_units");
  for (std::size_t i = 0; i < units.rows(); ++i) {
    CoreResult& core = position(units.column<std::uint32_t>("core")[i], "core_units");
    const auto unit = checked_enum<Unit>(units.column<std::uint32_t>("unit")[i], kUnits,
                                         contents.file + ": core_units: unit");
    for (std::size_t state = 0; state < kStates; ++state) {
      core.total.idle[static_cast<std::size_t>(unit)].add(
          static_cast<CoreState>(state), units.column<std::uint64_t>(kStateColumns[state])[i]);
    }
  }
  const Table& waited_for = contents.table("waited_for");
  for (std::size_t i = 0; i < waited_for.rows(); ++i) {
    position(waited_for.column<std::uint32_t>("core")[i], "waited_for")
        .waited_for[waited_for.column<std::uint32_t>("late_core")[i]] =
        waited_for.column<std::uint64_t>("cycles")[i];
  }
  const auto read_steps = [&](const char* name, std::vector<StepSpan> CoreResult::*to) {
    const Table& steps = contents.table(name);
    for (std::size_t i = 0; i < steps.rows(); ++i) {
      (position(steps.column<std::uint32_t>("core")[i], name).*to)
          .push_back({steps.column<std::uint64_t>("begin_cycle")[i],
                      steps.column<std::uint64_t>("end_cycle")[i]});
    }
  };
  read_steps("steps", &CoreResult::steps);
  read_steps("warmup_steps", &CoreResult::warmup);
  const Table& ops = contents.table("op_counters");
  for (std::size_t i = 0; i < ops.rows(); ++i) {
    CoreResult& core = position(ops.column<std::uint32_t>("core")[i], "op_counters");
    const std::uint32_t index = ops.column<std::uint32_t>("op")[i];
    if (index >= core.ops.size()) {
      throw WorkloadError(contents.file + ": op_counters: no op " + std::to_string(index));
    }
    core.ops[index] = {ops.column<std::uint64_t>("count")[i],
                       ops.column<std::uint64_t>("cycles")[i], counters_of(ops, i)};
  }
  const Table& beside = contents.table("transfers_beside");
  for (std::size_t i = 0; i < beside.rows(); ++i) {
    CoreResult& core = position(beside.column<std::uint32_t>("core")[i], "transfers_beside");
    const std::uint32_t index = beside.column<std::uint32_t>("op")[i];
    if (index >= core.ops.size()) {
      throw WorkloadError(contents.file + ": transfers_beside: no op " + std::to_string(index));
    }
    core.ops[index].beside[beside.column<std::uint32_t>("beside_op")[i]] =
        beside.column<std::uint64_t>("cycles")[i];
  }
}

}  // namespace

void add_paths(const RunRecord& record, Hdf5Contents& contents) {
  const std::vector<PathTaken>& paths = record.result.paths;
  contents.tables["control"] = control_table(record.control);
  contents.tables["paths"]
      .add("control", column_of<std::uint32_t>(paths, [](auto& p) { return p.op; }))
      .add("executions", column_of<std::uint64_t>(paths, [](auto& p) { return p.executions; }))
      .add("least_trips", column_of<std::uint64_t>(paths, [](auto& p) { return p.least_trips; }))
      .add("most_trips", column_of<std::uint64_t>(paths, [](auto& p) { return p.most_trips; }))
      .add("stated", column_of<std::uint32_t>(paths, [](auto& p) { return p.stated; }))
      .add("assumed", column_of<std::uint32_t>(paths, [](auto& p) { return p.assumed; }));
  std::vector<std::uint32_t> owner, branch;
  std::vector<std::uint64_t> count;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (std::size_t b = 0; b < paths[i].branch_counts.size(); ++b) {
      owner.push_back(static_cast<std::uint32_t>(i));
      branch.push_back(static_cast<std::uint32_t>(b));
      count.push_back(paths[i].branch_counts[b]);
    }
  }
  contents.tables["path_branches"].add("path", owner).add("branch", branch).add("count", count);
}

void read_paths(const Hdf5Contents& contents, const std::string& file, RunRecord& record) {
  record.control = control_of(contents.table("control"), {}, file);
  const Table& table = contents.table("paths");
  std::vector<PathTaken>& paths = record.result.paths;
  paths.resize(table.rows());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    paths[i].op = table.column<std::uint32_t>("control")[i];
    paths[i].executions = table.column<std::uint64_t>("executions")[i];
    paths[i].least_trips = table.column<std::uint64_t>("least_trips")[i];
    paths[i].most_trips = table.column<std::uint64_t>("most_trips")[i];
    paths[i].stated = table.column<std::uint32_t>("stated")[i] != 0;
    paths[i].assumed = table.column<std::uint32_t>("assumed")[i] != 0;
    if (paths[i].op >= record.control.size()) {
      throw WorkloadError(file + ": paths: row " + std::to_string(i) + ": expected one of " +
                          std::to_string(record.control.size()) + " loops and conditionals");
    }
  }
  const Table& branches = contents.table("path_branches");
  for (std::size_t i = 0; i < branches.rows(); ++i) {
    const std::uint32_t path = branches.column<std::uint32_t>("path")[i];
    if (path >= paths.size()) {
      throw WorkloadError(file + ": path_branches: no path " + std::to_string(path));
    }
    paths[path].branch_counts.push_back(branches.column<std::uint64_t>("count")[i]);
  }
}

Table kernels_table(const std::vector<KernelCall>& calls) {
  Table table;
  table.add("op", column_of<std::uint32_t>(calls, [](auto& c) { return c.op; }))
      .add("kernel", column_of<std::uint32_t>(calls, [](auto& c) { return c.kernel; }))
      .add("name", column_of<std::string>(calls, [](auto& c) { return c.name; }))
      .add("bundles", column_of<std::uint64_t>(calls, [](auto& c) { return c.bundles; }))
      .add("instructions", column_of<std::uint64_t>(calls, [](auto& c) { return c.instructions; }));
  return table;
}

std::vector<KernelCall> kernels_of(const Hdf5Contents& contents, std::size_t ops) {
  const Table& table = contents.table("kernels");
  std::vector<KernelCall> calls(table.rows());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i] = {table.column<std::uint32_t>("op")[i], table.column<std::uint32_t>("kernel")[i],
                table.column<std::string>("name")[i], table.column<std::uint64_t>("bundles")[i],
                table.column<std::uint64_t>("instructions")[i]};
    if (calls[i].op < ops) continue;
    throw WorkloadError(contents.file + ": kernels: row " + std::to_string(i) +
                        ": expected one of " + std::to_string(ops) + " ops");
  }
  return calls;
}

Hdf5Contents run_contents(const RunRecord& record) {
  TPU_CHECK(record.core_numbers.size() == record.result.cores.size(),
            "numbers of " << record.core_numbers.size() << " cores, results of "
                          << record.result.cores.size());
  Hdf5Contents contents;
  contents.attributes = {{"config", record.config},
                         {"workload", record.workload},
                         {"program", record.program},
                         {"compiler", record.compiler},
                         {"detail", record.detail},
                         {"values", record.values ? "on" : "off"},
                         {"values_from", record.values_from},
                         {"time_unit", "core clock cycles"},
                         {"schema_version", std::to_string(kRunFile.version)},
                         {"creator", "tpusim " TPUSIM_VERSION},
                         {"configuration_toml", record.configuration_toml},
                         {"configuration_sha256", configuration_sha256(record.params)},
                         {"workload_sha256", record.workload_sha256}};
  Strings names;
  U64 numbers;
  visit_record_numbers(record, [&](const char* name, std::uint64_t number) {
    names.emplace_back(name);
    numbers.push_back(number);
  });
  names.emplace_back("hbm_peak_bytes");  // Of the lifetimes: not read back.
  numbers.push_back(hbm_peak_bytes(record));
  contents.tables["summary"].add("name", names).add("value", numbers);
  contents.tables["parameters"] = parameters_table(record.params);
  contents.tables["cores"] = cores_table(record);
  contents.tables["waited_for"] = waited_for_table(record);
  contents.tables["core_units"] = core_units_table(record);
  contents.tables["parts"] = part_table(record.result.parts);
  contents.tables["hbm_channels"] = hbm_channel_table(record.result.parts);
  contents.tables["steps"] = steps_table(record, &CoreResult::steps);
  contents.tables["warmup_steps"] = steps_table(record, &CoreResult::warmup);
  contents.tables["ops"] = ops_table(record.ops);
  contents.tables["op_counters"] = op_counters_table(record);
  contents.tables["kernels"] = kernels_table(record.kernels);
  contents.tables["transfers_beside"] = transfers_beside_table(record);
  contents.tables["op_operands"] = op_operands_table(record.operands);
  contents.tables["buffers"] = buffers_table(record.buffers);
  add_paths(record, contents);
  contents.tables["command"].add("word", record.command);
  contents.tables["notes"].add("text", record.result.notes);
  contents.tables["what_if"] = what_if_table(record.what_if);
  add_critical_path(record.result.critical_path, contents);
  contents.tables["host_verdict"].add("text", record.host_verdict);
  add_training(record.training, contents);
  contents.tables["losses"].add("loss", record.losses);
  contents.tables["lifetimes"] = lifetimes_table(record.lifetimes);
  contents.tables["enumerations"] = enumerations_table();
  contents.tables["host_stages"] = host_stages_table(host_stages(record));
  contents.tables["links"] = links_table(link_loads(record));
  if (record.has_events) add_events(record.events, contents);
  describe_columns(contents);
  return contents;
}

void write_run_file(const std::string& path, const RunRecord& record) {
  write_hdf5(path, kRunFile, run_contents(record));
}

RunRecord read_run_file(const std::string& path) {
  const Hdf5Contents contents = read_hdf5(path, kRunFile);
  RunRecord record;
  record.config = contents.attribute("config");
  record.workload = contents.attribute("workload");
  record.program = contents.attribute("program");
  record.compiler = contents.attribute("compiler");
  record.detail = contents.attribute("detail");
  record.values = contents.attribute("values") == "on";
  record.values_from = contents.attribute("values_from");
  record.configuration_toml = contents.attribute("configuration_toml");
  record.workload_sha256 = contents.attribute("workload_sha256");
  const Table& summary = contents.table("summary");
  const Strings& names = summary.column<std::string>("name");
  visit_record_numbers(record, [&](const char* name, std::uint64_t& number) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) number = summary.column<std::uint64_t>("value")[i];
    }
  });
  record.params = params_of(contents.table("parameters"), path);
  record.ops = ops_of(contents.table("ops"));
  record.kernels = kernels_of(contents, record.ops.size());
  record.operands = op_operands_of(contents, record.ops.size());
  record.buffers = buffers_of(contents.table("buffers"), path);
  record.lifetimes =
      lifetimes_of(contents.table("lifetimes"), record.buffers.size(), record.ops.size(), path);
  read_cores(contents, record);
  read_paths(contents, path, record);
  record.command = contents.table("command").column<std::string>("word");
  record.result.notes = contents.table("notes").column<std::string>("text");
  record.what_if = what_if_of(contents.table("what_if"));
  record.result.critical_path = critical_path_of(contents);
  record.result.parts = parts_of(contents.table("parts"), contents.table("hbm_channels"));
  record.host_verdict = contents.table("host_verdict").column<std::string>("text");
  record.training = training_of(contents);
  record.losses = contents.table("losses").column<double>("loss");
  record.has_events = contents.tables.count("events/ops") > 0;
  if (record.has_events) record.events = events_of(contents);
  return record;
}

}  // namespace tpu::traces
