#include "sim/report/comparison_table.h"

#include <gtest/gtest.h>

#include "sim/report/json_report.h"
#include "tests/traces/synthetic_record.h"
#include "traces/csv.h"

namespace tpu::report::comparison_table_test {
namespace {

TEST(GpuBounds, AreTheRooflinesOfTheDataSheets) {
  const traces::RunRecord record = test::synthetic_record();
  const Summary summary = summarize(record);
  const std::vector<GpuBound> bounds = gpu_bounds(record, summary);
  ASSERT_EQ(bounds.size(), 4u);
  EXPECT_EQ(bounds[2].name, "A100");
  // Two cores: 2 x 13,107,200 FLOPs at 312 TFLOP/s take less than 100,000 bytes at 1,555 GB/s...
  EXPECT_NEAR(bounds[2].step_ms, 1e3 * 26214400 / 312e12, 1e-12);
  EXPECT_STREQ(bounds[2].bound_by, "FLOPs");
  EXPECT_NEAR(bounds[2].examples_per_s, 256 / (26214400 / 312e12), 1);
  traces::RunRecord moving = record;
  moving.compulsory_hbm_bytes = 1000000;
  const GpuBound moved = gpu_bounds(moving, summarize(moving))[2];
  EXPECT_NEAR(moved.step_ms, 1e3 * 2e6 / 1555e9, 1e-12);
  EXPECT_STREQ(moved.bound_by, "bytes");
  moving.compulsory_hbm_bytes = moving.model_flops = 0;
  EXPECT_TRUE(gpu_bounds(moving, summarize(moving)).empty());
}

TEST(ComparisonTable, HasFiguresParametersAndBounds) {
  traces::RunRecord first = test::synthetic_record(), second = first;
  second.config = "mine|v2";
  second.params.hbm.pin_mbps = 900;
  const traces::Table table =
      comparison_table({first, second}, {summarize(first), summarize(second)});
  const std::string csv = traces::csv_text(table);
  EXPECT_EQ(csv.substr(0, csv.find('\n')),
            "figure,what,v3-8,mine|v2,P100 (bound),V100 (bound),A100 (bound),RTX 3090 (bound)");
  EXPECT_NE(csv.find("\nhbm.pin_mbps,\"hbm.pin_mbps, Mb/s\",1800,900,,,,\n"), std::string::npos)
      << csv;
  const std::size_t watts = csv.find("\nwatts_per_chip,");
  ASSERT_NE(watts, std::string::npos);
  EXPECT_NE(csv.find(",300,300,400,350\n", watts), std::string::npos);
  const std::string markdown = markdown_text(table);
  EXPECT_EQ(markdown.find("| figure | what | v3-8 | mine\\|v2 |"), 0u);
  EXPECT_NE(markdown.find("\n|---|---|--:|"), std::string::npos);
}

/// A chip of which nobody published the power, and which was not sold in parts.
TEST(ComparisonTable, WhatIsNotModelledIsNoZero) {
  traces::RunRecord known = test::synthetic_record(), other = known;
  other.config = "other";
  other.params.chip = "v9";
  const std::vector<Summary> summaries{summarize(known), summarize(other)};
  const traces::Table table = comparison_table({known, other}, summaries);
  const std::string csv = traces::csv_text(table);
  for (const char* figure : {"joules", "watts_per_chip", "examples_per_joule"}) {
    const std::size_t at = csv.find(std::string("\n") + figure + ",");
    ASSERT_NE(at, std::string::npos) << figure;
    const std::string line = csv.substr(at + 1, csv.find('\n', at + 1) - at - 1);
    EXPECT_NE(line.find(",not modelled,"), std::string::npos) << line;
  }
  EXPECT_NE(csv.find(",no price,no price,"), std::string::npos) << csv;  // Two cores of eight.
  const Json json = comparison_json({known, other}, summaries, {{}, {}});
  for (const Json& row : json["results"]) {
    if (row["name"] == "joules") {
      EXPECT_EQ(row["ratios"].dump(), "[1.0,null]");
    } else if (row["name"] == "dollars_per_hour") {
      EXPECT_EQ(row["values"].dump(), "[null,null]");
    }
  }
}

}  // namespace
}  // namespace tpu::report::comparison_table_test
