// Random graphs, compiled and run on values, against the reference interpreter. By default about a
// hundred; TPUSIM_RANDOM_GRAPHS=N runs N of each kind from seed TPUSIM_RANDOM_SEED (0) on.

#include "tests/compiler/random_graph.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <random>

#include "tests/compiler/graph_check.h"

namespace tpu::test::random_graph_test {
namespace {

std::uint32_t number_from(const char* variable, std::uint32_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

/// The published machines, and ones that were never built.
MachineParams random_machine(std::uint32_t seed) {
  static constexpr std::uint32_t kSizes[] = {128, 128, 128, 256, 512};
  static constexpr std::uint32_t kVmem[] = {4, 8, 16, 32};
  std::mt19937 engine(seed);
  if (engine() % 2 == 0) return engine() % 2 == 0 ? v2_8() : MachineParams{};
  MachineParams machine = engine() % 3 == 0 ? v2_8() : MachineParams{};
  machine.name = "varied " + std::to_string(seed);
  machine.core.mxu.count = 1 + engine() % 4;
  machine.core.mxu.rows = kSizes[engine() % std::size(kSizes)];
  machine.core.mxu.columns = kSizes[engine() % std::size(kSizes)];
  machine.core.vmem_mib = kVmem[engine() % std::size(kVmem)];
  machine.core.xlu_latency_cycles = 40 + engine() % 100;
  machine.core.eup_latency_cycles = 2 + engine() % 20;
  machine.core.mxu.pipeline_stages = 1 + engine() % 60;
  return machine;
}

/// A refusal without what differs from case to case.
std::string kind_of(const std::string& message) {
  std::string kind;
  for (char c : message) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) kind += c;
  }
  return kind.substr(0, 160);
}

/// Every graph computes what the reference computes, and at most `most_refused` of a hundred have
/// an operation without a kernel.
void check_graphs(const std::string& name, std::uint32_t count, std::uint32_t most_refused) {
  const GraphMix& mix = graph_mix(name);
  const std::uint32_t first = number_from("TPUSIM_RANDOM_SEED", 0);
  count = number_from("TPUSIM_RANDOM_GRAPHS", count);
  const bool tells = std::getenv("TPUSIM_RANDOM_GRAPHS") != nullptr;
  std::map<std::string, int> refusals;
  std::uint32_t refused = 0;
  for (std::uint32_t seed = first; seed < first + count; ++seed) {
    GraphCase graph = case_of(random_module(mix, seed), seed);
    graph.machine = random_machine(seed);
    graph.steps = graph.module.aliases.empty() ? 1 : 1 + seed % 3;
    const Verdict verdict = check_graph(graph);
    if (verdict.kind == Verdict::Kind::kRefused) {
      ++refused;
      if (refusals[kind_of(verdict.message)]++ == 0 && tells) {
        std::cout << mix.name << " " << seed << ": " << verdict.message << "\n";
      }
    }
    EXPECT_NE(verdict.kind, Verdict::Kind::kInvalid)
        << mix.name << " seed " << seed << ": " << verdict.message;
    if (verdict.kind != Verdict::Kind::kWrong) continue;
    const GraphCase small = shrunk(graph, 300);
    ADD_FAILURE() << mix.name << " seed " << seed << ": " << verdict.message << "\nshrunk, on "
                  << small.machine.name << ", " << small.steps
                  << " steps: " << check_graph(small).message << "\n"
                  << hlo::to_string(small.module);
  }
  if (tells) std::cout << mix.name << ": " << refused << " of " << count << " refused\n";
  EXPECT_LE(refused * 100, most_refused * count) << refused << " refused of " << count;
}

TEST(RandomGraphs, ElementwiseOperationsAndReductions) { check_graphs("expressions", 40, 0); }

TEST(RandomGraphs, IntegersAndRareFunctions) { check_graphs("numbers", 20, 10); }

TEST(RandomGraphs, OperationsThatMoveElements) { check_graphs("movement", 20, 20); }

TEST(RandomGraphs, LanesThatMoveInsideOfATile) { check_graphs("lanes", 40, 0); }

TEST(RandomGraphs, DotsAmongElementwiseOperations) { check_graphs("dots", 20, 5); }

TEST(RandomGraphs, ConvolutionsAndPooling) { check_graphs("images", 15, 10); }

TEST(RandomGraphs, RowsOfTables) { check_graphs("rows", 10, 10); }

TEST(RandomGraphs, SlicesGathersScattersAndSorts) { check_graphs("indexing", 20, 40); }

TEST(RandomGraphs, LoopsAndBranches) { check_graphs("regions", 15, 7); }

}  // namespace
}  // namespace tpu::test::random_graph_test
