#include "tests/app/program_fixture.h"

namespace tpu::app::captured_steps_test {
namespace {

/// Small steps with the values that JAX computes, captured for the chips named.
struct Step {
  const char* folder;
  int cores;
  std::vector<std::string> chips;
};

class CapturedStep : public ProgramTest, public testing::WithParamInterface<Step> {};

TEST_P(CapturedStep, GivesJaxsValuesAndTakesTheSameCyclesWithout) {
  const std::string folder = TPUSIM_SOURCE_DIR "/" + std::string(GetParam().folder);
  for (const std::string& chip : GetParam().chips) {
    const std::string words = "run " + folder + " --config " + chip + "-8 --compiler xla --cores " +
                              std::to_string(GetParam().cores);
    const json with = report(words + " --values on --check " + folder + "/values.npz");
    ASSERT_FALSE(with["checks"].empty()) << chip;
    for (const json& check : with["checks"]) {
      EXPECT_TRUE(check["passed"].get<bool>()) << chip << " " << check.dump();
      EXPECT_LE(check["relative_error"].get<double>(), 1e-2) << chip << " " << check.dump();
    }
    // The first step of each, and the later one that either reports.
    const json first = report(words + " --values on --warmup 0");
    EXPECT_EQ(report(words + " --warmup 0")["steps"], first["steps"]) << chip;
    EXPECT_EQ(with["warm_up"]["steps"][0], first["steps"][0]) << chip;
    const json without = report(words);
    EXPECT_EQ(without["steps"], with["steps"]) << chip;
    EXPECT_EQ(without["warm_up"], with["warm_up"]) << chip;
  }
}

// Jacobi rotations until the rest is small, in code of XLA's own; a scan whose carry is undefined
// at first and lies in the place of outputs; an all-gather over a grid of cores and a
// reduce-scatter; twenty values between `vpush` and `spop`; products and a training step of v4.
INSTANTIATE_TEST_SUITE_P(
    All, CapturedStep,
    testing::Values(Step{"tests/captured/eigenvalues", 1, {"v2", "v3"}},
                    Step{"tests/captured/scan_of_microbatches", 1, {"v2", "v3"}},
                    Step{"tests/captured/shard_map_gather_scatter", 8, {"v2", "v3"}},
                    Step{"tests/captured/top_k", 1, {"v2", "v3"}},
                    Step{"tests/captured/matmuls", 1, {"v4"}},
                    Step{"tests/captured/image_step", 1, {"v4"}},
                    Step{"workloads/captured/mlp", 1, {"v4"}}),
    [](const auto& info) {
      return fs::path(info.param.folder).filename().string() + info.param.chips.back();
    });

}  // namespace
}  // namespace tpu::app::captured_steps_test
