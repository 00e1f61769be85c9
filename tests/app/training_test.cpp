#include "tests/app/program_fixture.h"

namespace tpu::app::training_test {
namespace {

const std::string kMlp = "run mlp --batch 256";

double sum_of(const json& parts) {
  double sum = 0;
  for (const json& part : parts) sum += part.get<double>();
  return sum;
}

TEST_F(ProgramTest, AnEpochIsItsStepsAndWhatIsBetweenThem) {
  const json run = report(kMlp + " --dataset 10240 --epochs 3 --loss-every 10");
  const json& training = run["training"];
  EXPECT_EQ(training["steps"], 3 * 40);
  EXPECT_EQ(training["compilations"], 1);
  EXPECT_NEAR(sum_of(training["causes"]), 1, 1e-9);
  const double seconds = training["seconds"];
  const double on_chips = 120 * run["step_time_ms"]["mean"].get<double>() / 1e3;
  EXPECT_NEAR(training["causes"]["steps"].get<double>() * seconds, on_chips, 1e-3 * on_chips);
  // Twelve times a loss, 200 us each; the launch behind it is not hidden either.
  EXPECT_NEAR(training["causes"]["readback"].get<double>() * seconds, 12 * 200e-6, 1e-6);
  EXPECT_GT(training["step_to_step_ms"]["max"].get<double>(), 1000) << "XLA compiles";
  EXPECT_LT(training["step_to_step_ms"]["p90"].get<double>(), 1.5);
  EXPECT_TRUE(report(kMlp)["training"].is_null());
}

TEST_F(ProgramTest, ARaggedBatchIsAShapeOfItsOwn) {
  const std::string words = kMlp + " --dataset 1000 --epochs 2 --drop-last ";
  const json dropped = report(words + "on")["training"], kept = report(words + "off")["training"];
  EXPECT_EQ(dropped["steps"], 2 * 3);
  EXPECT_EQ(dropped["compilations"], 1);
  EXPECT_EQ(kept["steps"], 2 * 4);
  EXPECT_EQ(kept["compilations"], 2);
  // 125 examples a core: three batches of 32 and one of 29.
  EXPECT_EQ(kept["shapes"][1]["batch"], 29 * 8);
  EXPECT_GT(kept["seconds"].get<double>(), dropped["seconds"].get<double>() + 1);
}

TEST_F(ProgramTest, AnEvaluationGoesForwardOnly) {
  const json training = report(
      kMlp + " --dataset 10240 --evaluate-every 20 --between evaluation.examples=2560")["training"];
  EXPECT_EQ(training["evaluations"], 2);
  ASSERT_EQ(training["shapes"].size(), 2u);
  EXPECT_EQ(training["shapes"][1]["name"], "evaluation");
  EXPECT_LT(training["shapes"][1]["time_ms"].get<double>(),
            training["shapes"][0]["time_ms"].get<double>() / 2);
  EXPECT_GT(training["causes"]["evaluation"].get<double>(), 0);
}

/// A loop of steps on the chips hides what a launch for each step shows.
TEST_F(ProgramTest, IterationsPerLoopHideLaunches) {
  const std::string words = kMlp + " --dataset 256000 --scenario tf-estimator";
  const json loops = report(words)["training"];
  const json single = report(words + " --iterations-per-loop 1")["training"];
  const auto launches = [](const json& training) {
    return training["causes"]["launch"].get<double>() * training["seconds"].get<double>();
  };
  EXPECT_NEAR(launches(loops), 10 * 0.0042, 1e-6);
  EXPECT_NEAR(launches(single), 1000 * 0.0042, 1e-6);
}

TEST_F(ProgramTest, AYearOfStepsIsCountedOrRefusedInALine) {
  const json year =
      report(kMlp + " --dataset 256000000000 --epochs 100 --loss-every 100")["training"];
  EXPECT_GT(year["seconds"].get<double>(), 86400.0 * 100);
  EXPECT_LT(year["simulated_steps"].get<double>(), 1e5);
  expect_error(kMlp + " --dataset 1000000000000 --epochs 1000000000000", 3, "");
  expect_error(kMlp + " --epochs 2", 2, "how long is an epoch?");
  expect_error(kMlp + " --dataset 100", 2, "holds no batch of 256");
  write("my.toml", "[launch]\nuss = 3\n");
  expect_error(kMlp + " --dataset 1000 --scenario my.toml", 3, "my.toml:2:1: a scenario has no");
  expect_error("run matmul --dataset 1000 --evaluate-every 3", 2, "has no evaluation step");
}

TEST_F(ProgramTest, AResultsFileKeepsTheTraining) {
  const Outcome outcome =
      tpusim(kMlp + " --dataset 10240 --scenario kaggle-notebook -o run.h5 --json run.json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("from step to step: mean"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("(modelled)"), std::string::npos) << "the cost of compilation";
  EXPECT_EQ(tpusim("export run.h5 --format csv -o tables").exit_code, 0);
  const std::string causes = text_of(folder_ / "tables" / "training_causes.csv");
  EXPECT_NE(causes.find("readback"), std::string::npos) << causes;
}

}  // namespace
}  // namespace tpu::app::training_test
