#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "isa/assembler.h"
#include "models/machine.h"

namespace tpu::bench {

/// A program of one kernel out of the assembler's text.
inline isa::Program program_of(const std::string& text) {
  isa::Program program;
  program.name = "bench";
  program.chip = "v3";
  program.kernels = isa::assemble(text, "bench");
  return program;
}

/// Runs on core 0 alone of a v3-8.
inline RunResult run(const isa::Program& program, bool interpret = false, bool values = false) {
  Machine machine(MachineParams(), program);
  RunOptions options;
  options.cores = {0};
  options.interpret = interpret;
  options.values = values;
  return machine.run(options);
}

/// Ends the benchmark with an error when the program did not take the cycles that its text says.
inline bool cycles_are(benchmark::State& state, const RunResult& result, std::uint64_t expected) {
  if (result.cycles == expected) return true;
  const std::string message =
      "took " + std::to_string(result.cycles) + " cycles, expected " + std::to_string(expected);
  state.SkipWithError(message.c_str());
  return false;
}

}  // namespace tpu::bench
