#include "sim/report/comparison_table.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tpu::report::comparison_table_test
