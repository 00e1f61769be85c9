#include "sim/report/estimate_comparison.h"

#include <gtest/gtest.h>

#include "sim/report/json_report.h"
#include "sim/report/text_report.h"
#include "tests/traces/synthetic_record.h"

namespace tpu::report::estimate_comparison_test {
namespace {

// Of the synthetic record, over two steps: op 0 takes 1200 cycles, all of them bundles and delays;
// op 1 takes 600, waits in 500 and moves 240000 bytes, 490 cycles of the pins; op 2 is the infeed.
traces::RunRecord estimated(std::uint64_t first, std::uint64_t second) {
  traces::RunRecord record = test::synthetic_record();
  record.ops[0].estimated_cycles = first;
  record.ops[1].estimated_cycles = second;
  return record;
}

EstimateComparison compared(const traces::RunRecord& record) {
  return compare_with_estimates(record, summarize(record));
}

const EstimatedOp& of(const EstimateComparison& comparison, std::size_t op) {
  for (const EstimatedOp& each : comparison.ops) {
    if (each.op == op) return each;
  }
  throw std::out_of_range("no such op");
}

TEST(EstimateComparison, SumsTheOperationsThatHaveAnEstimate) {
  const EstimateComparison all = compared(estimated(400, 500));
  EXPECT_EQ(all.cycles, 1800);
  EXPECT_EQ(all.estimated_cycles, 2 * 900);
  EXPECT_EQ(all.without, 1u);
  EXPECT_EQ(all.cycles_without, 300);
  double cycles = 0, estimates = 0;
  for (const EstimateGroup& group : all.groups) {
    cycles += group.cycles;
    estimates += group.estimated_cycles;
  }
  EXPECT_EQ(cycles, all.cycles);
  EXPECT_EQ(estimates, all.estimated_cycles);
}

TEST(EstimateComparison, AReasonIsAPartOfOurTimeThatExplainsTheDifference) {
  const EstimateComparison all = compared(estimated(400, 500));
  EXPECT_EQ(of(all, 0).reason, EstimateReason::kSchedule);
  EXPECT_EQ(of(all, 1).reason, EstimateReason::kHbm);
  // 200 cycles are less than the pins need; 290 are more, which leaves the waiting.
  EXPECT_EQ(of(compared(estimated(400, 200)), 1).reason, EstimateReason::kHbm);
  EXPECT_EQ(of(compared(estimated(400, 290)), 1).reason, EstimateReason::kMemoryWait);
  // Ours is the shorter one, and all of it is schedule.
  EXPECT_EQ(of(compared(estimated(900, 500)), 0).reason, EstimateReason::kSchedule);
  // Bundles that are longer than the estimate, but a sixth of our time: the waiting is.
  EXPECT_EQ(of(compared(estimated(400, 40)), 1).reason, EstimateReason::kHbm);
  traces::RunRecord slow = estimated(400, 40);
  for (CoreResult& core : slow.result.cores) {
    core.ops[1].counters.hbm_read_bytes = core.ops[1].counters.hbm_write_bytes = 0;
  }
  EXPECT_EQ(of(compared(slow), 1).reason, EstimateReason::kMemoryWait);
  // Few bytes and a long wait: latency.
  traces::RunRecord latency = estimated(400, 500);
  for (CoreResult& core : latency.result.cores) {
    core.ops[1].counters.hbm_read_bytes = core.ops[1].counters.hbm_write_bytes = 2000;
  }
  EXPECT_EQ(of(compared(latency), 1).reason, EstimateReason::kMemoryWait);
}

/// Half of op 1 are bundles, half is waiting: the bundles are not the most of it.
TEST(EstimateComparison, HalfOfOurTimeIsNotTheMostOfIt) {
  traces::RunRecord record = estimated(400, 40);
  for (CoreResult& core : record.result.cores) {
    Counters& counters = core.ops[1].counters;
    counters.hbm_read_bytes = counters.hbm_write_bytes = 0;
    counters.core = {};
    counters.core.add(CoreState::kIssue, 300);
    counters.core.add(CoreState::kMemoryWait, 300);
  }
  ASSERT_EQ(of(compared(record), 1).schedule_cycles, 300);
  EXPECT_EQ(of(compared(record), 1).reason, EstimateReason::kMemoryWait);
  for (CoreResult& core : record.result.cores) {
    core.ops[1].counters.core.add(CoreState::kIssue, 2);
  }
  EXPECT_EQ(of(compared(record), 1).reason, EstimateReason::kSchedule);
}

TEST(EstimateComparison, MoreThanAQuarterDiffers) {
  EXPECT_FALSE(of(compared(estimated(480, 500)), 0).differs());  // 1.25
  EXPECT_TRUE(of(compared(estimated(479, 500)), 0).differs());
  EXPECT_FALSE(of(compared(estimated(750, 500)), 0).differs());
  EXPECT_TRUE(of(compared(estimated(751, 500)), 0).differs());
}

TEST(EstimateComparison, JsonHoldsTheSumAndEachOperation) {
  const traces::RunRecord record = estimated(400, 500);
  const Json json = to_json(record, summarize(record), {});
  EXPECT_EQ(json["xla_estimate"]["cycles"], 1800);
  EXPECT_EQ(json["xla_estimate"]["our_cycles"], 1800);
  EXPECT_EQ(json["xla_estimate"]["ops_without"], 1);
  EXPECT_EQ(json["xla_estimate"]["reasons"].size(), 2u);
  EXPECT_EQ(json["ops"][0]["estimate"]["reason"], "schedule");
  EXPECT_EQ(json["ops"][0]["estimate"]["ratio"], 1.5);
  EXPECT_EQ(json["ops"][0]["estimate"]["differs"], true);
  EXPECT_EQ(json["ops"][0]["estimate"]["text"],
            "its bundles and empty cycles alone take 1.50 x the estimate");
  EXPECT_FALSE(json["ops"][2].contains("estimate"));
  EXPECT_FALSE(to_json(test::synthetic_record(), summarize(test::synthetic_record()), {})
                   .contains("xla_estimate"));
}

/// Op 1 waits in 500 of its 600 cycles; without bytes nothing else explains the 80 of the estimate.
TEST(EstimateComparison, AWaitIsToldAsItsShareOfOurTime) {
  traces::RunRecord record = estimated(400, 40);
  for (CoreResult& core : record.result.cores) {
    core.ops[1].counters.hbm_read_bytes = core.ops[1].counters.hbm_write_bytes = 0;
  }
  EXPECT_EQ(to_json(record, summarize(record), {})["ops"][1]["estimate"]["text"],
            "waits for DMAs 83 % of our time, 0 DMAs a call");
}

TEST(EstimateComparison, TheReportFitsEightyColumns) {
  const traces::RunRecord record = estimated(400, 500);
  TextStyle style;
  style.width = 80;
  const std::string text = text_report(record, summarize(record), {}, style);
  const std::size_t begin = text.find("XLA's own estimate");
  ASSERT_NE(begin, std::string::npos);
  const std::string section = text.substr(begin, text.find("\n\n", begin) - begin);
  EXPECT_NE(section.find("longer: schedule"), std::string::npos) << section;
  EXPECT_NE(section.find("shorter: HBM"), std::string::npos) << section;
  std::istringstream lines(section);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(ModelFlops, AreThoseExecutedWhereDataDecides) {
  traces::RunRecord record = test::synthetic_record();
  record.model_flops = 4000;
  EXPECT_EQ(summarize(record).model_flops, 4000);
  EXPECT_EQ(to_json(record, summarize(record), {})["flops"]["model_from"], "graph");
  record.data_dependent_control = 1;
  // 800 in each of the two executions on a core, one a step.
  EXPECT_EQ(summarize(record).model_flops, 800);
  EXPECT_EQ(to_json(record, summarize(record), {})["flops"]["model_from"], "executed");
  EXPECT_NE(text_report(record, summarize(record), {}, {}).find("those that ran"),
            std::string::npos);
  const Summary summary = summarize(record);
  EXPECT_DOUBLE_EQ(summary.utilization.mxu_flops, 4 * 800.0 / (4400 * 65536.0));
}

TEST(PushedFlops, AreWhatThePushSlotsCouldDo) {
  const Summary summary = summarize(test::synthetic_record());
  // 120 pushes a step of eight rows through 128 x 128 multipliers.
  EXPECT_EQ(summary.ops[0].pushed_matmul_flops, 2 * 120 * 8 * 2.0 * 128 * 128);
  EXPECT_EQ(summary.pushed_matmul_flops, summary.ops[0].pushed_matmul_flops);
}

}  // namespace
}  // namespace tpu::report::estimate_comparison_test
