#include "sim/app/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

namespace tpu::app {
namespace {

namespace fs = std::filesystem;

ValidatedProgram row(double silicon, std::uint64_t cycles, const std::string& gap = "") {
  ValidatedProgram program;
  program.silicon_cycles = silicon;
  program.cycles = cycles;
  program.gap = gap;
  return program;
}

TEST(Validate, MediansLeaveOutWhatDidNotRunAndVersionGaps) {
  std::vector<ValidatedProgram> rows = {row(100, 102), row(100, 95), row(100, 140, "another"),
                                        row(100, 101), row(100, 300)};
  rows.back().problem = "it did not run";
  EXPECT_NEAR(median_error(rows, false), 0.02, 1e-12);
  EXPECT_NEAR(median_error(rows, true), (0.02 + 0.05) / 2, 1e-12);
  EXPECT_NEAR(mean_error(rows, false), 0.08 / 3, 1e-12);
  EXPECT_EQ(median_error({}, true), 0);
}

TEST(Validate, RankCorrelationSharesTheRanksOfTies) {
  EXPECT_NEAR(rank_correlation({row(1, 10), row(2, 20), row(3, 30)}), 1, 1e-12);
  EXPECT_NEAR(rank_correlation({row(1, 30), row(2, 20), row(3, 10)}), -1, 1e-12);
  // Ranks 0 1 2 against 0.5 0.5 2.
  EXPECT_NEAR(rank_correlation({row(1, 10), row(2, 10), row(3, 30)}), 1.5 / std::sqrt(2 * 1.5),
              1e-12);
}

TEST(Validate, BundlesThatTakeLongerThanSiliconAreAnotherProgram) {
  ValidatedProgram program = row(1000, 1100);
  program.bundle_cycles = 1019;
  EXPECT_EQ(version_gap(program, "PTS3-0002", ""), "");
  program.bundle_cycles = 1021;
  EXPECT_EQ(version_gap(program, "PTS3-0002", ""), "its bundles alone take longer");
}

TEST(Validate, KnownVersionGapsAreNamedByRowAndTile) {
  const ValidatedProgram program = row(1000, 1100);
  EXPECT_NE(version_gap(program, "TG3-fusion.191", ""), "");
  EXPECT_NE(version_gap(program, "TG3-fusion.191", "3 3 24 1"), "");
  EXPECT_EQ(version_gap(program, "TG3-fusion.191", "3 3 16 24"), "");
  EXPECT_EQ(version_gap(program, "TG3-fusion.205", ""), "");
}

/// The measured programs, where they are.
fs::path measured() { return fs::path(TPUSIM_SOURCE_DIR) / ".." / "shared" / "xla" / "measured"; }

ValidatedFolder validated(const fs::path& folder) {
  Arguments arguments;
  arguments.command = "validate";
  arguments.input = folder.string();
  return validate_folder(arguments, [](const ValidatedProgram&) {});
}

TEST(Validate, WhatSiliconAlsoRanIsWithinSixPercent) {
  if (!fs::is_directory(measured())) GTEST_SKIP() << "no measured programs beside the sources";
  std::vector<ValidatedProgram> rows;
  for (const char* name : {"PTS3-0002", "PTS3-0004", "PTS3-0006", "PTS3-0013", "PTS3-0016",
                           "PTS3-0018", "PTS3-0020", "SBK2-0001", "TG3-copy.24", "TG3-fusion.181",
                           "TG3-fusion.205", "TG3-fusion.232", "TG3-fusion.250"}) {
    const ValidatedFolder folder = validated(measured() / name);
    ASSERT_EQ(folder.programs.size(), 1u) << name;
    EXPECT_EQ(folder.programs[0].problem, "");
    EXPECT_EQ(folder.programs[0].gap, "") << name;
    EXPECT_LE(std::fabs(folder.programs[0].error()), 0.06) << name;
    rows.push_back(folder.programs[0]);
  }
  EXPECT_LE(median_error(rows, true), 0.03);
}

TEST(Validate, TilingsKeepTheOrderOfSilicon) {
  if (!fs::is_directory(measured())) GTEST_SKIP() << "no measured programs beside the sources";
  const ValidatedFolder folder = validated(measured() / "TG3-fusion.191");
  ASSERT_EQ(folder.tilings.size(), 1u);
  const std::vector<ValidatedProgram>& tilings = folder.tilings[0].tilings;
  EXPECT_EQ(tilings.size(), 60u);
  EXPECT_GE(rank_correlation(tilings), 0.95);
  EXPECT_LE(mean_error(tilings, false), 0.03);
}

}  // namespace
}  // namespace tpu::app
