#include "sim/base/error.h"
#include "sim/config/scenario.h"
#include "tests/fuzz/one_input.h"
#include "tests/fuzz/text_mutator.h"

/// A scenario file; behind a line "====" the values of --between, one a line. It is a scenario
/// whose epochs and loops hold a step at least, or it is refused.
void tpu::fuzz::one_input(const std::uint8_t* data, std::size_t size) {
  using namespace tpu::config;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find("\n====\n");
  try {
    Scenario scenario = parse_scenario(text.substr(0, end), "f.toml");
    std::string rest = end == std::string::npos ? "" : text.substr(end + 6);
    while (!rest.empty()) {
      const std::size_t line = std::min(rest.find('\n'), rest.size());
      if (line > 0) apply_to_scenario(scenario, rest.substr(0, line));
      rest.erase(0, line + 1);
    }
    if (scenario.epochs == 0 || scenario.launch_steps == 0) __builtin_trap();
    for (const double value : {scenario.launch_us, scenario.readback_us, scenario.compile_base_s,
                               scenario.transfer_mb_per_s, scenario.preemption_restart_s}) {
      if (!(value >= 0 && value <= 1e15)) __builtin_trap();
    }
  } catch (const tpu::UserError&) {
  }
}
