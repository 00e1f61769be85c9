#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "sim/report/comparison.h"
#include "sim/report/critical_path_report.h"
#include "sim/report/monitoring_text.h"
#include "sim/report/run_diff.h"
#include "sim/report/text_report.h"
#include "sim/report/training_report.h"
#include "tests/traces/synthetic_record.h"

/// The tables of reports: their figures, and that these stand under their heads.

namespace tpu::report::tables_test {
namespace {

const TextStyle kStyle{false, 120};

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The lines of a table: its heads and what follows to the next line that is empty.
std::vector<std::string> table_of(const std::string& text, const std::string& heads) {
  std::vector<std::string> table;
  for (const std::string& line : lines_of(text)) {
    if (table.empty() ? line.rfind(heads, 0) == 0 : !line.empty()) table.push_back(line);
    if (!table.empty() && line.empty()) break;
  }
  return table;
}

/// Whether a cell ends in the column in which its head does.
void expect_under(const std::string& row, const std::string& heads, const std::string& head) {
  const std::size_t end = heads.find(head) + head.size();
  ASSERT_NE(heads.find(head), std::string::npos) << head;
  ASSERT_GE(row.size(), end) << row;
  EXPECT_TRUE(row[end - 1] != ' ' && (row.size() == end || row[end] == ' '))
      << "not under \"" << head << "\":\n"
      << heads << "\n"
      << row;
}

std::string report_of(const traces::RunRecord& record) {
  return text_report(record, summarize(record), {}, kStyle);
}

TEST(Tables, PartsOfAKindStandTogetherWithTheRestOfTheirTime) {
  traces::RunRecord record = test::synthetic_record();
  record.result.parts.push_back(
      {"PCIe of host 0, chip 3, up", {{"busy", 0}, {"idle: not asked", 2200}}});
  const auto table = table_of(report_of(record), "Beside the cores");
  ASSERT_EQ(table.size(), 3u);  // PCIe did nothing.
  for (const char* head : {"number", "busy", "busiest"}) expect_under(table[1], table[0], head);
  EXPECT_EQ(table[1].substr(0, 51), "  HBM channels          1  36.4 %   36.4 %   idle: ");
  EXPECT_EQ(table[2], "  ICI links             2   4.5 %    9.1 %   idle: not asked 95.5 %");
}

TEST(Tables, FiguresOfUnitsStandUnderTheirHeads) {
  const auto table = table_of(report_of(test::synthetic_record()), "Units ");
  ASSERT_EQ(table.size(), 9u);
  for (std::size_t i = 1; i < table.size(); ++i) {
    for (const char* head :
         {"busy", "nothing to do", "memory wait", "host wait", "ICI, peer", "finished"}) {
      expect_under(table[i], table[0], head);
    }
  }
}

TEST(Tables, FiguresOfOperationsStandUnderTheirHeads) {
  traces::RunRecord record = test::synthetic_record();
  record.ops[0].estimated_cycles = 940;
  const auto table = table_of(report_of(record), "      us   XLA's    part");
  ASSERT_GE(table.size(), 2u);
  for (const char* head : {"us", "XLA's", "part", "count", "MXU", "VPU", "HBM", "padding"}) {
    expect_under(table[1], table[0], head);
  }
  const std::size_t operation = table[0].find("operation");
  for (const std::string& row : table) {
    if (row.find("(modelled)") != std::string::npos || row.find("jit(") != std::string::npos)
      continue;
    EXPECT_EQ(row[operation - 1], ' ') << row;
    EXPECT_NE(row[operation], ' ') << row;
  }
  // Of each of two steps 0.638 us of ours, 1 us of XLA's.
  const auto groups = table_of(report_of(record), "      us   XLA's   ratio");
  ASSERT_GE(groups.size(), 2u);
  EXPECT_EQ(groups[1].substr(0, 24), "   0.638       1    0.64");
}

TEST(Tables, ColumnsAreAsWideAsTheirWidestCell) {
  EXPECT_EQ(columns({{"long name", "1"}, {"n", "1234"}}),
            "  long name      1\n  n           1234\n");
  EXPECT_EQ(columns({{"long name", "1"}, {"n", "1234"}}, 18),
            "  long name      1\n  n           1234\n");
  // What has no room even so stands below, behind the first column again; a single one stays.
  const std::vector<std::vector<std::string>> rows{
      {"", "a", "bcd", "ef"}, {"row", "10", "2", "3"}, {"part"}};
  EXPECT_EQ(columns(rows, 19), "         a  bcd  ef\n  row   10    2   3\n  part\n");
  EXPECT_EQ(columns(rows, 18),
            "         a  bcd\n  row   10    2\n  part\n\n        ef\n  row    3\n  part\n");
  EXPECT_EQ(columns(rows, 5),
            "         a\n  row   10\n  part\n\n        bcd\n  row     2\n  part\n\n        ef\n  "
            "row    3\n  part\n");
  EXPECT_EQ(columns({}, 5), "");
  EXPECT_EQ(columns({{"long name", "1"}, {"n", "1234"}}, 17),
            "  long name     1\n  n          1234\n");
}

TEST(Tables, ATextThatIsCutKeepsItsWidth) {
  EXPECT_EQ(fitted("1234567890123456789012345", 22), "12345678901234567890..");
  EXPECT_EQ(fitted("1234567890123456789012", 22), "1234567890123456789012");
}

TEST(Tables, PercentagesOfAComparisonArePercentages) {
  const traces::RunRecord record = test::synthetic_record();
  std::map<std::string, double> values;
  for (const ResultRow& row : result_rows({record}, {summarize(record)})) {
    values[row.name] = row.values[0];
  }
  // Of both cores: 2 x 2 x 65,536 x 100 / ... as the summary has it, times 100.
  const Summary summary = summarize(record);
  for (const auto& [name, fraction] :
       {std::pair("mxu", summary.utilization.mxu),
        std::pair("mxu_flops", summary.utilization.mxu_flops),
        std::pair("vpu", summary.utilization.vpu), std::pair("hbm", summary.utilization.hbm),
        std::pair("ici", summary.utilization.ici), std::pair("idle", summary.idle_fraction)}) {
    EXPECT_NEAR(values.at(name), 100 * fraction, 1e-9) << name;
  }
}

/// 300 of 2 x 600 slots.
TEST(Summary, AnOpsShareOfTheVectorAluIsOfBothSlots) {
  EXPECT_DOUBLE_EQ(summarize(test::synthetic_record()).ops[0].shares.vector_alu, 0.25);
}

TEST(Training, EachCauseThatTookTimeIsARow) {
  const auto lines = lines_of(training_text(test::synthetic_record(), kStyle));
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[3].substr(0, 8), "  steps ");
  EXPECT_EQ(lines[4],
            "  input           #                                          2.1 %          0.213 us");
  EXPECT_EQ(lines[5].substr(0, 14), "  compilation ");
  EXPECT_EQ(
      lines[6],
      "  step               256 examples    1.170 us on the chips, 0.957 us of input, compiled in "
      "5.319 us (modelled)");
  traces::RunRecord record = test::synthetic_record();
  record.training->shapes[0].input_cycles = 0;
  EXPECT_EQ(training_text(record, kStyle).find("of input"), std::string::npos);
}

TEST(ProfileText, TheTimestampHasHoursMinutesAndSeconds) {
  traces::RunRecord record = test::synthetic_record();
  record.result.cycles = std::uint64_t{3600 * 26 + 60 * 61 + 7} * 940000000;
  EXPECT_EQ(profile_text(record, summarize(record), 1).find("Timestamp: 03:01:07\n"), 0u)
      << profile_text(record, summarize(record), 1);
}

/// Three resources: one has a share, one only a place on the path, one neither.
TEST(CriticalPathText, HasWhatHasAShareOrAPlaceOnThePath) {
  traces::RunRecord record = test::synthetic_record();
  CriticalPath& critical = record.result.critical_path;
  critical = {};
  critical.cycles = 2200;
  critical.path[static_cast<std::size_t>(Resource::kMxu)] = 2000;
  critical.path[static_cast<std::size_t>(Resource::kVector)] = 200;
  for (std::size_t set = 0; set < critical.without.size(); ++set) {
    const bool frees_mxu = (set >> static_cast<std::size_t>(Resource::kMxu) & 1) != 0;
    critical.without[set] = frees_mxu ? 1100 : 2200;
  }
  const auto lines = lines_of(causes_text(record, summarize(record), kStyle));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[1].substr(0, 6), "  MXU ");
  EXPECT_EQ(lines[2].substr(0, 6), "  VPU ");
  for (const char* head : {"share", "on the path", "if it is free"}) {
    expect_under(lines[1], lines[0], head);
  }
  // 1,100 of its 2,200 cycles: half of the mean step; the other frees nothing.
  EXPECT_EQ(lines[1].substr(lines[1].size() - 9), "-0.585 us");
  EXPECT_EQ(lines[2].substr(lines[2].size() - 5), " 0 us");
}

