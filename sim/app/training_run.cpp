#include "sim/app/training_run.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "models/host/loader.h"
#include "models/slow_parts.h"
#include "sim/app/simulation.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "sim/config/scenario.h"
#include "sim/report/summary.h"

namespace tpu::app {
namespace {

using config::Scenario;

Scenario scenario_of(const Arguments& arguments) {
  Scenario scenario =
      config::load_scenario(arguments.scenario.empty() ? "jax" : arguments.scenario);
  for (const std::string& assignment : arguments.between) {
    config::apply_to_scenario(scenario, assignment);
  }
  if (arguments.epochs) scenario.epochs = *arguments.epochs;
  if (arguments.dataset) scenario.examples = *arguments.dataset;
  return scenario;
}

/// A shape of a step, simulated.
struct Shape {
  std::uint64_t cycles = 0;        ///< Of the step that repeats, with this host.
  std::uint64_t first_cycles = 0;  ///< Of the run's first.
  std::uint64_t instructions = 0;  ///< Of its HLO.
  std::uint64_t host_bytes = 0;    ///< Of a core's batch on the host.
};

std::uint64_t longest_step(const RunResult& result, bool first) {
  std::uint64_t longest = 0;
  for (const CoreResult& core : result.cores) {
    const StepSpan& span = first && !core.warmup.empty()
                               ? core.warmup.front()
                               : core.steps.at(first ? 0 : core.steps.size() - 1);
    longest = std::max(longest, span.end - span.begin);
  }
  return longest;
}

std::uint64_t host_bytes(const isa::Program& program) {
  return program.infeed_host_bytes > 0 ? program.infeed_host_bytes : program.infeed_bytes;
}

class Planner {
 public:
  Planner(const Arguments& arguments, const config::Configuration& configuration,
          const PreparedWorkload& workload, const traces::RunRecord& record)
      : arguments_(arguments),
        configuration_(configuration),
        params_(configuration.params),
        workload_(workload),
        record_(record),
        scenario_(scenario_of(arguments)) {
    hidden_ = arguments;
    hidden_.output.clear();
    hidden_.values = false;
    hidden_.steps = 1;
    hidden_.warmup.reset();
  }

  traces::Training run() {
    count_steps();
    set_shapes();
    set_launches();
    set_events();
    training_.scenario = scenario_.name;
    training_.epochs = scenario_.epochs;
    training_.time = TrainingLoop(plan_).run();
    return std::move(training_);
  }

 private:
  std::uint64_t cycles(double seconds) const {
    return static_cast<std::uint64_t>(std::llround(seconds * params_.clock_mhz * 1e6));
  }
  std::uint64_t cores() const { return workload_.cores.size(); }

  void count_steps();
  void set_shapes();
  void set_launches();
  void set_events();
  void set_evaluation();
  Shape shape_of(const Arguments& arguments, const PreparedWorkload& workload,
                 const MachineParams& params) const;
  TrainingPlan::Step step_of(const char* name, const Shape& free, std::uint64_t examples);
  std::uint64_t input_cycles(const MachineParams& params, std::uint64_t examples) const;
  std::uint64_t host_cycles(const MachineParams& params, std::uint64_t examples) const;
  double moved_seconds(std::uint64_t bytes) const;
  std::uint64_t state_bytes() const;

