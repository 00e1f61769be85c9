#include <gtest/gtest.h>

#include "sim/report/comparison.h"
#include "sim/report/json_report.h"
#include "sim/report/text_report.h"
#include "tests/traces/synthetic_record.h"

namespace tpu::report::report_test {
namespace {

/// The text with runs of blanks as one.
std::string squeezed(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter != ' ' || result.empty() || result.back() != ' ') result += letter;
  }
  return result;
}

std::string text_of(const traces::RunRecord& record) {
  return text_report(record, summarize(record), {}, {false, 110});
}

Json json_of(const traces::RunRecord& record, const SimulatorCost& cost = {}) {
  return to_json(record, summarize(record), cost);
}

TEST(JsonReport, TheDocumentedKeysAreThere) {
  const Json json = json_of(test::synthetic_record());
  for (const char* key :
       {"config", "workload", "parameters", "steps", "step_time_ms", "examples_per_s",
        "utilization", "idle_fraction", "breakdown", "roofline", "ops", "memory", "simulator"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["steps"][0]["cycles"], 1100);
  EXPECT_TRUE(json["steps"][0].contains("time_ms"));
  for (const char* key : {"mean", "min", "max"}) EXPECT_TRUE(json["step_time_ms"].contains(key));
  for (const char* key : {"mxu", "mxu_flops", "vpu", "hbm", "ici"}) {
    EXPECT_TRUE(json["utilization"].contains(key));
  }
  for (const char* key :
       {"compute", "memory_wait", "infeed_wait", "outfeed_wait", "ici_wait", "host_wait"}) {
    EXPECT_TRUE(json["breakdown"].contains(key));
  }
  for (const char* key :
       {"name", "category", "count", "cycles", "flops", "hbm_bytes", "bound_by"}) {
    EXPECT_TRUE(json["ops"][0].contains(key)) << key;
  }
  for (const char* key :
       {"cpu_s", "wall_s", "core_cycles", "core_cycles_per_cpu_s", "peak_rss_bytes", "version"}) {
    EXPECT_TRUE(json["simulator"].contains(key)) << key;
  }
  EXPECT_EQ(json["memory"]["hbm_plan_bytes"], std::uint64_t{3} << 30);
  EXPECT_EQ(json["memory"]["hbm_peak_bytes"], 8192 + 102400);
  EXPECT_EQ(json["parameters"]["core"]["mxu"]["count"], 2);
  EXPECT_EQ(json["loss"], Json({2.5, 1.25}));
}

TEST(TextReport, TheCoreThatOthersWaitForIsNamed) {
  traces::RunRecord record = test::synthetic_record();
  const std::string sentence = "Cores wait for others that are late";
  EXPECT_EQ(text_of(record).find(sentence), std::string::npos);
  record.result.cores[0].waited_for = {{1, 880}};
  record.result.cores[1].waited_for = {{0, 220}};
  // Of twice 2,200 cycles.
  EXPECT_NE(text_of(record).find(sentence + " 25.0 % of the time, most for core 1 (20.0 %)."),
            std::string::npos);
}

TEST(JsonReport, TheBreakdownAddsUpToOne) {
  double sum = 0;
  const Json json = json_of(test::synthetic_record());
  for (const auto& part : json["breakdown"]) sum += part.get<double>();
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(JsonReport, OnlyTheSimulatorDiffersBetweenRuns) {
  SimulatorCost slow;
  slow.cpu_s = 5;
  slow.wall_s = 6;
  slow.peak_rss_bytes = 7;
  Json a = json_of(test::synthetic_record()), b = json_of(test::synthetic_record(), slow);
  EXPECT_NE(a.dump(), b.dump());
  a.erase("simulator");
  b.erase("simulator");
  EXPECT_EQ(a.dump(), b.dump());
}

TEST(JsonReport, CountsOfOneCoreAreWholeNumbers) {
  const Json json = json_of(test::synthetic_record());
  EXPECT_TRUE(json["ops"][0]["count"].is_number_integer());
  EXPECT_TRUE(json["ops"][0]["cycles"].is_number_integer());
}

TEST(Comparison, OnlyParametersThatDifferAreListed) {
  traces::RunRecord a = test::synthetic_record(), b = a;
  EXPECT_TRUE(differing_parameters({a, b}).empty());
  b.params.name = "other";
  b.params.hbm.pin_mbps = 2000;
  b.params.core.mxu.count = 4;
  const auto differences = differing_parameters({a, b});
  ASSERT_EQ(differences.size(), 2u);
  EXPECT_EQ(differences[0].path, "core.mxu.count");
  EXPECT_EQ(differences[0].values, (std::vector<std::string>{"2", "4"}));
  EXPECT_EQ(differences[1].path, "hbm.pin_mbps");
}

TEST(Comparison, JsonHasRatiosToTheFirst) {
  traces::RunRecord a = test::synthetic_record(), b = a;
  b.params.clock_mhz = 470;
  const std::vector<Summary> summaries{summarize(a), summarize(b)};
  const Json json = comparison_json({a, b}, summaries, {{}, {}});
  EXPECT_EQ(json["results"][0]["name"], "step_time_ms");
  EXPECT_EQ(json["results"][0]["ratios"][0], 1);
  EXPECT_DOUBLE_EQ(json["results"][0]["ratios"][1].get<double>(), 2);
  EXPECT_EQ(json["parameters"]["clock_mhz"], Json({"940", "470"}));
  EXPECT_EQ(json["runs"].size(), 2u);
  EXPECT_FALSE(json["runs"][0].contains("simulator"));
}

TEST(TextReport, SaysWhatAReaderLooksFor) {
  const traces::RunRecord record = test::synthetic_record();
  const std::string text = squeezed(text_report(record, summarize(record), {}, {false, 110}));
  EXPECT_NE(text.find("; 2 steps; values on (by hand)"), std::string::npos) << text;
  for (const char* part :
       {"made-up, batch 256, 2 cores of v3-8", "TPU v3, 940 MHz, 2 MXUs of 128x128 a core",
        "Step time 1.170 us", "MXU utilization 43.6 %", "TPU idle time 18.2 %",
        "Padding of matrix work 2.00 x", "compute ######################## 59.1 %",
        "The 3 most expensive of 3 operations", "fusion.1 (convolution fusion)", "padding",
        "8.0x expansion due to padding", "step 1 1.250000",
        "host: send and receive are not modelled"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(TextReport, OperationsOfXlaHaveItsEstimateAndTheirPlaceInTheSource) {
  traces::RunRecord record = test::synthetic_record();
  const Summary summary = summarize(record);
  const std::string without = text_report(record, summary, {}, {false, 110});
  EXPECT_EQ(without.find("XLA's"), std::string::npos);
  isa::OpInfo& op = record.ops[summary.ops[0].op];
  // 940 cycles at 940 MHz: a microsecond per execution.
  op.estimated_cycles = 940;
  op.op_name = "jit(step)/dot_general";
  op.source = "train.py:12";
  const std::string text = squeezed(text_report(record, summary, {}, {false, 110}));
  const std::string executions = short_number(static_cast<double>(summary.ops[0].count));
  EXPECT_NE(text.find("us XLA's part"), std::string::npos) << text;
  EXPECT_NE(text.find(" " + executions + " "), std::string::npos) << executions << "\n" << text;
  EXPECT_NE(text.find("jit(step)/dot_general train.py:12"), std::string::npos) << text;
}

TEST(TextReport, AnInputBoundRunSaysSo) {
  traces::RunRecord record = test::synthetic_record();
  for (CoreResult& core : record.result.cores) {
    core.total.core.add(CoreState::kInfeedWait, 100000);
  }
  const std::string text = text_report(record, summarize(record), {}, {false, 110});
  EXPECT_NE(text.find("The host is the bottleneck"), std::string::npos);
}

TEST(TextReport, ComparisonShowsMachinesSideBySide) {
  traces::RunRecord a = test::synthetic_record(), b = a;
  b.config = "v2-8";
  b.params.clock_mhz = 470;
  const std::string text =
      comparison_report({a, b}, {summarize(a), summarize(b)}, {{}, {}}, {false, 110});
  for (const char* part : {"made-up, batch 256, 2 cores", "v2-8 / v3-8", "clock_mhz, MHz", "2.000",
                           "Parameters that differ"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(TextReport, BarsAreAsWideAsTheirFraction) {
  traces::RunRecord record = test::synthetic_record();
  const std::string text = text_report(record, summarize(record), {}, {true, 110});
  // 59.1 % of 40 columns in eighths: 23 full blocks and 5/8.
  std::string blocks;
  for (int i = 0; i < 23; ++i) blocks += "\u2588";
  EXPECT_NE(text.find("compute       " + blocks + "\u258b "), std::string::npos) << text;
}

TEST(Numbers, HaveThreeOrFourDigits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(0.001234), "0.00123");
  EXPECT_EQ(short_number(1.23456), "1.235");
  EXPECT_EQ(short_number(12.3456), "12.35");
  EXPECT_EQ(short_number(123.456), "123.5");
  EXPECT_EQ(short_number(1234.56), "1,235");
  EXPECT_EQ(short_number(-1234.56), "-1,235");
  EXPECT_EQ(short_bytes(1023), "1023 B");
  EXPECT_EQ(short_bytes(1536), "1.50 KiB");
}

}  // namespace
}  // namespace tpu::report::report_test