TEST(Paths, SayHowOftenALoopRanAndWhatWasNotReached) {
  traces::RunRecord record = test::synthetic_record();
  record.control = {{"while.3", "", "", 0, {}}, {"while.4", "", "", 0, {}}};
  record.result.paths = {{0, 3, 2, 9, {}, false, false}, {1, 0, 0, 0, {}, false, false}};
  const std::string text = report_of(record);
  EXPECT_NE(text.find("2 to 9 trips in each of 3 executions"), std::string::npos) << text;
  EXPECT_EQ(text.find("0 trips"), std::string::npos) << text;
  EXPECT_NE(text.find("not reached"), std::string::npos) << text;
}

/// The second run waits longer for memory in one operation, has another name for the third.
class RunDiffTest : public testing::Test {
 protected:
  void SetUp() override {
    second_ = first_;
    for (CoreResult& core : second_.result.cores) {
      core.ops[1].cycles += 2 * 94;
      core.total.core.add(CoreState::kMemoryWait, 2 * 94);
      for (StepSpan& step : core.steps) {
        step.begin += 94 * (&step - core.steps.data());
        step.end += 94 * (1 + (&step - core.steps.data()));
      }
      core.end_cycle += 2 * 94;
    }
    second_.result.cycles += 2 * 94;
    CriticalPath& path = second_.result.critical_path;
    constexpr auto kHbm = static_cast<std::size_t>(Resource::kHbm);
    path.cycles += 2 * 94;
    path.path[kHbm] += 2 * 94;
    path.ops[1].cycles[kHbm] += 2 * 94;
    for (std::size_t set = 0; set < CriticalPath::kSets; ++set) {
      if ((set >> kHbm & 1) == 0) path.without[set] += 2 * 94;
    }
    second_.ops[2].name = "other.3";
  }
  traces::RunRecord first_ = test::synthetic_record(), second_;
};