  const Arguments& arguments_;
  const config::Configuration& configuration_;
  const MachineParams& params_;
  const PreparedWorkload& workload_;
  const traces::RunRecord& record_;
  Scenario scenario_;
  Arguments hidden_;
  TrainingPlan plan_;
  traces::Training training_;
  std::uint64_t ragged_ = 0;  ///< Examples of a core in the last batch of an epoch.
};

/// Each core has its share of an epoch's examples, the last one filled up, as distributed samplers
/// do it.
void Planner::count_steps() {
  const std::uint64_t batch = workload_.program.examples_per_core;
  if (batch == 0) {
    throw UsageError("a training needs a program that says how many examples a step consumes; " +
                     arguments_.input + " doesn't");
  }
  if (scenario_.examples == 0) scenario_.examples = params_.input.images;
  if (scenario_.examples == 0) {
    throw UsageError(
        "how long is an epoch? State --dataset EXAMPLES, training.examples in the scenario or a "
        "dataset in the configuration");
  }
  const std::uint64_t share = (scenario_.examples + cores() - 1) / cores();
  plan_.epochs = scenario_.epochs;
  plan_.steps_of_epoch = share / batch;
  ragged_ = scenario_.drop_last ? 0 : share % batch;
  plan_.has_ragged = ragged_ > 0;
  if (plan_.steps_of_epoch == 0) {
    throw UsageError("an epoch of " + std::to_string(scenario_.examples) + " examples, " +
                     std::to_string(share) + " a core, holds no batch of " +
                     std::to_string(batch * cores()) + ", " + std::to_string(batch) + " a core");
  }
  training_.examples = scenario_.examples;
}

Shape Planner::shape_of(const Arguments& arguments, const PreparedWorkload& workload,
                        const MachineParams& params) const {
  config::Configuration configuration = configuration_;
  configuration.params = params;
  const Simulation simulation =
      simulate(arguments, configuration, arguments.configs[0], workload, true);
  Shape shape;
  shape.cycles = longest_step(simulation.record.result, false);
  shape.first_cycles = longest_step(simulation.record.result, true);
  return shape;
}

/// Cycles that a host's pipeline takes for a batch of so many examples a core, batches without a
/// gap: the slowest of its stages, or the rate that is stated. Of several hosts that of the
/// slowest.
std::uint64_t Planner::input_cycles(const MachineParams& params, std::uint64_t examples) const {
  std::uint64_t longest = 0;
  for (const HostKind& kind : kinds_of_host(params)) {
    longest = std::max(longest, host_cycles(kind.params, examples));
  }
  return longest;
}

std::uint64_t Planner::host_cycles(const MachineParams& params, std::uint64_t examples) const {
  const std::uint64_t a_host =
      std::min<std::uint64_t>(std::uint64_t{params.host.chips} * params.cores_per_chip, cores());
  const auto batch = static_cast<double>(examples * a_host);
  if (params.host.examples_per_s > 0) return cycles(batch / params.host.examples_per_s);
  const std::uint64_t bytes = host_bytes(workload_.program) / workload_.program.examples_per_core;
  double least = HUGE_VAL;
  for (const LoaderStage& stage : loader_stages(params, bytes, examples * a_host)) {
    least = std::min(least, stage.examples_per_s);
  }
  return std::isinf(least) ? 0 : cycles(batch / least);
}

TrainingPlan::Step Planner::step_of(const char* name, const Shape& free, std::uint64_t examples) {
  TrainingPlan::Step step;
  step.cycles = free.cycles;
  step.input_cycles = input_cycles(params_, examples);
  step.compile_cycles =
      cycles(scenario_.compile_base_s +
             scenario_.compile_ms_per_instruction * 1e-3 * static_cast<double>(free.instructions));
  training_.shapes.push_back(
      {name, examples * cores(), step.cycles, step.input_cycles, step.compile_cycles});
  return step;
}

std::uint64_t instructions_of(const PreparedWorkload& workload, const isa::Program& program) {
  if (!workload.frontend) return program.ops.size();
  std::uint64_t count = 0;
  for (const hlo::Computation& computation : workload.frontend->module.computations) {
    count += computation.instructions.size();
  }
  return count;
}

/// The device alone, with examples that are there at once; then what the host adds.
void Planner::set_shapes() {
  MachineParams free = params_;
  free.input.images = 0;
  free.host.examples_per_s = 0;
  free.slow_hosts.clear();
  const std::uint64_t batch = workload_.program.examples_per_core;
  const bool waits =
      params_.input.images > 0 || params_.host.examples_per_s > 0 || !params_.slow_hosts.empty();
  Shape full{longest_step(record_.result, false), longest_step(record_.result, true), 0, 0};
  const std::uint64_t with_host_first = full.first_cycles;
  if (waits) full = shape_of(hidden_, workload_, free);
  full.instructions = instructions_of(workload_, workload_.program);
  plan_.full = step_of("step", full, batch);
  // A host that does not keep up is timed with its chips, queues and links.
  if (waits && plan_.full.input_cycles > plan_.full.cycles) {
    plan_.full.input_cycles = longest_step(record_.result, false);
    training_.shapes.back().input_cycles = plan_.full.input_cycles;
  }
  plan_.first_batch_cycles =
      with_host_first > plan_.full.cycles ? with_host_first - plan_.full.cycles : 0;
  plan_.batches_ahead = std::uint64_t{1} + params_.host.infeed_queue_batches +
                        (Loader::is_described(params_) ? params_.input.prefetch_batches : 0);
  if ((params_.input.cache != "none" || params_.input.page_cache) && waits) {
    MachineParams uncached = params_;
    uncached.input.cache = "none";
    uncached.input.page_cache = false;
    plan_.first_input_cycles = input_cycles(uncached, batch);
  }
  if (plan_.has_ragged) {
    if (!workload_.frontend) {
      throw UsageError("the last batch of an epoch has " + std::to_string(ragged_ * cores()) +
                       " examples, and only workloads of the zoo have a batch to choose; state "
                       "--between training.drop_last=true");
    }
    Arguments smaller = hidden_;
    smaller.set_batch(static_cast<std::int64_t>(ragged_ * cores()));
    const PreparedWorkload prepared = prepare_workload(smaller, free);
    Shape ragged = shape_of(smaller, prepared, free);
    ragged.instructions = instructions_of(prepared, prepared.program);
    plan_.ragged = step_of("last batch", ragged, ragged_);
  }
  set_evaluation();
}

void Planner::set_evaluation() {
  if (scenario_.evaluation_every == 0) return;
  if (!workload_.frontend || workload_.frontend->state_tensors == 0) {
    throw UsageError("evaluation.every: " + arguments_.input +
                     " has no evaluation step; models of the zoo have one");
  }
  MachineParams free = params_;
  free.input.images = 0;
  free.host.examples_per_s = 0;
  free.slow_hosts.clear();
  Arguments forward = hidden_;
  forward.workload.forward_only = true;
  const PreparedWorkload prepared = prepare_workload(forward, free);
  Shape shape = shape_of(forward, prepared, free);
  shape.instructions = instructions_of(prepared, prepared.program);
  const std::uint64_t batch = workload_.program.examples_per_core;
  plan_.evaluation = step_of("evaluation", shape, batch);
  plan_.evaluation_every = scenario_.evaluation_every;
  const std::uint64_t a_step = batch * cores();
  plan_.evaluation_steps =
      std::max<std::uint64_t>(ceil_divide(scenario_.evaluation_examples, a_step), 1);
}

void Planner::set_launches() {
  plan_.launch_cycles = cycles(scenario_.launch_us * 1e-6);
  plan_.steps_a_launch = scenario_.launch_steps;
  plan_.launches_ahead = std::min<std::uint64_t>(scenario_.launch_ahead, 1024);
  plan_.compile_is_cached = scenario_.compile_cached;
  if (!scenario_.transfer_in_background) {
    const std::uint64_t bytes = host_bytes(workload_.program) * cores();
    plan_.transfer_cycles = cycles(moved_seconds(bytes));
  }
}

/// Bytes between the host's memory and its chips, at the rate stated or that of PCIe.
double Planner::moved_seconds(std::uint64_t bytes) const {
  const double rate = scenario_.transfer_mb_per_s > 0 ? scenario_.transfer_mb_per_s * 1e6
                                                      : params_.host.pcie_gb_per_s * 1e9;
  return static_cast<double>(bytes) / rate;
}

/// Weights and optimiser state: what the step keeps.
std::uint64_t Planner::state_bytes() const {
  std::uint64_t bytes = 0;
  for (const isa::Buffer& buffer : workload_.program.buffers) {
    if (buffer.role == isa::BufferRole::kParameter) bytes += buffer.unpadded_bytes;
  }
  return bytes;
}

void Planner::set_events() {
  plan_.readback_every = scenario_.readback_every;
  plan_.readback_cycles = cycles(scenario_.readback_us * 1e-6);
  // Out, a function of the CPU, back, and a launch of the rest of the step.
  const double fallback =
      2 * moved_seconds(scenario_.fallback_bytes) +
      (scenario_.fallback_cpu_us + scenario_.readback_us + scenario_.launch_us) * 1e-6;
  plan_.fallback_cycles = scenario_.fallback_per_step * cycles(fallback);
  const double state = static_cast<double>(state_bytes());
  const double network =
      scenario_.checkpoint_mb_per_s > 0 ? state / (scenario_.checkpoint_mb_per_s * 1e6) : 0;
  plan_.checkpoint_every = scenario_.checkpoint_every;
  plan_.checkpoint_read_cycles = cycles(moved_seconds(state_bytes()));
  plan_.checkpoint_write_cycles = cycles(network);
  plan_.checkpoint_in_background = scenario_.checkpoint_in_background;
  plan_.preempted_after = scenario_.preemption_after;
  plan_.restart_cycles =
      cycles(scenario_.preemption_restart_s + network + moved_seconds(state_bytes()));
}

}  // namespace

bool asks_for_training(const Arguments& arguments) {
  return !arguments.scenario.empty() || !arguments.between.empty() || arguments.epochs ||
         arguments.dataset;
}

traces::Training train(const Arguments& arguments, const config::Configuration& configuration,
                       const PreparedWorkload& workload, const traces::RunRecord& record) {
  return Planner(arguments, configuration, workload, record).run();
}

}  // namespace tpu::app
