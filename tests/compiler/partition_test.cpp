// The partitioner: programs of several devices against the program of one. By default some dozens
// of random graphs; TPUSIM_RANDOM_GRAPHS=N runs N from seed TPUSIM_RANDOM_SEED (0) on, and
// TPUSIM_PARTITION_FILE=F checks the module of a file.

#include "workloads/compiler/sharding/partition.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "sim/base/error.h"
#include "tests/compiler/graph_check.h"
#include "tests/compiler/partition_check.h"
#include "tests/compiler/random_graph.h"

namespace tpu::test {
namespace {

std::uint32_t number_from(const char* variable, std::uint32_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

/// "devices=[2,1,4]<=[8] last_tile_dim_replicate" for an array, now and then over transposed
/// devices; empty where chance or the extents say so.
std::string random_sharding(const hlo::Shape& shape, std::int64_t devices, std::mt19937& engine) {
  std::int64_t left = devices;
  std::string tiles;
  std::int64_t used = 1;
  for (std::int64_t extent : shape.dimensions) {
    std::int64_t tile = 1;
    for (std::int64_t t : {2, 3, 4, 8}) {
      if (engine() % 2 == 0 && left % t == 0 && extent % t == 0) tile = t;
    }
    left /= tile;
    used *= tile;
    tiles += (tiles.empty() ? "" : ",") + std::to_string(tile);
  }
  if (used == 1) return engine() % 2 == 0 ? "" : "sharding={replicated}";
  // Six devices are three times two in every annotation: another mesh would be refused.
  const std::size_t two = tiles.find('2'), three = tiles.find('3');
  const bool two_first = two != std::string::npos && (three == std::string::npos || two < three);
  const bool transposed = devices == 6 ? two_first : devices % 2 == 0 && engine() % 3 == 0;
  const std::string halves = "[" + std::to_string(devices / 2) + ",2]";
  const std::string mesh = transposed     ? halves + "T(1,0)"
                           : devices == 6 ? halves
                           : devices == 8 ? "[2,2,2]"
                                          : "[" + std::to_string(devices) + "]";
  return "sharding={devices=[" + tiles + (left > 1 ? "," + std::to_string(left) : "") +
         "]<=" + mesh + (left > 1 ? " last_tile_dim_replicate" : "") + "}";
}

/// Annotations on parameters and on some instructions.
void annotate(hlo::Module& module, std::int64_t devices, std::mt19937& engine) {
  hlo::Computation& entry = module.entry_computation();
  for (hlo::HloInstruction& instruction : entry.instructions) {
    if (instruction.shape.is_tuple() || instruction.shape.rank() == 0) continue;
    const bool is_parameter = instruction.opcode == hlo::HloOpcode::kParameter;
    if (!is_parameter && engine() % 4 != 0) continue;
    instruction.raw_attributes = random_sharding(instruction.shape, devices, engine);
  }
}

void check_random(const GraphMix& mix, std::uint32_t count) {
  const std::uint32_t first = number_from("TPUSIM_RANDOM_SEED", 0);
  count = number_from("TPUSIM_RANDOM_GRAPHS", count);
  for (std::uint32_t seed = first; seed < first + count; ++seed) {
    std::mt19937 engine(seed);
    GraphCase graph = case_of(random_module(mix, seed), seed);
    const std::int64_t devices = std::vector<std::int64_t>{2, 4, 8, 6, 3, 8}[seed % 6];
    // Sums of parts round elsewhere than sums of wholes.
    for (hlo::Computation& computation : graph.module.computations) {
      computation = graph_check_detail::in_f32(computation, engine, 0);
    }
    for (reference::Value& value : graph.arguments) graph_check_detail::make_f32(value.shape);
    annotate(graph.module, devices, engine);
    try {
      check_partitioned(graph.module, graph.arguments, static_cast<std::size_t>(devices), 2e-4);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << mix.name << " seed " << seed << " on " << devices << " devices\n"
                    << hlo::to_string(graph.module);
      return;
    }
  }
}

TEST(Partition, RandomElementwiseGraphs) { check_random(graph_mix("expressions"), 30); }
TEST(Partition, RandomMovement) { check_random(graph_mix("movement"), 30); }
TEST(Partition, RandomDots) { check_random(graph_mix("dots"), 30); }
TEST(Partition, RandomImages) { check_random(graph_mix("images"), 12); }
TEST(Partition, RandomTables) { check_random(graph_mix("rows"), 20); }
TEST(Partition, RandomIndexing) { check_random(graph_mix("indexing"), 25); }
TEST(Partition, RandomLoopsAndBranches) { check_random(graph_mix("regions"), 20); }

TEST(Partition, ModuleOfAFile) {
  const char* file = std::getenv("TPUSIM_PARTITION_FILE");
  if (file == nullptr) GTEST_SKIP() << "set TPUSIM_PARTITION_FILE to check a module";
  GraphCase graph = case_of(hlo::read_hlo_file(file), 1);
  for (reference::Value& value : graph.arguments) {
    for (float& number : value.numbers) number *= 0.1F;
    for (std::int64_t& integer : value.integers) integer = std::abs(integer) % 10;
  }
  check_partitioned(graph.module, graph.arguments,
                    static_cast<std::size_t>(compiler::annotated_devices(graph.module)));
}

}  // namespace
}  // namespace tpu::test