TEST_F(RunDiffTest, OperationsAreMatchedAndAddUpToTheDifference) {
  const RunDifference difference = difference_of(first_, second_);
  EXPECT_NEAR(difference.change(), 0.1, 1e-9);  // 94 cycles of 940 MHz, in us.
  double sum = 0;
  std::map<std::string, const OpDifference*> rows;
  for (const OpDifference& row : difference.ops) {
    sum += row.change();
    rows[row.name] = &row;
  }
  EXPECT_NEAR(sum, difference.change(), 1e-9);
  EXPECT_NEAR(rows.at("copy.2")->change(), 0.1, 1e-9);
  EXPECT_TRUE(rows.at("copy.2")->in_first && rows.at("copy.2")->in_second);
  EXPECT_FALSE(rows.at("infeed.3")->in_second);
  EXPECT_FALSE(rows.at("other.3")->in_first);
  EXPECT_EQ(rows.at("jit(step)/dot_general")->change(), 0);
}

/// Compilers join different sums with a convolution, in another order and type.
TEST_F(RunDiffTest, WhatIsLeftOfAScopeIsMatchedByItsLargestArray) {
  first_.ops[0].op_name = second_.ops[0].op_name = "net/conv";
  first_.ops[1].op_name = second_.ops[1].op_name = "net/conv";
  first_.ops[0].shape = "(f32[64]{0:T(256)}, bf16[128,56,56,64]{0,3,2,1:T(8,128)(2,1)})";
  second_.ops[0].shape = "(bf16[56,56,128,64]{3}, f32[2,64]{0})";
  first_.ops[1].shape = "(f32[2000]{0}, f32[40,41]{0})";
  second_.ops[1].shape = "(f32[40,41]{0}, bf16[2000]{0}, f32[]{})";
  const auto rows_of = [&] {
    std::map<std::string, OpDifference> rows;
    const RunDifference difference = difference_of(first_, second_);
    double sum = 0;
    for (const OpDifference& row : difference.ops) {
      sum += row.change();
      rows[row.name + row.shape] = row;
    }
    EXPECT_NEAR(sum, difference.change(), 1e-9);
    return rows;
  };
  const auto rows = rows_of();
  ASSERT_EQ(rows.count("net/conv[2000]"), 1u);
  EXPECT_NEAR(rows.at("net/conv[2000]").change(), 0.1, 1e-9);
  // Of another array only the scope is the same.
  ASSERT_EQ(rows.count("net/conv"), 1u);
  EXPECT_TRUE(rows.at("net/conv").in_first && rows.at("net/conv").in_second);
  second_.ops[0].shape = "(bf16[128,56,56,64]{3}, f32[2,64]{0})";
  const auto again = rows_of();
  ASSERT_EQ(again.count("net/conv[128,56,56,64]"), 1u);
  EXPECT_EQ(again.at("net/conv[128,56,56,64]").change(), 0);
  EXPECT_EQ(again.count("net/conv"), 0u);
}

