#include "sim/report/monitoring_text.h"

#include <gtest/gtest.h>

#include "sim/report/html_report.h"
#include "tests/traces/synthetic_record.h"

namespace tpu::report::monitoring_text_test {
namespace {

TEST(ProfileText, LevelOneIsTheTypeAndTheMatrixUnits) {
  const traces::RunRecord record = test::synthetic_record_with_events();
  // 480 pushes of 8 cycles on two MXUs of two cores in 2,200 cycles: 43.6 %.
  EXPECT_EQ(profile_text(record, summarize(record), 1),
            "Timestamp: 00:00:00\n"
            "  TPU type: TPU v3\n"
            "  Utilization of TPU Matrix Units (higher is better): 43.6%\n");
}

TEST(ProfileText, TheTimestampIsThatOfTheRunsEnd) {
  traces::RunRecord record = test::synthetic_record_with_events();
  const Summary summary = summarize(record);
  for (const auto& [seconds, text] :
       {std::pair{3599, "00:59:59"}, {3600, "01:00:00"}, {7322, "02:02:02"}, {86400, "00:00:00"}}) {
    record.result.cycles = std::uint64_t{940000000} * static_cast<std::uint64_t>(seconds);
    EXPECT_NE(profile_text(record, summary, 1).find(std::string("Timestamp: ") + text + "\n"),
              std::string::npos)
        << text;
  }
}

TEST(ProfileText, LevelTwoHasStepsAndInfeed) {
  const traces::RunRecord record = test::synthetic_record_with_events();
  const std::string text = profile_text(record, summarize(record), 2);
  EXPECT_NE(text.find("  Number of TPU cores: 2 (Replica count = 2, num cores per replica = 1)\n"
                      "  Per-core batch size: 128\n"),
            std::string::npos)
      << text;
  // Core 0 waits 100 of 1,000 cycles, core 1 200 of 1,100.
  EXPECT_NE(text.find("  Infeed percentage: 14.091% (avg), 10.000% (min), 18.182% (max)\n"),
            std::string::npos)
      << text;
  // The slowest core takes 1,100 cycles of 940 MHz.
  EXPECT_NE(text.find("  Step time: 0.00117ms (avg), 0.00117ms (min), 0.00117ms (max)\n"),
            std::string::npos)
      << text;
}

/// A step that nobody began has no share: nothing is divided by its length.
TEST(ProfileText, StepsWithoutCyclesHaveNoShareOfInfeed) {
  traces::RunRecord record = test::synthetic_record_with_events();
  StepSpan& first = record.result.cores[0].steps[0];
  first.end = first.begin;
  // One step of core 0 and two of core 1 are left.
  EXPECT_NE(profile_text(record, summarize(record), 2)
                .find("  Infeed percentage: 15.455% (avg), 10.000% (min), 18.182% (max)\n"),
            std::string::npos);
}

TEST(MetricTime, LeavesOutLeadingPartsOfZero) {
  EXPECT_EQ(metric_time(369401746001), "06m09s401ms746.001us");
  EXPECT_EQ(metric_time(778572062), "778ms572.062us");
  EXPECT_EQ(metric_time(1032778), "001ms32.778us");
  EXPECT_EQ(metric_time(21102853173), "21s102ms853.173us");
  EXPECT_EQ(metric_time(86400e9 + 5), "01d00h00m00s000ms0.005us");
  EXPECT_EQ(metric_time(0), "0.000us");
  EXPECT_EQ(metric_time(7999999999.7), "08s000ms0.000us");
}

TEST(MetricsText, SamplesAreStepsAndTransfers) {
  traces::RunRecord record = test::synthetic_record_with_events();
  record.params.clock_mhz = 1000;
  EXPECT_EQ(metrics_text(record),
            "Metric: ExecuteTime\n"
            "  TotalSamples: 4\n"
            "  Accumulator: 4.200us\n"
            "  ValueRate: 01s909ms90.909us / second\n"
            "  Rate: 1.81818e+06 / second\n"
            "  Percentiles: 1%=1.000us; 5%=1.000us; 10%=1.000us; 20%=1.000us; 50%=1.100us; "
            "80%=1.100us; 90%=1.100us; 95%=1.100us; 99%=1.100us\n"
            "Counter: CachedCompile\n  Value: 1\n"
            "Counter: UncachedCompile\n  Value: 1\n");
  DmaEvent infeed;
  infeed.source = isa::MemorySpace::kInfeed;
  infeed.begin = 100;
  infeed.end = 350;
  record.events.dmas.push_back(infeed);
  EXPECT_NE(metrics_text(record).find("Metric: TransferToServerTime\n  TotalSamples: 1\n"
                                      "  Accumulator: 0.250us\n"),
            std::string::npos);
}

TEST(HtmlReport, HoldsTheRunAndNoTextOfItLeavesTheData) {
  traces::RunRecord record = test::synthetic_record_with_events();
  record.ops[0].name = "</script><img src=x>";
  const std::string page = html_report({record}, {summarize(record)});
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_NE(page.find("\\u003c/script>\\u003cimg src=x>"), std::string::npos);
  EXPECT_EQ(page.find("RUN_DATA"), std::string::npos);
  // Nothing that a browser loads.
  for (const char* loading :
       {"src=\"", "src='", "href=", "url(", "@import", "fetch(", "XMLHttpRequest"}) {
    EXPECT_EQ(page.find(loading), std::string::npos) << loading;
  }
  EXPECT_LT(page.size(), 100000u);
}

TEST(HtmlReport, CausesAddUpAndRatesStayBelowOne) {
  const traces::RunRecord record = test::synthetic_record_with_events();
  const Json run = html_data({record}, {summarize(record)})["runs"][0];
  double causes = 0;
  for (const auto& [name, share] : run["causes"].items()) causes += share.get<double>();
  EXPECT_NEAR(causes, 1, 1e-9);
  double most = 0;
  for (const Json& share : run["timeline"]["hbm"]) most = std::max(most, share.get<double>());
  EXPECT_NEAR(most, 1, 1e-6);
  EXPECT_EQ(run["ops"].size(), 3u);
  EXPECT_EQ(run["ops"][0]["name"], "fusion.1");
}

TEST(HtmlReport, SeveralRunsHaveTheParametersThatDiffer) {
  const traces::RunRecord record = test::synthetic_record();
  traces::RunRecord other = record;
  other.params.hbm.pin_mbps = 2000;
  const Json data = html_data({record, other}, {summarize(record), summarize(other)});
  ASSERT_EQ(data["parameters"].size(), 1u);
  EXPECT_EQ(data["parameters"][0]["path"], "hbm.pin_mbps");
  EXPECT_EQ(data["parameters"][0]["values"], Json({"1800", "2000"}));
  EXPECT_TRUE(data["runs"][0]["timeline"].is_null());
}

}  // namespace
}  // namespace tpu::report::monitoring_text_test
