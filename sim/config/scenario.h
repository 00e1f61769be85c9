#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tpu::config {

/// What happens between the steps of a training, in the words of a scenario file. 0 for `every`:
/// never.
struct Scenario {
  std::string name = "plain";
  std::vector<std::string> files;  ///< That were read; none for built-in names.

  std::uint64_t epochs = 1;
  std::uint64_t examples = 0;  ///< Of an epoch; 0: input.images of the machine.
  bool drop_last = true;  ///< The examples that fill no batch; else a smaller one ends the epoch.

  double compile_base_s = 0, compile_ms_per_instruction = 0;
  bool compile_cached = false;

  double launch_us = 0;
  std::uint64_t launch_steps = 1, launch_ahead = 1;

  bool transfer_in_background = true;
  double transfer_mb_per_s = 0;

  std::uint64_t readback_every = 0;
  double readback_us = 0;

  std::uint64_t fallback_per_step = 0, fallback_bytes = 0;
  double fallback_cpu_us = 0;

  std::uint64_t evaluation_every = 0, evaluation_examples = 0;

  std::uint64_t checkpoint_every = 0;
  double checkpoint_mb_per_s = 0;
  bool checkpoint_in_background = false;

  std::uint64_t preemption_after = 0;
  double preemption_restart_s = 0;
};

/// Names of the built-in scenarios, those of workloads/scenarios.
std::vector<std::string> built_in_scenarios();

/// Reads a scenario: a built-in name, or a file whose name ends in ".toml". A file may name a base,
/// which is read first. Throws ConfigurationError with file, line and column.
Scenario load_scenario(const std::string& name_or_file);
/// The same for a text; `file` names it in errors.
Scenario parse_scenario(const std::string& text, const std::string& file);

/// Applies "readback.every=10", as `--between` has it. Throws ConfigurationError.
void apply_to_scenario(Scenario& scenario, const std::string& assignment);

}  // namespace tpu::config
