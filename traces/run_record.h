#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "isa/program.h"
#include "models/host/training_loop.h"
#include "models/machine.h"
#include "models/params.h"

namespace tpu::traces {

/// One execution of an op on a core, in core cycles.
struct OpEvent {
  std::uint32_t core = 0;  ///< Core number, as in RunOptions::cores.
  std::uint32_t op = 0;    ///< Index into RunRecord::ops.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t matmul_pushes = 0;
  std::uint64_t vector_alu_ops = 0;
  std::uint64_t hbm_bytes = 0;
  std::array<std::uint64_t, 4> mxu_busy{};  ///< Cycles in which each MXU takes a push.
};

struct WaitEvent {
  std::uint32_t core = 0;
  CoreState reason = CoreState::kMemoryWait;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// What happened when, as far as it was recorded.
struct Events {
  std::vector<OpEvent> ops;
  std::vector<WaitEvent> waits;
  std::vector<DmaEvent> dmas;
};

/// An op reads what another made, or a parameter.
struct OpOperand {
  std::uint32_t op = 0;       ///< Index into RunRecord::ops.
  std::uint32_t operand = 0;  ///< Index of the other, or number of the parameter.
  bool is_parameter = false;
};

/// A kernel that an op calls.
struct KernelCall {
  std::uint32_t op = 0;      ///< Index into RunRecord::ops.
  std::uint32_t kernel = 0;  ///< Its number in the program; ops of equal code have one.
  std::string name;
  std::uint64_t bundles = 0;  ///< In the code.
  std::uint64_t instructions = 0;
};

/// The step of a run with something changed, simulated again.
struct WhatIf {
  std::string name;      ///< "HBM free".
  std::string settings;  ///< What makes it, as on the command line.
  double step_ms = 0;    ///< Mean.
  double examples_per_s = 0;
  std::string problem;            ///< Why it did not run, or empty.
  std::uint64_t model_flops = 0;  ///< Useful ones of a step on one core.
  /// Mean step without the change, where that is another program's than the run's; 0: the run's.
  double as_it_is_ms = 0;
};

/// A training around the step of the run: what happens between the steps.
struct Training {
  std::string scenario;  ///< As the user named it.
  std::uint64_t epochs = 0;
  std::uint64_t examples = 0;  ///< Of an epoch.
  /// A shape that steps have, in cycles.
  struct Shape {
    std::string name;  ///< "step", "last batch", "evaluation".
    std::uint64_t batch = 0;
    std::uint64_t cycles = 0;  ///< On the chips, the batch there.
    std::uint64_t input_cycles = 0, compile_cycles = 0;
  };
  std::vector<Shape> shapes;
  TrainingTime time;
};

/// Everything that is known of a finished run: reports and exports derive from it alone.
struct RunRecord {
  MachineParams params;
  std::string config;    ///< Configuration as the user named it.
  std::string workload;  ///< Workload as the user named it.
  /// The effective configuration as a file with units, help and sources; empty for a made-up run.
  std::string configuration_toml;
  std::string workload_sha256;       ///< Of what the workload is made of; empty for a made-up run.
  std::vector<std::string> command;  ///< The words that made the run; empty for a made-up run.
  std::string program;               ///< Program::name.
  std::string compiler;              ///< Program::compiler.
  std::uint64_t batch = 0;           ///< Examples of a step on all cores together; 0 where unknown.
  std::uint64_t examples_per_core = 0;
  std::uint64_t model_flops = 0;             ///< Of a step on one core.
  std::uint64_t data_dependent_control = 0;  ///< As in Program.
  std::uint64_t compulsory_hbm_bytes = 0;    ///< Of a step on one core.
  std::uint64_t hbm_plan_bytes = 0;          ///< Of one core, gaps between buffers included.
  std::uint64_t infeed_bytes = 0;            ///< Of a step on one core.
  std::uint64_t infeed_host_bytes = 0;       ///< The same batch on the host; 0: as in HBM.
  bool values = false;
  std::string values_from;  ///< Where the values at the start came from; empty without values.
  std::string detail;       ///< "core=interpret", or empty.
  std::vector<std::uint32_t> core_numbers;  ///< Of result.cores, in their order.
  std::vector<isa::OpInfo> ops;
  std::vector<KernelCall> kernels;       ///< Of the ops.
  std::vector<OpOperand> operands;       ///< Of the ops, as far as the module is known.
  std::vector<isa::Buffer> buffers;      ///< Without their data.
  std::vector<isa::Lifetime> lifetimes;  ///< Of the buffers.
  std::vector<isa::ControlOp> control;   ///< Of result.paths; without their places in the code.
  RunResult result;
  std::vector<double> losses;   ///< Of each step, with values.
  std::vector<WhatIf> what_if;  ///< With --what-if.
  std::vector<std::string>
      host_verdict;                  ///< On the input pipeline; empty when nobody waits for it.
  std::optional<Training> training;  ///< With a scenario, epochs or a dataset.
  bool has_events = false;
  Events events;
};

/// The SHA-256 of all parameters of a machine.
std::string configuration_sha256(const MachineParams& params);

/// The record of a program's run before the run: everything but the results.
RunRecord start_record(const MachineParams& params, const isa::Program& program);

}  // namespace tpu::traces
