#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "workloads/frontend/zoo.h"

namespace tpu::app {

/// The cores that take part: so many from 0, or one of them alone.
struct CoreChoice {
  std::uint32_t first = 0;
  std::uint32_t count = 1;
};

/// "4" or "[5]"; throws UsageError.
CoreChoice parse_cores(const std::string& text);

/// What `tpusim sweep` is asked for.
struct SweepArguments {
  std::string action;  ///< "plan", "run", "status", "merge"; "": run, and merge where -o is given.
  std::string points;  ///< Folder of the points; "": beside the sweep.
  std::size_t shard = 1, shards = 1;
  std::optional<std::size_t> point;  ///< From 1.
  std::uint32_t jobs = 0;            ///< 0: as many as the machine has cores.
  bool partial = false;
};

/// Everything that the flags of a command may say.
struct Arguments {
  std::string command;
  /// The command line again, without what only says where reports go: what it was made by, in a
  /// results file.
  std::vector<std::string> words;
  std::string input;                     ///< Workload, configuration or file.
  std::vector<std::string> more_inputs;  ///< Of a command that takes several.

  std::vector<std::string> configs{"v3-8"};
  std::vector<std::string> settings;  ///< Of --set.
  std::string topology;               ///< Chips of the slice, "4x8"; empty: the configuration's.
  std::optional<std::int64_t> batch;  ///< On all cores together.
  std::optional<std::int64_t> core_batch;  ///< On each core, in place of it.
  void set_batch(std::int64_t examples) {
    batch = examples;
    core_batch.reset();
  }
  std::uint32_t steps = 1;
  std::optional<std::uint32_t> warmup;  ///< Steps before those; none given: as simulate() says.
  std::uint64_t max_cycles = 100'000'000'000;  ///< Of a step, waits for the infeed aside.
  std::uint64_t max_trips = 1 << 20;           ///< Of a loop each time it runs.
  std::optional<CoreChoice> cores;
  frontend::WorkloadOptions workload;       ///< Without batch and replicas.
  std::vector<std::string> workload_flags;  ///< Those that were given: "--shape", ...
  bool shard_updates = false;               ///< Each core updates its share of the weights.
  std::optional<std::uint64_t> bucket_mb;   ///< Of gradients; none: chosen by cost, 0: all at once.
  std::string compiler;                     ///< "xla", "tpusim" or "" for the workload's own.
  std::uint64_t seed = 0;
  std::uint32_t phases = 8;  ///< Of the refresh, in which `validate` runs each program.

  bool values = false;
  bool interpret = false;
  bool mxu_array = false;
  bool what_if = false;      ///< Simulate again with parts of the machine changed.
  bool no_what_if = false;   ///< Of a report: not even where it can be done.
  bool hbm_command = false;  ///< HBM command by command.
  bool ici_packet = false;   ///< Routers packet by packet.
  bool pod_full = false;
  std::string inputs, outputs, check;
  /// The paths of loops and conditionals, by name of their HLO instruction.
  std::vector<std::pair<std::string, std::uint64_t>> trips, branches;
  std::optional<double> tolerance;  ///< None given: as check_outputs() says.

  std::string scenario;              ///< What happens between the steps: a name or file; or "".
  std::vector<std::string> between;  ///< Changes to it, KEY=VALUE.
  std::optional<std::uint64_t> epochs, dataset;  ///< Of the training; examples of an epoch.

  SweepArguments sweep;

  std::string json, output, format;
  int level = 2;  ///< Of profile.
  std::size_t max_events = 1000000;
  std::pair<std::uint64_t, std::uint64_t> window{0, ~std::uint64_t{0}};  ///< Cycles.
  std::string dump_after;  ///< A pass of the compiler, "all" or "".
  std::string log = "warning";
  std::string color = "auto";
  bool verbose = false;
};

/// Reads a command line (without the program's name). Throws UsageError for commands, flags and
/// values that do not exist, naming the nearest. Returns nothing when help was asked for and
/// printed.
std::optional<Arguments> parse_arguments(const std::vector<std::string>& words);

/// The help of the program, or of one command.
std::string help_text(const std::string& command = "");

}  // namespace tpu::app