/// What one compiler calls add and the other subtract stands in the same layer; what only one of
/// them has in a scope stays alone, under its own name.
TEST_F(RunDiffTest, WhatIsLeftIsMatchedByTheScopeThatEnclosesIt) {
  first_.ops[0].op_name = "net/alone/dot";
  second_.ops[0].op_name = "net/other/dot";
  first_.ops[1].op_name = "net/layer/add";
  second_.ops[1].op_name = "net/layer/subtract";
  const RunDifference difference = difference_of(first_, second_);
  std::map<std::string, const OpDifference*> rows;
  double sum = 0;
  for (const OpDifference& row : difference.ops) {
    sum += row.change();
    rows[row.name] = &row;
  }
  EXPECT_NEAR(sum, difference.change(), 1e-9);
  const OpDifference& layer = *rows.at("net/layer/...");
  EXPECT_TRUE(layer.in_first && layer.in_second);
  EXPECT_NEAR(layer.change(), 0.1, 1e-9);
  EXPECT_EQ(rows.count("net/layer/add") + rows.count("net/layer/subtract"), 0u);
  EXPECT_FALSE(rows.at("net/alone/dot")->in_second);
  EXPECT_FALSE(rows.at("net/other/dot")->in_first);
  EXPECT_FALSE(rows.at("infeed.3")->in_second);
}

TEST_F(RunDiffTest, TheTextHasCausesAndOperationsWithWhatChanged) {
  const std::string text = diff_text(first_, second_, {"a.h5", "b.h5"}, kStyle);
  const auto causes = table_of(text, "By cause, us of a step");
  ASSERT_GE(causes.size(), 3u) << text;
  bool has_hbm = false;
  for (std::size_t i = 2; i < causes.size(); ++i) {
    for (const char* head : {" A", " B", "B-A"}) expect_under(causes[i], causes[1], head);
    has_hbm = has_hbm || causes[i].find("+0.100  HBM") != std::string::npos;
  }
  EXPECT_TRUE(has_hbm) << text;
  const auto lines = lines_of(text);
  const auto copy = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("copy.2") != std::string::npos;
  });
  ASSERT_NE(copy, lines.end());
  EXPECT_EQ(*std::prev(copy), "     0.319     0.419    +0.100  HBM +0.100") << text;
  // Nothing changed there: no cause is named.
  const auto product = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("dot_general") != std::string::npos;
  });
  ASSERT_NE(product, lines.end());
  EXPECT_EQ(*std::prev(product), "     0.638     0.638         0  ") << text;
}

}  // namespace
}  // namespace tpu::report::tables_test
