#include "sim/config/scenario.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sim/base/error.h"

namespace tpu::config::scenario_test {
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
            "my.toml:2:13: training.drop_last: expected true or false, found the string \"no\"");
  EXPECT_EQ(error_of("[compile]\nbase_s = nan\n")
                .rfind("my.toml:2:10: compile.base_s: expected a number from 0 to 1e+15", 0),
            0u);
  EXPECT_EQ(error_of("epochs = 3\n").rfind("my.toml:1:1: a scenario has no \"epochs\"", 0), 0u);
  EXPECT_EQ(error_of("[launch\n").rfind("my.toml:1:", 0), 0u);
  EXPECT_EQ(error_of("base = \"jaxx\"\n").rfind("my.toml:1:8: base: no scenario \"jaxx\"", 0), 0u);
  EXPECT_EQ(error_of("[launch]\nus = [1]\n"),
            "my.toml:2:6: launch.us: expected a number from 0 to 1e+15, found an array");
  EXPECT_NE(error_of("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r = 1\n")
                .find("expected keys of at most 16 parts, such as launch.us, found one of 18"),
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
  std::ofstream(path) << "base = \"" << path << "\"\n";
  try {
    load_scenario(path);
    ADD_FAILURE() << "no error";
  } catch (const ConfigurationError& error) {
    EXPECT_EQ(error.what(), path + ": the scenario is its own base, through " + path);
  }
}

/// As a configuration's: files relative to the one that names them, several in their order.
TEST(Scenario, BasesAreThoseOfAnyTomlFile) {
  const std::string folder = ::testing::TempDir() + "/scenario-bases";
  std::filesystem::create_directories(folder + "/sub");
  std::ofstream(folder + "/a.toml") << "base = \"kaggle-notebook\"\n[launch]\nus = 77\n";
  std::ofstream(folder + "/b.toml") << "[launch]\nahead = 5\n";
  std::ofstream(folder + "/sub/c.toml") << "base = [\"../a.toml\", \"../b.toml\"]\n";
  const Scenario scenario = load_scenario(folder + "/sub/c.toml");
  EXPECT_EQ(scenario.launch_us, 77);
  EXPECT_EQ(scenario.launch_ahead, 5u);
  EXPECT_EQ(scenario.readback_every, 1u) << "of the base's base";
  EXPECT_EQ(scenario.files.size(), 3u);
  std::filesystem::remove_all(folder);
}

/// Two bases that name two each, and so on, would be read 2^15 times.
TEST(Scenario, BasesThatDoubleAreRefused) {
  const std::string folder = ::testing::TempDir() + "/scenario-doubles";
  std::filesystem::create_directories(folder);
  for (int i = 0; i < 14; ++i) {
    const std::string next = "\"" + std::to_string(i + 1) + ".toml\"";
    std::ofstream(folder + "/" + std::to_string(i) + ".toml")
        << "base = [" << next << ", " << next << "]\n";
  }
  std::ofstream(folder + "/14.toml") << "\n";
  try {
    load_scenario(folder + "/0.toml");
    ADD_FAILURE() << "no error";
  } catch (const ConfigurationError& error) {
    EXPECT_NE(std::string(error.what()).find("expected at most 256 scenarios as bases"),
              std::string::npos)
        << error.what();
  }
  std::filesystem::remove_all(folder);
}

/// A device says no size.
TEST(Scenario, AFileWithoutAnEndIsRefused) {
  const std::string path = ::testing::TempDir() + "/endless.toml";
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/zero", path);
  try {
    load_scenario(path);
    ADD_FAILURE() << "no error";
  } catch (const ConfigurationError& error) {
    EXPECT_EQ(error.what(), path + ": expected a scenario file of at most 1 MiB, found more");
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tpu::config::scenario_test
