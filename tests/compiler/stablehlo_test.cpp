// StableHLO as JAX prints it beside the HLO that JAX makes of it (tests/compiler/stablehlo/make.py
// wrote both): the same kernels, the same values.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

#include "tests/compiler/hlo_check.h"
#include "tests/compiler/machine_target.h"
#include "tests/compiler/partition_check.h"
#include "workloads/compiler/compiler.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::stablehlo_test {
namespace {

/// Bundles of each kernel but the program that calls them. Not their codes: operands of sums change
/// sides between the two texts.
std::vector<std::size_t> kernels_of(const hlo::Module& module, std::uint32_t cores = 1) {
  const isa::Program program = compiler::compile(module, target_of(MachineParams(), cores));
  std::vector<std::size_t> bundles;
  for (std::size_t i = 1; i < program.kernels.size(); ++i) {
    bundles.push_back(program.kernels[i].bundles.size());
  }
  std::sort(bundles.begin(), bundles.end());
  return bundles;
}

reference::Value value_of(const hlo::Module& module, std::uint32_t seed) {
  const reference::Interpreter interpreter(module, {});
  std::mt19937 engine(seed);
  HloCheck numbers;
  numbers.low = 0.1;
  numbers.least = 0;
  numbers.most = 2;
  std::vector<reference::Value> arguments;
  const hlo::Computation& entry = module.entry_computation();
  for (hlo::InstructionId parameter : entry.parameters()) {
    arguments.push_back(random_value(entry.at(parameter).shape, engine, numbers));
  }
  return interpreter.run_replicas({arguments}).at(0);
}

void expect_same(const reference::Value& found, const reference::Value& wanted) {
  ASSERT_EQ(to_string(found.shape, false), to_string(wanted.shape, false));
  for (std::size_t i = 0; i < wanted.elements.size(); ++i) {
    expect_same(found.elements[i], wanted.elements[i]);
  }
  if (!wanted.shape.is_tuple()) {
    EXPECT_LE(distance(numbers_of(found), numbers_of(wanted)), 1e-6) << to_string(wanted.shape);
  }
}

class Stablehlo : public testing::TestWithParam<const char*> {
 protected:
  static hlo::Module module(const std::string& suffix) {
    return hlo::read_hlo_file(TPUSIM_SOURCE_DIR "/tests/compiler/stablehlo/" +
                              std::string(GetParam()) + suffix);
  }
};

/// Of eight devices: shardings, constraints, shard_map, collectives, pmap.
class StablehloOfDevices : public Stablehlo {
 protected:
  static constexpr std::size_t kDevices = 8;

