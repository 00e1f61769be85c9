#include "sim/app/simulation.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "isa/generation.h"
#include "sim/app/cpu_time.h"
#include "sim/app/host_verdict.h"
#include "sim/app/memory_need.h"
#include "sim/app/op_graph.h"
#include "sim/app/progress_bar.h"
#include "sim/app/training_run.h"
#include "sim/app/workload_digest.h"
#include "sim/app/workload_source.h"
#include "sim/config/slice.h"
#include "traces/bundle_recorder.h"
#include "traces/event_recorder.h"
#include "traces/konata.h"
#include "traces/perfetto.h"
#include "traces/perfetto_units.h"
#include "traces/vcd.h"
#include "workloads/xla/captured_folder.h"

namespace tpu::app {
namespace {

/// Passes what happens on to the recorder, if there is one, and reads the loss when a step ends.
class RunObserver : public Observer {
 public:
  RunObserver(const Machine& machine, const isa::Buffer* loss, std::uint32_t core, bool record)
      : machine_(machine), loss_(loss), core_(core), record_(record) {}

  void on_step(std::uint32_t core, std::uint32_t step, std::uint64_t begin,
               std::uint64_t end) override {
    if (record_) recorder_.on_step(core, step, begin, end);
    if (loss_ != nullptr && core == core_) losses_.push_back(read_loss(*loss_, machine_, core));
  }
  void on_op(std::uint32_t core, std::uint32_t op, std::uint64_t begin, std::uint64_t end,
             const Counters& counters) override {
    if (record_) recorder_.on_op(core, op, begin, end, counters);
  }
  void on_wait(std::uint32_t core, CoreState reason, std::uint64_t begin,
               std::uint64_t end) override {
    if (record_) recorder_.on_wait(core, reason, begin, end);
    if (bundles_) bundles_->on_wait(core, reason, begin, end);
  }
  void on_dma(const DmaEvent& event) override {
    if (record_) recorder_.on_dma(event);
  }

  void on_bundles(const IssuedBundles& bundles) override {
    if (bundles_) bundles_->on_bundles(bundles);
    if (units_) units_->on_bundles(bundles);
  }

  void on_account(const AccountBegin& begin) override {
    if (record_) recorder_.on_account(begin);
  }

  void on_restart() override {
    recorder_ = {};
    losses_.clear();
    if (bundles_) bundles_->forget();
    if (units_) units_->forget();
  }

  std::vector<double> take_losses() { return std::move(losses_); }
  traces::Events take_events() { return recorder_.take(); }
  void record_bundles(const isa::Program& program, const MachineParams& params,
                      std::pair<std::uint64_t, std::uint64_t> window) {
    bundles_.emplace(program, params, window);
  }
  traces::BundleLog take_bundles() { return bundles_->take(); }
  void write_units(const std::string& path, const isa::Program& program,
                   const MachineParams& params, std::pair<std::uint64_t, std::uint64_t> window) {
    units_.emplace(path, program, params, window);
  }
  traces::PerfettoUnits& units() { return *units_; }

