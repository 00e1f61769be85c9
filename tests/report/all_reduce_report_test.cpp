#include "sim/report/all_reduce_report.h"

#include <gtest/gtest.h>

#include "sim/report/text_layout.h"

namespace tpu::report::all_reduce_report_test {
namespace {

/// Ops with so many cycles, of one step.
traces::RunRecord record_of(const std::vector<std::pair<std::string, std::string>>& ops) {
  traces::RunRecord record;
  for (const auto& [name, category] : ops) {
    record.ops.emplace_back();
    record.ops.back().name = name;
    record.ops.back().category = category;
  }
  return record;
}

Summary summary_of(const std::vector<double>& cycles) {
  Summary summary;
  summary.steps.resize(1);
  // Most expensive first: not the order of the program.
  for (std::size_t i = cycles.size(); i-- > 0;) {
    summary.ops.emplace_back();
    summary.ops.back().op = static_cast<std::uint32_t>(i);
    summary.ops.back().cycles = cycles[i];
  }
  return summary;
}

TEST(AllReduceReport, KernelsBetweenAStartAndItsEndAreBesideIt) {
  const traces::RunRecord record = record_of({{"dot.1", "convolution"},
                                              {"r0.scatter", "all-reduce"},
                                              {"dot.2", "convolution"},
                                              {"r1.scatter", "all-reduce"},
                                              {"r0.sum", "all-reduce"},
                                              {"dot.3", "convolution"},
                                              {"r0", "all-reduce"},
                                              {"dot.4", "convolution"},
                                              {"r1.sum", "all-reduce"},
                                              {"r1", "all-reduce"},
                                              {"r2", "all-reduce"}});
  const Summary summary = summary_of({1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024});
  const std::vector<AllReduceTime> times = all_reduce_times(record, summary);
  const double ms = record.params.seconds(1) * 1e3;
  ASSERT_EQ(times.size(), 3U);
  EXPECT_EQ(times[0].name, "r0");
  EXPECT_DOUBLE_EQ(times[0].exposed_ms, (2 + 16 + 64) * ms);
  EXPECT_DOUBLE_EQ(times[0].beside_ms, (4 + 32) * ms);
  EXPECT_EQ(times[1].name, "r1");
  EXPECT_DOUBLE_EQ(times[1].exposed_ms, (8 + 256 + 512) * ms);
  EXPECT_DOUBLE_EQ(times[1].beside_ms, (32 + 128) * ms);
  EXPECT_DOUBLE_EQ(times[2].exposed_ms, 1024 * ms);
  EXPECT_EQ(times[2].beside_ms, 0);
  EXPECT_NE(all_reduces_text(record, summary).find("r1"), std::string::npos);
  EXPECT_EQ(all_reduces_json(record, summary).size(), 3U);
  const std::string text = all_reduces_text(record, summary);
  const std::size_t all = text.find("\n  all ");
  ASSERT_NE(all, std::string::npos) << text;
  EXPECT_EQ(text.find(fixed((82 + 776 + 1024) * ms, 3), all), text.find_first_of("0123456789", all))
      << text;
  Summary two_steps = summary;
  two_steps.steps.resize(2);
  EXPECT_DOUBLE_EQ(all_reduce_times(record, two_steps)[0].exposed_ms, (2 + 16 + 64) * ms / 2);
}

/// What an all-reduce sends while its own kernels run is exposed, whichever of them sent it.
TEST(AllReduceReport, HiddenIsWhatIsUnderWayBesideOtherKernels) {
  traces::RunRecord record = record_of({{"r0.scatter", "all-reduce"},
                                        {"dot.1", "convolution"},
                                        {"r1.scatter", "reduce-scatter"},
                                        {"r0.sum", "all-reduce"},
                                        {"dot.2", "convolution"},
                                        {"r0", "all-reduce"},
                                        {"r1", "reduce-scatter"}});
  Summary summary = summary_of({1, 1, 1, 1, 1, 1, 1});
  summary.steps.resize(2);
  record.result.cores.resize(3);  // The last one runs none of them.
  for (CoreResult& core : record.result.cores) core.ops.resize(7);
  for (std::uint32_t c = 0; c < 2; ++c) {
    OpResults& ops = record.result.cores[c].ops;
    for (std::size_t op = 0; op < 7; ++op) ops[op].count = 2;
    ops[0].beside = {{1, 100}, {2, 40}, {3, 7000}, {OpResult::kNoOp, 20}};
    ops[3].beside = {{4, 300 + c * 60}, {5, 9000}};
    ops[2].beside = {{3, 11}, {6, 5000}};
  }
  const std::vector<AllReduceTime> times = all_reduce_times(record, summary);
  const double ms = record.params.seconds(1) * 1e3;
  ASSERT_EQ(times.size(), 2U);
  EXPECT_DOUBLE_EQ(times[0].hidden_ms, (100 + 40 + 20 + 330) / 2.0 * ms);
  EXPECT_DOUBLE_EQ(times[1].hidden_ms, 11 / 2.0 * ms);
  const AllReduceTime all = all_reduce_sum(times);
  EXPECT_DOUBLE_EQ(all.hidden_ms, times[0].hidden_ms + times[1].hidden_ms);
  EXPECT_DOUBLE_EQ(all.exposed_ms, 5 / 2.0 * ms);
  const Json json = all_reduces_json(record, summary);
  EXPECT_DOUBLE_EQ(json[1]["hidden_ms"].get<double>(), times[1].hidden_ms);
}

TEST(AllReduceReport, OneThatEverybodyWaitsForIsALine) {
  const traces::RunRecord record = record_of({{"dot.1", "convolution"}, {"r", "all-reduce"}});
  const double ms = record.params.seconds(1) * 1e3;
  EXPECT_EQ(all_reduces_text(record, summary_of({1, 20000})),
            "Collectives of a step: exposed " + fixed(20000 * ms, 3) +
                " ms, hidden 0 (no other kernel runs beside them)\n\n");
  EXPECT_EQ(all_reduces_text(record_of({{"dot.1", "convolution"}}), summary_of({1})), "");
}

/// What no core ran takes no time; a name that is nothing but an end is a name.
TEST(AllReduceReport, WhatDidNotRunTakesNoTime) {
  const traces::RunRecord record = record_of({{"r.scatter", "all-reduce"},
                                              {"dot.1", "convolution"},
                                              {"dot.2", "convolution"},
                                              {"r", "all-reduce"},
                                              {".scatter", "all-reduce"},
                                              {".sum", "all-reduce"}});
  Summary summary = summary_of({1, 2, 4, 8, 16, 32});
  summary.ops.erase(summary.ops.end() - 2);  // The first product.
  const std::vector<AllReduceTime> times = all_reduce_times(record, summary);
  const double ms = record.params.seconds(1) * 1e3;
  ASSERT_EQ(times.size(), 3U);
  EXPECT_DOUBLE_EQ(times[0].beside_ms, 4 * ms);
  EXPECT_EQ(times[1].name, ".scatter");
  EXPECT_DOUBLE_EQ(times[1].exposed_ms, 16 * ms);
  EXPECT_EQ(times[2].name, ".sum");
  EXPECT_DOUBLE_EQ(times[2].exposed_ms, 32 * ms);
}

}  // namespace
}  // namespace tpu::report::all_reduce_report_test