  static compiler::PartitionedModule parts(const std::string& suffix) {
    hlo::Module read = module(suffix);
    hlo::verify(read);
    if (read.replicas == 1) return compiler::partition(std::move(read), kDevices);
    return {std::move(read), {}, {}};
  }
  /// What each device has, of the same random arguments.
  static std::vector<reference::Value> values(const compiler::PartitionedModule& parts) {
    std::mt19937 engine(3);
    const hlo::Computation& entry = parts.module.entry_computation();
    std::vector<std::vector<reference::Value>> arguments(kDevices);
    for (std::vector<reference::Value>& device : arguments) {
      for (hlo::InstructionId parameter : entry.parameters()) {
        device.push_back(random_value(entry.at(parameter).shape, engine, {}));
      }
    }
    return reference::Interpreter(parts.module).run_replicas(std::move(arguments));
  }
};

TEST_P(Stablehlo, IsWhatTheHloOfTheSameFunctionIs) {
  const hlo::Module read = module(".mlir"), hlo = module(".hlo");
  hlo::verify(read);
  EXPECT_EQ(read.aliases.size(), hlo.aliases.size());
  const std::string name = GetParam();
  // The interpreter knows no factorisations, no top-k and no complex numbers.
  const std::set<std::string> unknown{"expanded", "functions_of_complex_numbers",
                                      "approximate_top_k", "least_of_groups"};
  if (unknown.count(name) == 0) {
    for (std::uint32_t seed : {1, 2}) expect_same(value_of(read, seed), value_of(hlo, seed));
  }
  // XLA folds what it can between constants on the way to HLO text, which moves loops' kernels; its
  // counters of elements are vectors that are spread.
  const std::set<std::string> folded{
      "train_scan", "random_numbers",    "functions_of_complex_numbers",
      "polygammas", "approximate_top_k", "expanded"};
  if (folded.count(name) > 0) {
    EXPECT_NO_THROW(kernels_of(read));
  } else {
    EXPECT_EQ(kernels_of(read), kernels_of(hlo));
  }
}

/// The approximate ones leave out what XLA for the TPU leaves out.
TEST_P(Stablehlo, TakesTheSameFirstElements) {
  const std::string name = GetParam();
  if (name != "approximate_top_k" && name != "least_of_groups") return;
  std::vector<std::vector<compiler::HostArray>> found;
  for (const char* suffix : {".mlir", ".hlo"}) {
    const hlo::Module read = module(suffix);
    std::mt19937 engine(5);
    const hlo::Shape& shape =
        read.entry_computation().at(read.entry_computation().parameters().at(0)).shape;
    CoreArguments arguments;
    arguments.parameters.push_back(reference::to_bytes(random_value(shape, engine, {})));
    found.push_back(run_compiled(read, {arguments}).outputs.at(0));
  }
  ASSERT_EQ(found[0].size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(found[0][i].bytes, found[1][i].bytes);
}

/// The module's text. Parameters have names in the text of MLIR, which it changes with the form.
std::string text_of(hlo::Module module) {
  for (hlo::Computation& computation : module.computations) {
    for (hlo::HloInstruction& each : computation.instructions) {
      if (each.opcode != hlo::HloOpcode::kParameter) continue;
      each.name = "parameter" + each.name.substr(each.name.rfind('.'));
    }
  }
  return to_string(module);
}

TEST_P(Stablehlo, IsTheSameModuleInTheGenericForm) {
  const hlo::Module generic = module(".generic.mlir");
  hlo::verify(generic);
  EXPECT_EQ(text_of(generic), text_of(module(".mlir")));
  EXPECT_EQ(generic.aliases.size(), module(".mlir").aliases.size());
}

TEST_P(StablehloOfDevices, IsWhatTheHloOfTheSameFunctionIs) {
  const compiler::PartitionedModule read = parts(".mlir"), hlo = parts(".hlo");
  ASSERT_EQ(read.parameters.size(), hlo.parameters.size());
  for (std::size_t i = 0; i < hlo.parameters.size(); ++i) {
    EXPECT_EQ(read.parameters[i].part, hlo.parameters[i].part) << "parameter " << i;
    EXPECT_EQ(read.parameters[i].starts, hlo.parameters[i].starts) << "parameter " << i;
  }
  ASSERT_EQ(read.results.size(), hlo.results.size());
  for (std::size_t i = 0; i < hlo.results.size(); ++i) {
    EXPECT_EQ(read.results[i].starts, hlo.results[i].starts) << "result " << i;
  }
  const std::vector<reference::Value> found = values(read), wanted = values(hlo);
  ASSERT_EQ(found.size(), kDevices);
  for (std::size_t i = 0; i < kDevices; ++i) expect_same(found[i], wanted[i]);
  EXPECT_EQ(kernels_of(read.module, kDevices), kernels_of(hlo.module, kDevices));
}

TEST_P(StablehloOfDevices, IsTheSameModuleInTheGenericForm) {
  EXPECT_EQ(text_of(module(".generic.mlir")), text_of(module(".mlir")));
}

INSTANTIATE_TEST_SUITE_P(Jax, StablehloOfDevices,
                         testing::Values("sharded_step", "sharded_scan", "manual_experts",
                                         "manual_ring", "manual_sum", "replicas"),
                         [](const auto& info) { return std::string(info.param); });

INSTANTIATE_TEST_SUITE_P(Jax, Stablehlo,
                         testing::Values("train_convolution", "train_scan", "branches_and_loops",
                                         "rows", "orders", "random_numbers", "functions_of_chlo",
                                         "functions_of_complex_numbers", "polygammas", "products",
                                         "ragged_products", "approximate_top_k", "least_of_groups",
                                         "expanded"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tpu::test::stablehlo_test
