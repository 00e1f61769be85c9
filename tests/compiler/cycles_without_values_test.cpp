// Random graphs take the same cycles with values on and off, also where control and addresses
// depend on the inputs. By default some of each kind; TPUSIM_RANDOM_GRAPHS=N takes N of each from
// seed TPUSIM_RANDOM_SEED (0) on.

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "sim/base/error.h"
#include "tests/compiler/graph_check.h"
#include "tests/compiler/random_graph.h"
#include "workloads/compiler/compiler.h"

namespace tpu::test::cycles_without_values_test {
namespace {

std::uint32_t number_from(const char* variable, std::uint32_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

CoreArguments arguments_of(const GraphCase& graph) {
  CoreArguments arguments;
  for (const reference::Value& value : graph.arguments) {
    arguments.parameters.push_back(reference::to_bytes(value));
  }
  return arguments;
}

std::uint64_t cycles_on(const GraphCase& graph) {
  return run_compiled(graph.module, {arguments_of(graph)}, 1, graph.machine).result.cycles;
}

/// With values off; the inputs are there where control depends on them.
RunResult run_off(const GraphCase& graph, const isa::Program& program) {
  RunOptions options;
  options.cores = {0};
  options.inputs = [&](std::uint32_t, const isa::Buffer& buffer) {
    const CoreLoad load = load_of(graph.module, program, arguments_of(graph));
    for (const MemoryBlock& block : load.hbm) {
      if (block.address == buffer.granule) return block.words;
    }
    return std::vector<std::uint32_t>();
  };
  return Machine(graph.machine, program).run(options);
}

/// What became of the graphs of a mix.
struct Tally {
  std::uint32_t equal = 0;
  std::uint32_t refused = 0;
};

void compare(const GraphMix& mix, std::uint32_t seed, Tally& tally) {
  const GraphCase graph = case_of(random_module(mix, seed), seed);
  isa::Program program;
  try {
    program = compiler::compile(graph.module, target_of(graph.machine, 1));
  } catch (const WorkloadError&) {
    ++tally.refused;
    return;
  }
  const std::uint64_t on = cycles_on(graph);
  const RunResult off = run_off(graph, program);
  if (off.cycles == on) {
    ++tally.equal;
    return;
  }
  ADD_FAILURE() << mix.name << " seed " << seed << ": " << on << " cycles with values on, "
                << off.cycles << " off\n"
                << hlo::to_string(graph.module);
}

TEST(CyclesWithoutValues, AreThoseWithValues) {
  const std::uint32_t first = number_from("TPUSIM_RANDOM_SEED", 0);
  const std::uint32_t count = number_from("TPUSIM_RANDOM_GRAPHS", 6);
  Tally all;
  for (const GraphMix& mix : graph_mixes()) {
    Tally tally;
    for (std::uint32_t seed = first; seed < first + count; ++seed) compare(mix, seed, tally);
    if (std::getenv("TPUSIM_RANDOM_GRAPHS") != nullptr) {
      std::cout << mix.name << ": " << tally.equal << " equal, " << tally.refused << " refused\n";
    }
    all.equal += tally.equal;
    all.refused += tally.refused;
  }
  const std::uint32_t graphs = count * static_cast<std::uint32_t>(graph_mixes().size());
  EXPECT_GE(all.equal * 10, graphs * 9);
}

}  // namespace
}  // namespace tpu::test::cycles_without_values_test
