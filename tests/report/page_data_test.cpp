#include <gtest/gtest.h>

#include <cmath>

#include "sim/report/html_report.h"
#include "sim/report/json_report.h"
#include "sim/report/run_diff.h"
#include "tests/traces/synthetic_record.h"

/// What the page draws: the same figures as the JSON report, in four digits.

namespace tpu::report::page_data_test {
namespace {

Json page_of(const traces::RunRecord& record) {
  return html_data({record}, {summarize(record)})["runs"][0];
}

Json report_of(const traces::RunRecord& record) { return to_json(record, summarize(record), {}); }

void expect_four_digits(const Json& drawn, const Json& figure, const std::string& what) {
  const double value = figure.get<double>();
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  EXPECT_NEAR(drawn.get<double>(), std::stod(text), 1e-12 * std::abs(value)) << what;
}

double sum_of(const Json& samples) {
  double sum = 0;
  for (const Json& sample : samples) sum += sample.get<double>();
  return sum;
}

TEST(PageData, OperationsAreThoseOfTheReport) {
  traces::RunRecord record = test::synthetic_record();
  record.ops[0].flops = 123456;
  const Json drawn = page_of(record)["ops"], report = report_of(record)["ops"];
  ASSERT_EQ(drawn.size(), report.size());
  const std::pair<const char*, const char*> figures[] = {{"count", "count"},
                                                         {"ms", "time_ms"},
                                                         {"share", "fraction"},
                                                         {"flops", "flops"},
                                                         {"bytes", "hbm_bytes"}};
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    for (const auto& [mine, its] : figures)
      expect_four_digits(drawn[i][mine], report[i][its], mine);
    EXPECT_EQ(drawn[i]["name"], report[i]["name"]);
    EXPECT_EQ(drawn[i]["category"], report[i]["category"]);
    EXPECT_EQ(drawn[i]["scope"], report[i]["op_name"]);
    EXPECT_EQ(drawn[i]["bound"], report[i]["bound_by"]);
  }
  // No two are alike: each has a number, scope and bound of its own.
  const Json alike = page_of(record)["alike"];
  ASSERT_EQ(alike.size(), drawn.size());
  for (const Json& op : drawn) {
    EXPECT_EQ(alike[op["alike"].get<std::size_t>()], Json({op["scope"], op["bound"]}));
  }
  // 123,456 in each of two executions, of which four digits stay.
  EXPECT_EQ(drawn[0]["flops"], 246900);
}

/// Core 0 pushes 120 times 8 cycles to two MXUs in 600 of 1,000 cycles, twice, and waits in the
/// last hundred of each thousand; the run takes 2,200.
TEST(PageData, SamplesOfTheTimelineAreSharesOfTheTime) {
  traces::RunRecord record = test::synthetic_record_with_events();
  const Json line = page_of(record)["timeline"];
  ASSERT_EQ(line["mxu"].size(), 300u);
  const double width = 2200.0 / 300;
  EXPECT_NEAR(sum_of(line["mxu"]) * width, 2 * 120 * 8 / 2.0, 0.5);
  EXPECT_NEAR(sum_of(line["waits"]) * width, 200, 0.1);
  EXPECT_EQ(line["mxu"][80], 0.8);
  EXPECT_EQ(line["mxu"][81], 0.6545);  // From cycle 594, of which six count, to 601.3.
  EXPECT_EQ(line["mxu"][82], 0);
  EXPECT_EQ(line["waits"][121], 0);
  EXPECT_EQ(line["waits"][122], 0.2727);  // From 894.7 to 902: two count.
  EXPECT_EQ(line["waits"][130], 1);
  EXPECT_EQ(line["waits"][140], 0);
  expect_four_digits(line["ms"], 2200 / 940e3, "ms");
  // A step that begins at 470 has the rest of the first 600 cycles, and every sample in it.
  for (CoreResult& core : record.result.cores) core.steps[0].begin = 470;
  const Json later = page_of(record)["timeline"];
  expect_four_digits(later["ms"], 1730 / 940e3, "ms");
  ASSERT_EQ(later["mxu"].size(), 300u);
  EXPECT_NEAR(sum_of(later["mxu"]) * (1730.0 / 300), (1 + 130 / 600.0) * 120 * 8 / 2.0, 0.5);
  EXPECT_NEAR(sum_of(later["waits"]) * (1730.0 / 300), 200, 0.1);
  EXPECT_EQ(later["mxu"][0], 0.8);
  for (CoreResult& core : record.result.cores) core.steps[0].begin = 0;
  // A run of few cycles has a sample for each; one without events has none.
  record.result.cycles = 20;
  EXPECT_EQ(page_of(record)["timeline"]["mxu"].size(), 20u);
  record.has_events = false;
  EXPECT_TRUE(page_of(record)["timeline"].is_null());
}

TEST(PageData, BytesOfTheHbmAreSharesOfItsRate) {
  const traces::RunRecord record = test::synthetic_record_with_events();
  const double bytes = sum_of(page_of(record)["timeline"]["hbm"]) * (2200.0 / 300) *
                       record.params.core_hbm_bytes_per_s() / 940e6;
  double moved = 0;
  for (const DmaEvent& dma : record.events.dmas) {
    const bool on_pins =
        dma.source == isa::MemorySpace::kHbm || dma.destination == isa::MemorySpace::kHbm;
    if (on_pins) moved += static_cast<double>(dma.bytes);
  }
  EXPECT_NEAR(bytes, moved, 0.002 * moved);
}

/// 650 operations are 325 places of two; the page shows the one with more bytes of each.
TEST(PageData, MemoryIsDrawnFromItsLargestPlaces) {
  traces::RunRecord record = test::synthetic_record();
  const Json three = page_of(record)["memory"];
  EXPECT_EQ(three["in_use"].size(), 3u);
  for (std::size_t op = 0; op < 3; ++op) EXPECT_EQ(three["in_use"][op][0], record.ops[op].name);
  EXPECT_EQ(three["peak"], 8192 + 102400);
  EXPECT_EQ(three["plan"], std::uint64_t{3} << 30);
  EXPECT_EQ(three["capacity"], record.params.core_hbm_bytes());
  ASSERT_EQ(three["buffers"].size(), 3u);
  EXPECT_EQ(three["buffers"][0]["name"], "t");
  EXPECT_EQ(three["buffers"][0]["bytes"], 102400);
  EXPECT_EQ(three["buffers"][1]["name"], "w");
  EXPECT_EQ(three["buffers"][1]["unpadded"], 1024);
  EXPECT_EQ(three["buffers"][1]["role"], "parameters");
  while (record.ops.size() < 650) record.ops.push_back(record.ops[1]);
  while (record.buffers.size() < 20) record.buffers.push_back(record.buffers[0]);
  record.lifetimes.resize(20);
  const Json many = page_of(record)["memory"];
  EXPECT_EQ(many["in_use"].size(), 325u);
  EXPECT_EQ(many["buffers"].size(), 12u);
}

TEST(PageData, ARunHasItsFiguresPartsAndEnergy) {
  traces::RunRecord record = test::synthetic_record();
  const Json page = page_of(record), report = report_of(record);
  EXPECT_EQ(page["batch"], 256);
  EXPECT_EQ(page["cores"], 2);
  EXPECT_EQ(page["step_ms"], report["step_time_ms"]["mean"]);
  EXPECT_EQ(page["peak_flops"], record.params.core_peak_flops());
  EXPECT_EQ(page["parts"], report["parts"]);
  EXPECT_EQ(page["links"], Json::array());
  for (const Json& cause : report["causes"]) {
    EXPECT_EQ(page["causes"][cause["cause"].get<std::string>()], cause["share"]);
  }
  double joules = 0;
  for (const Json& part : page["energy"]["parts"]) {
    expect_four_digits(part[1], report["energy"]["joules"][part[0].get<std::string>()], "joules");
    joules += part[1].get<double>();
  }
  EXPECT_NEAR(joules, page["energy"]["total"].get<double>(), 2e-3 * joules);
  EXPECT_EQ(page["energy"]["total"], report["energy"]["step_joules"]);
  EXPECT_EQ(page["energy"]["low"], report["energy"]["step_joules_interval"][0]);
  EXPECT_EQ(page["energy"]["high"], report["energy"]["step_joules_interval"][1]);
  record.params.chip = "v4";
  EXPECT_TRUE(page_of(record)["energy"].is_null());
}

/// What is drawn of the difference and what is left out add up to it.
TEST(PageData, TheDifferenceOfRunsHasItsLargestRowsAndTheRest) {
  traces::RunRecord first = test::synthetic_record(), second = first;
  for (std::size_t i = 0; i < 40; ++i) {  // Ops that the second alone has, each with its time.
    second.ops.push_back(second.ops[0]);
    second.ops.back().op_name = "more" + std::to_string(i);
    second.result.critical_path.ops.emplace_back();
    second.result.critical_path.ops.back().cycles[0] = 0.1 * static_cast<double>(i + 1);
  }
  const Json data = html_data({first, second}, {summarize(first), summarize(second)});
  ASSERT_EQ(data["diffs"].size(), 1u);
  const Json& diff = data["diffs"][0];
  const Json whole = diff_json(first, second, {"a", "b"});
  EXPECT_EQ(diff["us"], whole["us"]);
  ASSERT_EQ(diff["ops"].size(), 25u);
  EXPECT_EQ(diff["others"], whole["ops"].size() - 25);
  for (std::size_t run = 0; run < 2; ++run) {
    double listed = 0;
    for (std::size_t i = 0; i < 25; ++i) {
      expect_four_digits(diff["ops"][i][1 + run], whole["ops"][i]["us"][run], "us");
      listed += whole["ops"][i]["us"][run].get<double>();
    }
    EXPECT_NEAR(diff["rest"][run].get<double>(), whole["us"][run].get<double>() - listed, 1e-9);
    double causes = 0;
    for (const Json& cause : diff["causes"]) causes += cause[1 + run].get<double>();
    EXPECT_NEAR(causes, whole["us"][run].get<double>(), 2e-3 * causes);
  }
  EXPECT_EQ(diff["ops"][1][0], "more39 (second alone)");
  EXPECT_TRUE(html_data({first}, {summarize(first)})["diffs"].empty());
}

/// A message from chip 0 to its neighbour: one link carried it all.
TEST(PageData, LinksThatCarriedBytesAreDrawnWithTheirShare) {
  traces::RunRecord record = test::synthetic_record_with_events();
  DmaEvent dma;
  dma.source_chip = 0;
  dma.destination_chip = 1;
  dma.begin = 0;
  dma.end = 100;
  dma.bytes = 4096;
  record.events.dmas.push_back(dma);
  const Json links = page_of(record)["links"];
  EXPECT_GT(links.size(), 1u);
  double bytes = 0;
  for (const Json& link : links) {
    bytes += link[4].get<double>();
    if (link[4] == 0) continue;
    EXPECT_EQ(link[0], 0);
    EXPECT_EQ(link[1], 1);
    EXPECT_EQ(link[2], "+x");
    // 656 Gb/s for the 2,200 cycles of the run.
    expect_four_digits(link[3], 4096 / (82e9 / 940e6 * 2200), "share");
  }
  EXPECT_EQ(bytes, 4096);
}

}  // namespace
}  // namespace tpu::report::page_data_test
