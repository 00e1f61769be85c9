#include "sim/config/scenario.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace tpu::config {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_scenario(text, "my.toml");
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Scenario, AFileSetsWhatItNamesAndKeepsTheRest) {
  const Scenario scenario = parse_scenario(
      "base = \"pytorch-xla\"\n[training]\nepochs = 3\nexamples = 50000\n[launch]\nus = 12.5\n"
      "iterations_per_loop = 4\n[readback]\nevery = 10\n[checkpoint]\nin_background = true\n",
      "my.toml");
  EXPECT_EQ(scenario.epochs, 3u);
  EXPECT_EQ(scenario.examples, 50000u);
  EXPECT_FALSE(scenario.drop_last) << "of the base";
  EXPECT_EQ(scenario.launch_us, 12.5);
  EXPECT_EQ(scenario.launch_steps, 4u);
  EXPECT_EQ(scenario.launch_ahead, 1u) << "of the base";
  EXPECT_EQ(scenario.compile_ms_per_instruction, 2.5) << "of the base's base";
  EXPECT_EQ(scenario.readback_every, 10u);
  EXPECT_TRUE(scenario.checkpoint_in_background);
}

TEST(Scenario, AllBuiltInOnesAreRead) {
  const std::vector<std::string> names = built_in_scenarios();
  EXPECT_GE(names.size(), 5u);
  for (const std::string& name : names) EXPECT_EQ(load_scenario(name).name, name);
  EXPECT_EQ(load_scenario("tf-estimator").launch_steps, 100u);
  EXPECT_EQ(load_scenario("kaggle-notebook").readback_every, 1u);
}

TEST(Scenario, ErrorsNameLineAndColumnAndWhatIsThere) {
  EXPECT_EQ(
      error_of("[launch]\n  uss = 3\n")
          .rfind("my.toml:2:3: a scenario has no \"launch.uss\"; the nearest is \"launch.us\"", 0),
      0u);
  EXPECT_EQ(error_of("[readback]\nevery = -1\n"),
            "my.toml:2:9: readback.every: expected a whole number from 0 to 1e+15, found -1");
  EXPECT_EQ(error_of("[training]\nepochs = 0\n"),
            "my.toml:2:10: training.epochs: expected a whole number from 1 to 1e+15, found 0");
  EXPECT_EQ(error_of("[training]\ndrop_last = \"no\"\n"),
            "my.toml:2:13: training.drop_last: expected true or false, found \"no\"");
  EXPECT_EQ(error_of("[compile]\nbase_s = nan\n")
                .rfind("my.toml:2:10: compile.base_s: expected a number from 0 to 1e+15", 0),
            0u);
  EXPECT_EQ(error_of("epochs = 3\n").rfind("my.toml:1:1: a scenario has no \"epochs\"", 0), 0u);
  EXPECT_EQ(error_of("[launch\n").rfind("my.toml:1:", 0), 0u);
  EXPECT_EQ(error_of("base = \"jaxx\"\n").rfind("my.toml:1:8: no scenario \"jaxx\"", 0), 0u);
  EXPECT_EQ(error_of("[launch]\nus = [1]\n"),
            "my.toml:2:6: launch.us: expected a number from 0 to 1e+15, found an array");
  EXPECT_NE(error_of("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r = 1\n").find("expected keys of two"),
            std::string::npos);
}

TEST(Scenario, TheCommandLineChangesOneKey) {
  Scenario scenario = load_scenario("jax");
  apply_to_scenario(scenario, "fallback.per_step=2");
  apply_to_scenario(scenario, "training.drop_last=false");
  EXPECT_EQ(scenario.fallback_per_step, 2u);
  EXPECT_FALSE(scenario.drop_last);
  for (const char* wrong : {"fallback.per_step", "fallback.per_step=", "fallback.per_step=x",
                            "fallback.per_step=1.5", "fallback.per_step=1\nx=2", "nothing=1"}) {
    EXPECT_THROW(apply_to_scenario(scenario, wrong), ConfigurationError) << wrong;
  }
}

TEST(Scenario, AFileThatNamesItselfIsNoEndlessLoop) {
  EXPECT_THROW(load_scenario("no-such-file.toml"), ConfigurationError);
  const std::string path = ::testing::TempDir() + "/itself.toml";
  FILE* file = fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  fprintf(file, "base = \"%s\"\n", path.c_str());
  fclose(file);
  EXPECT_THROW(load_scenario(path), ConfigurationError);
}

}  // namespace
}  // namespace tpu::config
