// The partitioner: programs of several devices against the program of one. By default some dozens
// of random graphs; TPUSIM_RANDOM_GRAPHS=N runs N from seed TPUSIM_RANDOM_SEED (0) on, and
// TPUSIM_PARTITION_FILE=F checks the module of a file.

#include "workloads/compiler/sharding/partition.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "sim/base/error.h"
#include "tests/compiler/graph_check.h"
#include "tests/compiler/hlo_check.h"
#include "tests/compiler/partition_check.h"
#include "tests/compiler/random_graph.h"

namespace tpu::test::partition_test {
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
      computation = in_f32(computation, engine, 0);
    }
    for (reference::Value& value : graph.arguments) make_f32(value.shape);
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

TEST(Partition, RandomLanes) { check_random(graph_mix("lanes"), 30); }
TEST(Partition, RandomDots) { check_random(graph_mix("dots"), 30); }
TEST(Partition, RandomImages) { check_random(graph_mix("images"), 12); }
TEST(Partition, RandomTables) { check_random(graph_mix("rows"), 20); }
TEST(Partition, RandomIndexing) { check_random(graph_mix("indexing"), 25); }
TEST(Partition, RandomLoopsAndBranches) { check_random(graph_mix("regions"), 20); }

/// A step of a perceptron: forward, gradients, update. `x` is cut as the test says.
std::string training_step(const std::string& x, const std::string& w1, const std::string& w2) {
  const auto sharding = [](const std::string& text) {
    return text.empty() ? "" : ", sharding={" + text + "}";
  };
  return "HloModule step, input_output_alias={ {0}: (1, {}, may-alias), {1}: (2, {}, may-alias) }\n"
         "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, "
         "b)\n}\n"
         "ENTRY main {\n  x = f32[256,64] parameter(0)" +
         sharding(x) + "\n  w1 = f32[64,128] parameter(1)" + sharding(w1) +
         "\n  w2 = f32[128,16] parameter(2)" + sharding(w2) +
         "\n  h = f32[256,128] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         "  t = f32[256,128] tanh(h)\n"
         "  y = f32[256,16] dot(t, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         "  g2 = f32[128,16] dot(t, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
         "  dt = f32[256,128] dot(y, w2), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
         "  g1 = f32[64,128] dot(x, dt), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
         "  n1 = f32[64,128] subtract(w1, g1)\n  n2 = f32[128,16] subtract(w2, g2)\n"
         "  zero = f32[] constant(0)\n  q = f32[256,16] multiply(y, y)\n"
         "  loss = f32[] reduce(q, zero), dimensions={0,1}, to_apply=sum\n"
         "  ROOT r = (f32[64,128], f32[128,16], f32[]) tuple(n1, n2, loss)\n}\n";
}

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

/// Cut by the partitioner, in the interpreter and compiled for four cores. The text of the program
/// of each core.
std::string check_on_four(const std::string& text) {
  const GraphCase graph = case_of(hlo::read_hlo_text("test.hlo", text), 3);
  check_partitioned(graph.module, graph.arguments, 4);
  const std::string made = to_string(compiler::partition(graph.module, 4).module);
  HloCheck check;
  check.cores = 4;
  check.low = -0.2;
  check.high = 0.2;
  check.tolerance = 1e-3;
  check_hlo(made, check);
  return made;
}

TEST(Partition, DataParallelStepAddsItsGradients) {
  const std::string made =
      check_on_four(training_step("devices=[4,1]<=[4]", "replicated", "replicated"));
  EXPECT_EQ(count_of(made, " all-reduce("), 3u) << made;
  EXPECT_EQ(count_of(made, " all-gather("), 0u) << made;
}

TEST(Partition, TensorParallelStepAddsItsActivations) {
  const std::string made =
      check_on_four(training_step("replicated", "devices=[1,4]<=[4]", "devices=[4,1]<=[4]"));
  // The product with the rows of w2; everything else is a core's own.
  EXPECT_EQ(count_of(made, " all-reduce("), 1u) << made;
  EXPECT_EQ(count_of(made, " all-gather("), 0u) << made;
}

TEST(Partition, FullyShardedStepGathersItsWeightsAndScattersTheirGradients) {
  const std::string made = check_on_four(
      training_step("devices=[4,1]<=[4]", "devices=[4,1]<=[4]", "devices=[4,1]<=[4]"));
  EXPECT_EQ(count_of(made, " all-gather("), 2u) << made;
  EXPECT_EQ(count_of(made, " reduce-scatter("), 2u) << made;
}

TEST(Partition, TwoAxesOfAMesh) {
  const std::string made =
      check_on_four(training_step("devices=[2,1,2]<=[4] last_tile_dim_replicate",
                                  "devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate",
                                  "devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate"));
  EXPECT_GE(count_of(made, "replica_groups={{0,2},{1,3}}"), 2u) << made;
  EXPECT_GE(count_of(made, "replica_groups={{0,1},{2,3}}"), 1u) << made;
}

TEST(Partition, PartsWrittenForOneDeviceAreLeftAsTheyAre) {
  const std::string text =
      "HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=4]>}}\n"
      "ENTRY main {\n  x = f32[16,8] parameter(0), sharding={devices=[4,1]<=[4]}\n"
      "  l = f32[4,8] custom-call(x), custom_call_target=\"xla.sdy.GlobalToLocalShape\", "
      "frontend_attributes={xla.sdy.in_shardings=\"#sdy.sharding_per_value<[<@mesh, [{\\\"x\\\"}, "
      "{}]>]>\",xla.sdy.manual_axes=\"#sdy<manual_axes{\\\"x\\\"}>\"}\n"
      "  p = f32[4,8] collective-permute(l), channel_id=1, "
      "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}\n"
      "  ROOT g = f32[16,8] custom-call(p), custom_call_target=\"xla.sdy.LocalToGlobalShape\", "
      "frontend_attributes={xla.sdy.manual_axes=\"#sdy<manual_axes{\\\"x\\\"}>\",xla.sdy.out_"
      "shardings=\"#sdy.sharding_per_value<[<@mesh, [{\\\"x\\\"}, {}]>]>\"}\n}\n";
  const hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  EXPECT_EQ(compiler::annotated_devices(module), 4);
  const compiler::PartitionedModule made = compiler::partition(module, 4);
  EXPECT_EQ(made.parameters[0].part, (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(made.results[0].starts[3], (std::vector<std::int64_t>{12, 0}));
  HloCheck check;
  check.cores = 4;
  check_hlo(to_string(made.module), check);
}

TEST(Partition, AnnotationsInTheComputationOfAReductionSayNothing) {
  const std::string text =
      "HloModule m\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  c = f32[] add(a, "
      "b)\n  ROOT d = f32[] custom-call(c), custom_call_target=\"Sharding\", "
      "sharding={replicated}\n}\nENTRY main {\n  x = f32[16,8] parameter(0), "
      "sharding={devices=[4,1]<=[4]}\n  zero = f32[] constant(0)\n  ROOT r = f32[8] reduce(x, "
      "zero), dimensions={0}, to_apply=sum\n}\n";
  EXPECT_EQ(count_of(check_on_four(text), " all-reduce("), 1u);
}

void expect_refused(const std::string& parameter, std::int64_t devices, const std::string& why) {
  const hlo::Module module = hlo::read_hlo_text(
      "test.hlo",
      "HloModule m\nENTRY main {\n  ROOT p = f32[8,9] parameter(0), " + parameter + "\n}\n");
  try {
    compiler::partition(module, devices);
    ADD_FAILURE() << "expected a refusal of " << parameter;
  } catch (const WorkloadError& error) {
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("\"p\""), std::string::npos) << error.what();
  }
}

TEST(Partition, AnnotationsThatItDoesNotUnderstandAreRefusedByName) {
  expect_refused("sharding={devices=[1,2]<=[2]}", 2, "expected a dimension that divides into 2");
  expect_refused("sharding={devices=[4,1]<=[4]}", 8, "expected a sharding over 8 devices");
  expect_refused("sharding={devices=[2,1]<=[2]}, frontend_attributes={}", 4, "over 4 devices");
  expect_refused("sharding={devices=[4,1]0,3,1,2}", 4, "expected devices in the order of a mesh");
  expect_refused("sharding={sideways}", 2, "expected replicated, manual");
  expect_refused("frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@m, [{}, {}]>\"}", 2,
                 "expected a mesh of the module");
}

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
}  // namespace tpu::test::partition_test
