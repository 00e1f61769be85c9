#include "sim/sweep/sweep_plan.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "sim/base/error.h"

namespace tpu::sweep::sweep_plan_test {
namespace {

const SettingNames kKnown{{"config", "batch", "shape", "learning-rate"},
                          {"core.mxu.count", "hbm.pin_mbps"}};

std::string line(const Point& point) {
  std::string text;
  for (const std::string& word : point.words(kKnown)) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  for (const Point& point : parse_plan(text, "s.toml", kKnown).points) all.push_back(line(point));
  return all;
}

std::string error(const std::string& text) {
  try {
    parse_plan(text, "s.toml", kKnown);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

TEST(SweepPlan, AGridHasEveryCombinationAndItsLastListChangesFastest) {
  EXPECT_EQ(lines("workload = \"mlp\"\n"
                  "[grid]\nhbm.pin_mbps = [1800, 2000]\nbatch = [8, 16]\n"),
            (std::vector<std::string>{"run mlp --set hbm.pin_mbps=1800 --batch 8",
                                      "run mlp --set hbm.pin_mbps=1800 --batch 16",
                                      "run mlp --set hbm.pin_mbps=2000 --batch 8",
                                      "run mlp --set hbm.pin_mbps=2000 --batch 16"}));
}

TEST(SweepPlan, PointsComeBehindGridsAndReplaceWhatHoldsForAll) {
  EXPECT_EQ(
      lines("workload = \"mlp\"\nbatch = 8\n"
            "[[grid]]\ncore.mxu.count = 1\n[[grid]]\ncore.mxu.count = [2, 4]\n"
            "[[points]]\nbatch = 32\nlearning_rate = 0.25\n[[points]]\nworkload = \"lenet\"\n"),
      (std::vector<std::string>{"run mlp --batch 8 --set core.mxu.count=1",
                                "run mlp --batch 8 --set core.mxu.count=2",
                                "run mlp --batch 8 --set core.mxu.count=4",
                                "run mlp --batch 32 --learning-rate 0.25", "run lenet --batch 8"}));
}

TEST(SweepPlan, ParametersMayStandInTables) {
  EXPECT_EQ(lines("workload = \"mlp\"\n[grid.core.mxu]\ncount = [1]\n[grid.hbm]\npin_mbps = [9]\n"),
            (std::vector<std::string>{"run mlp --set core.mxu.count=1 --set hbm.pin_mbps=9"}));
}

TEST(SweepPlan, MistakesAreNamedWithTheirPlace) {
  EXPECT_EQ(error("workload = \"mlp\"\n[grid]\ncore.mxu.cuont = [1]\n"),
            "s.toml:3:10: a sweep sets workload, flags of `tpusim run` and parameters of `tpusim "
            "show`, found \"core.mxu.cuont\"; the nearest is \"core.mxu.count\"");
  EXPECT_EQ(error("[grid]\nbatch = [1]\n"),
            "s.toml: point 1: expected a workload, such as workload = \"matmul\"");
  EXPECT_EQ(error("workload = \"mlp\"\nbatch = [1, 2]\n[grid]\nshape = [\"a\"]\n"),
            "s.toml:2:1: batch: expected one value (lists stand in [grid]), found 2");
  EXPECT_EQ(error("workload = \"mlp\"\n[grid]\nbatch = []\n"),
            "s.toml:3:1: batch: expected a value, found none");
  EXPECT_EQ(error("workload = \"mlp\"\ngrid = 3\n"),
            "s.toml:2:8: grid: expected a table, [grid] or [[grid]]");
  EXPECT_EQ(error("workload = \"mlp\"\n[grid]\nbatch = [1979-05-27]\n"),
            "s.toml:3:10: batch: expected a string, a number, true or false");
  EXPECT_EQ(error("workload = \"mlp\"\n"),
            "s.toml: expected a [grid] of lists or [[points]], found neither");
  EXPECT_EQ(error("workload = "),
            "s.toml:1:12: Error while parsing key-value pair: encountered "
            "end-of-file");
}

/// 200^5 points, and 600 points that hold a megabyte each.
TEST(SweepPlan, PointsAreCountedBeforeTheyAreMade) {
  std::string lists = "workload = \"mlp\"\n[grid]\n";
  for (const char* name : {"batch", "shape", "core.mxu.count", "hbm.pin_mbps", "config"}) {
    lists += std::string(name) + " = [0";
    for (int i = 1; i < 200; ++i) lists += "," + std::to_string(i);
    lists += "]\n";
  }
  EXPECT_EQ(error(lists), "s.toml: expected at most 1000000 points");
  const std::string value(std::size_t{1} << 20, 'x');
  std::string long_values = "workload = \"" + value + "\"\n[grid]\nbatch = [0";
  for (int i = 1; i < 600; ++i) long_values += ", " + std::to_string(i);
  EXPECT_EQ(error(long_values + "]\n")
                .find("s.toml: expected points whose settings take at most 512 MiB, found 600 MiB"),
            0u);
  std::string points = "workload = \"" + value + "\"\n";
  for (int i = 0; i < 600; ++i) points += "[[points]]\nbatch = 1\n";
  EXPECT_EQ(error(points).find("s.toml: expected points whose settings"), 0u);
}

TEST(SweepPlan, ShardsTakeEachPointOnce) {
  for (const std::size_t n : {1, 2, 7, 20}) {
    std::multiset<std::size_t> taken;
    for (std::size_t i = 1; i <= n; ++i) {
      for (const std::size_t point : shard(13, i, n)) taken.insert(point);
    }
    EXPECT_EQ(taken.size(), 13u) << n;
    EXPECT_EQ(std::set<std::size_t>(taken.begin(), taken.end()).size(), 13u) << n;
    EXPECT_EQ(*taken.rbegin(), 12u) << n;
  }
}

}  // namespace
}  // namespace tpu::sweep::sweep_plan_test
