#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "sim/config/compiler_target.h"
#include "sim/config/configuration.h"
#include "workloads/compiler/compiler.h"
#include "workloads/compiler/passes/op_info.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/xla/captured_folder.h"
#include "workloads/xla/op_info.h"

namespace tpu::test::op_arithmetic_test {
namespace {

const std::string kMlp = std::string(TPUSIM_SOURCE_DIR) + "/workloads/captured/mlp";

compiler::Target target() {
  return config::target_of(config::load_configuration("v3-8").params, 1);
}

/// One step, compiled by XLA and by us.
struct Both {
  isa::Program xla = xla::load_captured(kMlp, "v3");
  isa::Program ours =
      compiler::compile(hlo::read_hlo_file(kMlp + "/before.hlo.gz"), target(), nullptr);
};

const Both& both() {
  static const Both programs;
  return programs;
}

/// A figure of each execution of an operation.
std::vector<std::uint64_t> figures(const isa::Program& program, std::uint64_t isa::OpInfo::*of) {
  std::vector<std::uint64_t> found;
  for (const isa::CallSite& site : program.call_sites) {
    if (!site.is_opening()) found.push_back(program.ops[site.op].*of);
  }
  return found;
}

std::uint64_t sum(const isa::Program& program, std::uint64_t isa::OpInfo::*of) {
  const std::vector<std::uint64_t> all = figures(program, of);
  return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
}

std::vector<std::uint64_t> products(const isa::Program& program) {
  std::vector<std::uint64_t> flops = figures(program, &isa::OpInfo::matmul_flops);
  flops.erase(std::remove(flops.begin(), flops.end(), 0U), flops.end());
  std::sort(flops.begin(), flops.end());
  return flops;
}

TEST(OpArithmetic, ModelFlopsOfOneStepAreThoseOfItsProductsWhoeverCompiledIt) {
  // Batch 24 through 64 x 96, 96 x 32, 32 x 8: forward, gradients of weights, and gradients of
  // activations but the first layer's.
  const std::uint64_t layers[] = {64 * 96, 96 * 32, 32 * 8};
  const std::uint64_t expected = 2 * 24 * (3 * (layers[0] + layers[1] + layers[2]) - layers[0]);
  EXPECT_EQ(both().xla.model_flops, expected);
  EXPECT_EQ(both().ours.model_flops, expected);
  EXPECT_EQ(both().xla.data_dependent_control, 0u);
  EXPECT_EQ(both().ours.data_dependent_control, 0u);
}

TEST(OpArithmetic, TheOperationsOfBothCompilersHoldAllProducts) {
  EXPECT_EQ(sum(both().xla, &isa::OpInfo::matmul_flops), both().xla.model_flops);
  EXPECT_EQ(sum(both().ours, &isa::OpInfo::matmul_flops), both().ours.model_flops);
  // Products this small are members of a sequence here.
  EXPECT_GT(products(both().xla).size(), products(both().ours).size());
  EXPECT_FALSE(products(both().ours).empty());
  for (const isa::Program* program : {&both().xla, &both().ours}) {
    for (const isa::OpInfo& op : program->ops) {
      EXPECT_EQ(op.matmul_flops > 0,
                op.category == "convolution fusion" || op.category == "convolution")
          << op.name << " " << op.category;
    }
  }
}

TEST(OpArithmetic, BytesOfBothCompilersDifferByWhatTheyFuse) {
  const std::uint64_t xla = sum(both().xla, &isa::OpInfo::hbm_bytes);
  const std::uint64_t ours = sum(both().ours, &isa::OpInfo::hbm_bytes);
  // Neither moves less than the step's parameters and results. Activations between the fusions,
  // of which neither has more than 20, are at most 24 x 96 floats.
  EXPECT_EQ(both().xla.compulsory_hbm_bytes, both().ours.compulsory_hbm_bytes);
  EXPECT_GE(xla, both().xla.compulsory_hbm_bytes);
  EXPECT_GE(ours, both().ours.compulsory_hbm_bytes);
  EXPECT_LT(xla > ours ? xla - ours : ours - xla, 20u * 24 * 96 * 4);
}

TEST(OpArithmetic, OneInstructionHasOneDescriptionInBothCompilers) {
  const hlo::Module module = hlo::read_hlo_file(kMlp + "/v3.scheduled.hlo.gz");
  const xla::InstructionIndex index(module);
  hlo::HloCostAnalysis analysis(module);
  std::size_t compared = 0;
  for (const hlo::HloInstruction& instruction : module.entry_computation().instructions) {
    const isa::OpInfo theirs = xla::op_info(analysis, index, instruction.name, "");
    const isa::OpInfo ours = compiler::op_info(module, instruction, target());
    EXPECT_EQ(theirs.category, ours.category) << instruction.name;
    EXPECT_EQ(theirs.flops, ours.flops) << instruction.name;
    EXPECT_EQ(theirs.matmul_flops, ours.matmul_flops) << instruction.name;
    EXPECT_EQ(theirs.hbm_bytes, ours.hbm_bytes) << instruction.name;
    EXPECT_EQ(theirs.op_name, ours.op_name) << instruction.name;
    EXPECT_EQ(theirs.source, ours.source) << instruction.name;
    compared += theirs.hbm_bytes > 0 ? 1 : 0;
  }
  EXPECT_GT(compared, 10u);
}

/// Scopes that the module before optimisation names.
std::set<std::string> scopes_of(const hlo::Module& module) {
  std::set<std::string> scopes;
  for (const hlo::Computation& computation : module.computations) {
    for (const hlo::HloInstruction& instruction : computation.instructions) {
      scopes.insert(instruction.metadata.op_name);
    }
  }
  return scopes;
}

TEST(OpArithmetic, EveryOperationOfOursHasAScopeAndALineOfTheProgram) {
  const std::set<std::string> scopes = scopes_of(hlo::read_hlo_file(kMlp + "/before.hlo.gz"));
  EXPECT_GT(scopes.size(), 20u);
  for (const isa::OpInfo& op : both().ours.ops) {
    EXPECT_FALSE(op.op_name.empty()) << op.name;
    // What stands in a call has the call's scope before its own name.
    const std::size_t slash = op.op_name.rfind('/');
    const bool is_within = slash != std::string::npos &&
                           scopes.count(op.op_name.substr(0, slash)) == 1 &&
                           scopes.count(op.op_name.substr(slash + 1)) == 1;
    EXPECT_TRUE(is_within || scopes.count(op.op_name) == 1) << op.name << ": " << op.op_name;
    EXPECT_EQ(op.source.substr(0, 7), "mlp.py:") << op.name << ": " << op.op_name;
  }
  for (const isa::OpInfo& op : both().xla.ops) {
    EXPECT_EQ(op.op_name.empty(), op.category == "runtime") << op.name;
  }
}

TEST(OpArithmetic, AScanHasTheFlopsOfEveryTripWhoeverCompiledIt) {
  const std::string folder = TPUSIM_SOURCE_DIR "/tests/captured/scan_of_microbatches";
  const hlo::Module before = hlo::read_hlo_file(folder + "/before.hlo.gz");
  const isa::Program xla = xla::load_captured(folder, "v3");
  const isa::Program ours = compiler::compile(before, target(), nullptr);
  EXPECT_EQ(xla.model_flops, ours.model_flops);
  EXPECT_EQ(xla.data_dependent_control, 0u);
  EXPECT_EQ(ours.data_dependent_control, 0u);
  // The scan is one kernel here, which holds the products of all trips.
  std::uint64_t all = 0;
  for (const isa::OpInfo& op : ours.ops) all += op.matmul_flops;
  EXPECT_EQ(ours.model_flops, all);
}

TEST(OpArithmetic, StepsOfJaxNameEveryOperationAndHaveTheFlopsOfXlas) {
  const std::string programs = TPUSIM_SOURCE_DIR "/../shared/xla/programs/";
  if (!std::filesystem::is_directory(programs)) GTEST_SKIP() << "no reference data in ../shared";
  for (const char* name : {"lenet_b128", "convnet_small_b4"}) {
    const isa::Program ours = compiler::compile(
        hlo::read_hlo_file(programs + name + "/before.hlo.pb.gz"), target(), nullptr);
    const isa::Program xla = xla::load_captured(programs + name, "v3");
    EXPECT_EQ(ours.model_flops, xla.model_flops) << name;
    for (const isa::OpInfo& op : ours.ops) EXPECT_FALSE(op.op_name.empty()) << name << op.name;
    for (const isa::OpInfo& op : xla.ops) {
      EXPECT_EQ(op.op_name.empty(), op.category == "runtime") << name << " " << op.name;
    }
  }
}

}  // namespace
}  // namespace tpu::test::op_arithmetic_test