 private:
  const Machine& machine_;
  const isa::Buffer* loss_;
  std::uint32_t core_;
  bool record_;
  traces::EventRecorder recorder_;
  std::optional<traces::BundleRecorder> bundles_;
  std::optional<traces::PerfettoUnits> units_;
  std::vector<double> losses_;
};

void say_what_is_left_out(const traces::BundleLog& bundles, const Arguments& arguments,
                          traces::RunRecord& record) {
  if (bundles.left_out == 0) return;
  record.result.notes.push_back("--window: the first " + std::to_string(bundles.bundles.size()) +
                                " bundles are in " + arguments.output + ", " +
                                std::to_string(bundles.left_out) + " of the window are not");
}

void write_bundles(const traces::BundleLog& bundles, const Arguments& arguments,
                   traces::RunRecord& record) {
  traces::export_konata(bundles, record.ops, arguments.output);
  say_what_is_left_out(bundles, arguments, record);
}

/// The dump of the window with what the units did in it.
void write_vcd(const traces::BundleLog& bundles, const isa::Program& program,
               const Arguments& arguments, traces::RunRecord& record) {
  traces::export_vcd(record, {arguments.window.first, arguments.window.second}, arguments.output,
                     {&program, &bundles});
  say_what_is_left_out(bundles, arguments, record);
}

/// The trace of the whole run, behind what the units did in the window.
void write_perfetto(traces::PerfettoUnits& units, const Arguments& arguments,
                    traces::RunRecord& record) {
  traces::PerfettoFile& file = units.finish();
  traces::write_perfetto(record, file);
  file.commit();
  if (units.left_out() == 0) return;
  record.result.notes.push_back("--window: " + arguments.output + " holds the first " +
                                std::to_string(units.slices()) + " slices of units; of " +
                                std::to_string(units.left_out()) +
                                " later bundles of the window it holds none");
}

/// What is known of the traffic in which messages and packets differ (bench/ici_twins.md).
void note_exchanges(const RunOptions& options, traces::RunRecord& record) {
  const bool exchanges = std::any_of(record.ops.begin(), record.ops.end(),
                                     [](auto& op) { return op.category == "all-to-all"; });
  if (!exchanges || options.ici_packet) return;
  record.result.notes.emplace_back(
      "all-to-all: routers hold any number of messages, the least time that it can take; with the "
      "least buffers that fill a link (--detail ici=packet) 37 % longer on 2x2 chips, up to 71 % "
      "on "
      "4x4 and 122 % on 8x8 (bench/ici_twins.md)");
}

/// A hand-written program may have none.
void refuse_no_outputs(const isa::Program& program) {
  const auto is_output = [](const isa::Buffer& b) { return b.role == isa::BufferRole::kOutput; };
  if (std::any_of(program.buffers.begin(), program.buffers.end(), is_output)) return;
  throw UsageError("--outputs: expected a program with outputs, found none in " + program.name +
                   "; an assembler text names them: output 0 y f32[8,128]{1,0:T(8,128)} at 8");
}

/// The file with the values to start with: --inputs, else the arguments beside recorded outputs.
traces::NpzFile read_inputs(const Arguments& arguments, const PreparedWorkload& workload) {
  if (!arguments.inputs.empty()) return traces::read_npz(arguments.inputs);
  if (!arguments.check.empty()) {
    traces::NpzFile file = traces::read_npz(arguments.check);
    if (file.count(array_name("arg", 0)) > 0) return file;
  }
  const std::string beside = workload.folder + "/values.npz";
  struct stat status {};
  if (!workload.folder.empty() && ::stat(beside.c_str(), &status) == 0) {
    return traces::read_npz(beside);
  }
  return {};
}

constexpr std::uint32_t kMostWarmUp = 8;

/// Steps before those that count: as the command line says, else with values none, for they would
/// train, else until a step repeats the one before.
void choose_warm_up(const Arguments& arguments, RunOptions& options) {
  options.warmup_steps = arguments.warmup.value_or(0);
  options.most_warmup_steps = arguments.warmup || arguments.values ? 0 : kMostWarmUp;
}

/// Nothing can be computed from constants whose values are left out of the module.
void refuse_unknown_values(const PreparedWorkload& workload) {
  const auto constants = compiler::constants_without_values(workload.program);
  if (constants.empty()) return;
  throw WorkloadError(workload.program.name +
                      ": --values on: expected the values of all constants; " +
                      compiler::advice_on_values(constants) + ", or run with --values off");
}

/// Loads each core's share of the inputs.
void load_values(const Arguments& arguments, const PreparedWorkload& workload,
                 const MachineParams& params, Machine& machine, traces::RunRecord& record) {
  const InitialValues values(workload, read_inputs(arguments, workload), arguments.seed);
  for (std::size_t place = 0; place < workload.cores.size(); ++place) {
    machine.load(workload.cores[place],
                 values.load(part_number(workload, params, place),
                             arguments.steps + arguments.warmup.value_or(0)));
  }
  record.values_from = "parameters " + values.origin();
}

/// With values off: the same inputs, of which the run asks for those that control depends on.
void offer_values(const Arguments& arguments, const PreparedWorkload& workload,
                  const MachineParams& params, RunOptions& options) {
  auto values = std::make_shared<std::optional<InitialValues>>();
  const auto read = [values, &arguments, &workload, &options]() -> const InitialValues& {
    if (!*values) {
      values->emplace(workload, read_inputs(arguments, workload), arguments.seed);
      options.inputs_from = (*values)->origin();
    }
    return **values;
  };
  if (!arguments.inputs.empty()) read();
  options.inputs = [read, &workload, &params](std::uint32_t core, const isa::Buffer& buffer) {
    const auto found = std::find(workload.cores.begin(), workload.cores.end(), core);
    const auto place = static_cast<std::size_t>(found - workload.cores.begin());
    return read().words(buffer, part_number(workload, params, place));
  };
}

/// What the command line states of the paths of loops and conditionals.
void state_paths(const Arguments& arguments, const isa::Program& program, RunOptions& options) {
  const auto state = [&](const char* flag, const std::string& name, std::uint64_t number,
                         bool loop) {
    std::string known;
    for (std::uint32_t i = 0; i < program.control.size(); ++i) {
      const isa::ControlOp& op = program.control[i];
      if ((op.branches == 0) != loop) continue;
      known += (known.empty() ? "" : ", ") + op.name;
      if (op.name != name) continue;
      if (!loop && number >= op.branches) {
        throw UsageError(std::string(flag) + ": " + name + " has the branches 0 to " +
                         std::to_string(op.branches - 1) + ", found " + std::to_string(number));
      }
      options.paths[i] = number;
      return;
    }
    throw UsageError(std::string(flag) + ": " + program.name + " has no " +
                     (loop ? "loop" : "conditional") + " \"" + name +
                     "\" whose path data decides; " +
                     (known.empty() ? "it has none at all" : "there are: " + known));
  };
  for (const auto& [name, trips] : arguments.trips) state("--trips", name, trips, true);
  for (const auto& [name, branch] : arguments.branches) state("--branch", name, branch, false);
}

/// The launch of every program of XLA's seeds the generator and draws once; kernels draw for it.
bool draws_own_bits(const isa::Program& program) {
  return std::any_of(program.kernels.begin() + 1, program.kernels.end(), [](const auto& kernel) {
    return std::any_of(kernel.instructions.begin(), kernel.instructions.end(),
                       [](const auto& in) { return in.opcode == isa::Opcode::kVrng; });
  });
}

/// What is simulated in more detail than by default and may change a figure.
std::string detail_of(const Arguments& arguments) {
  std::string detail = arguments.mxu_array ? "mxu=array" : "";
  if (arguments.interpret && !arguments.mxu_array) detail = "core=interpret";
  if (arguments.hbm_command) detail += std::string(detail.empty() ? "" : ",") + "hbm=command";
  if (arguments.ici_packet) detail += std::string(detail.empty() ? "" : ",") + "ici=packet";
  return detail;
}

bool is_timed_apart(const Arguments& arguments) {
  return arguments.values && arguments.steps == 1 && !arguments.warmup && !arguments.interpret &&
         !arguments.mxu_array && arguments.format.empty();
}

/// Whether both runs began with the same step.
bool begin_alike(const RunResult& one, const RunResult& other) {
  const auto first = [](const CoreResult& core) {
    const StepSpan span = core.warmup.empty() ? core.steps.at(0) : core.warmup.front();
    return span.end - span.begin;
  };
  return std::equal(one.cores.begin(), one.cores.end(), other.cores.begin(), other.cores.end(),
                    [&](auto& a, auto& b) { return first(a) == first(b); });
}

/// With values a second step would train, so the one that counts, because it repeats the one
/// before, is simulated apart with values off. It stands for the run with values when both begin
/// with the same step to the cycle.
void time_apart(const Arguments& arguments, const PreparedWorkload& workload,
                const MachineParams& params, RunOptions options, traces::RunRecord& record) {
  Machine machine(params, workload.program);
  RunObserver observer(machine, nullptr, workload.cores[0], record.has_events);
  options.values = options.check_names = false;
  options.most_warmup_steps = kMostWarmUp;
  options.observer = record.has_events ? &observer : nullptr;
  offer_values(arguments, workload, params, options);
  const char* problem = "takes other cycles";
  try {
    RunResult timed = machine.run(options);
    if (begin_alike(timed, record.result)) {
      timed.notes = record.result.notes;
      record.result = std::move(timed);
      if (record.has_events) record.events = observer.take_events();
      return;
    }
  } catch (const ProgramFault&) {
    problem = "depends on values";
  }
  record.result.notes.push_back(
      std::string("the time is that of the first step: with values off it ") + problem +
      ", so no later step could be timed");
}

}  // namespace

config::Configuration effective_configuration(const Arguments& arguments, const std::string& name) {
  config::Configuration configuration = config::load_configuration(name);
  if (!arguments.topology.empty()) config::apply_topology(configuration, arguments.topology);
  for (const std::string& setting : arguments.settings) {
    config::apply_setting(configuration, setting);
  }
  config::check(configuration);
  return configuration;
}

Simulation simulate(const Arguments& arguments, const config::Configuration& configuration,
                    const std::string& config_name) {
  ProgramCache programs(1);
  return simulate(arguments, configuration, config_name, programs);
}

Simulation simulate(const Arguments& arguments, const config::Configuration& configuration,
                    const std::string& config_name, ProgramCache& programs) {
  const auto begin = std::chrono::steady_clock::now();
  OpGraph graph;
  const bool records = !arguments.output.empty();
  const PreparedWorkload& workload = programs.prepare(
      arguments, configuration.params, records ? graph.observer() : compiler::PassObserver());
  Simulation simulation = simulate(arguments, configuration, config_name, workload);
  if (records && workload.is_from_xla && !workload.folder.empty()) {
    const auto module = xla::scheduled_module(workload.folder, configuration.params.chip);
    if (module) graph.read(*module);
  }
  if (records) simulation.record.operands = graph.operands(simulation.record.ops);
  if (arguments.command == "run") {
    simulation.record.host_verdict =
        host_verdict(arguments, configuration, workload, simulation.record);
    if (asks_for_training(arguments)) {
      simulation.record.training = train(arguments, configuration, workload, simulation.record);
    }
  }
  simulation.cost.wall_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return simulation;
}

Simulation simulate(const Arguments& arguments, const config::Configuration& configuration,
                    const std::string& config_name, const PreparedWorkload& workload, bool hidden) {
  const double cpu_begin = cpu_seconds();
  const auto wall_begin = std::chrono::steady_clock::now();
  spdlog::info("{}: {} kernels, compiled or read in {:.2f} s of CPU time", config_name,
               workload.program.kernels.size(), workload.cpu_s);

  Simulation simulation;
  traces::RunRecord& record = simulation.record;
  record = traces::start_record(configuration.params, workload.program);
  record.config = config_name;
  record.workload = arguments.input;
  record.core_numbers = workload.cores;
  record.batch = workload.program.examples_per_core * workload.cores.size();
  record.values = arguments.values;
  record.detail = detail_of(arguments);
  const bool writes_vcd = arguments.format == "vcd" && !arguments.output.empty();
  const bool writes_bundles = arguments.format == "konata" && !arguments.output.empty();
  const bool writes_units = arguments.format == "perfetto" && !arguments.output.empty();
  record.has_events = !arguments.output.empty() && !writes_bundles;
  if (record.has_events) {
    record.configuration_toml = config::to_toml(configuration);
    record.workload_sha256 = workload_sha256(arguments);
    record.command = arguments.words;
  }

  if (arguments.values) refuse_values_beyond_memory(workload, memory_of_this_computer());
  if (arguments.values && !workload.is_from_xla) refuse_unknown_values(workload);
  if (!arguments.outputs.empty()) refuse_no_outputs(workload.program);
  Machine machine(configuration.params, workload.program);
  if (arguments.values) load_values(arguments, workload, configuration.params, machine, record);
  const isa::Buffer* loss = arguments.values ? loss_buffer(workload.program) : nullptr;
  RunObserver observer(machine, loss, workload.cores[0], record.has_events);
  if (writes_bundles || writes_vcd) {
    observer.record_bundles(workload.program, configuration.params, arguments.window);
  }
  if (writes_units) {
    observer.write_units(arguments.output, workload.program, record.params, arguments.window);
  }
  ProgressBar progress(config_name);
  RunOptions options;
  options.steps = arguments.steps;
  choose_warm_up(arguments, options);
  options.max_step_cycles = arguments.max_cycles;
  options.max_trips = arguments.max_trips;
  options.values = arguments.values;
  options.interpret = arguments.interpret;
  options.mxu_array = arguments.mxu_array;
  options.hbm_command = arguments.hbm_command;
  options.ici_packet = arguments.ici_packet;
  options.pod_full = arguments.pod_full;
  options.check_names = arguments.values;
  options.cores = workload.cores;
  if (!arguments.values) offer_values(arguments, workload, configuration.params, options);
  state_paths(arguments, workload.program, options);
  if (record.has_events || writes_bundles || loss != nullptr) options.observer = &observer;
  if (!hidden) options.progress = [&](double fraction) { progress.update(fraction); };
  const double run_begin = cpu_seconds();
  record.result = machine.run(options);
  record.result.notes.insert(record.result.notes.end(), workload.compile_report.notes.begin(),
                             workload.compile_report.notes.end());
  record.losses = observer.take_losses();
  if (record.has_events) record.events = observer.take_events();
  if (writes_bundles) write_bundles(observer.take_bundles(), arguments, record);
  if (writes_units) write_perfetto(observer.units(), arguments, record);
  if (writes_vcd) write_vcd(observer.take_bundles(), workload.program, arguments, record);
  if (arguments.values) {
    simulation.outputs = read_outputs(workload, configuration.params, machine);
    simulation.draws_own_bits = draws_own_bits(workload.program);
  }
  if (is_timed_apart(arguments)) {
    time_apart(arguments, workload, configuration.params, options, record);
  }
  simulation.cost.run_cpu_s = cpu_seconds() - run_begin;
  note_exchanges(options, record);
  const isa::Generation& generation = isa::generation(configuration.params.chip);
  if (!generation.not_validated.empty()) {
    record.result.notes.emplace_back(generation.not_validated);
  }
  const std::uint64_t begin = record.result.cores[0].begin_cycle;
  if (is_short_for_refresh(configuration.params, record.result.cycles - begin)) {
    record.result.notes.push_back(refresh_note(configuration.params));
  }
  simulation.cost.compile_cpu_s = workload.cpu_s;
  simulation.cost.cpu_s = cpu_seconds() - cpu_begin + workload.cpu_s;
  simulation.cost.wall_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_begin).count();
  simulation.cost.peak_rss_bytes = peak_rss_bytes();
  return simulation;
}

}  // namespace tpu::app
