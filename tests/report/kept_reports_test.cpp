// What reports say of records that stay the same (tests/traces/random_record.h), beside files that
// say what they said: two pages as the reader sees them, of many others a code of each part, so
// that no line and no figure changes unseen. Where a change is meant:
//
//     TPUSIM_UPDATE_KEPT=1 build/report_tests --gtest_filter='KeptReports.*'

// What is random here depends on the order in which g++ evaluates operands; clang has another one.
#ifndef __clang__

#include <gtest/gtest.h>

#include <fstream>

#include "sim/report/all_reduce_report.h"
#include "sim/report/comparison_table.h"
#include "sim/report/critical_path_report.h"
#include "sim/report/energy.h"
#include "sim/report/estimate_comparison.h"
#include "sim/report/html_report.h"
#include "sim/report/json_report.h"
#include "sim/report/monitoring_text.h"
#include "sim/report/op_groups.h"
#include "sim/report/part_accounts.h"
#include "sim/report/run_diff.h"
#include "sim/report/scaling_report.h"
#include "sim/report/text_report.h"
#include "sim/report/training_report.h"
#include "sim/report/what_if_report.h"
#include "tests/kept_code.h"
#include "tests/kept_lines.h"
#include "tests/traces/random_record.h"

namespace tpu::report::kept_reports_test {
namespace {

using test::Code;
using traces::RunRecord;

SimulatorCost some_cost(std::uint32_t seed) {
  SimulatorCost cost;
  cost.cpu_s = 1 + seed % 7;
  cost.wall_s = 2 + seed % 5;
  cost.compile_cpu_s = 0.25 * (seed % 3);
  cost.run_cpu_s = 0.5 * (seed % 4);
  cost.peak_rss_bytes = std::uint64_t{seed} << 12;
  return cost;
}

/// Codes of texts; where one is another, what is said now is printed.
class Lines {
 public:
  explicit Lines(const std::string& name) : kept_("report/kept/" + name) {}
  void expect(const std::string& key, const std::string& text) {
    kept_.expect(key, (Code() << std::string_view(text)).text(), "; now:\n" + text.substr(0, 4000));
  }
  void expect(const std::string& key, const Json& json) { expect(key, json.dump(1)); }

 private:
  test::KeptLines kept_;
};

TEST(KeptReports, OfRuns) {
  Lines lines("runs.txt");
  for (std::uint32_t seed = 3001; seed <= 3030; ++seed) {
    const RunRecord record = test::RandomRecord(seed).make();
    const Summary summary = summarize(record);
    const SimulatorCost cost = some_cost(seed);
    const std::string key = std::to_string(seed) + " ";
    TextStyle style;
    style.unicode = seed % 2 == 0;
    style.color = seed % 5 == 0;
    style.width = 60 + static_cast<int>(seed * 37 % 120);
    lines.expect(key + "text", text_report(record, summary, cost, style));
    const Json json = to_json(record, summary, cost, {{"out", 0.25, 0.5, false, 0.125, "why"}});
    for (const auto& [name, part] : json.items()) {
      // As many bytes as this process takes, and what is the simulator's own.
      lines.expect(key + "json " + name, part);
    }
    lines.expect(key + "page", html_data({record}, {summary}));
    lines.expect(key + "causes", causes_text(record, summary, style));
    lines.expect(key + "what if", what_if_text(record, summary));
    std::string advices;
    for (const std::string& line : advice(record, summary)) advices += line + "\n";
    lines.expect(key + "advice", advices);
    for (const int level : {0, 1, 2, 3}) {
      lines.expect(key + "profile " + std::to_string(level), profile_text(record, summary, level));
    }
    lines.expect(key + "metrics", metrics_text(record));
    lines.expect(key + "all-reduces", all_reduces_text(record, summary));
    lines.expect(key + "categories", categories_text(record, summary));
    lines.expect(key + "parts", parts_text(record.result.parts));
    lines.expect(key + "training", training_text(record, style));
    lines.expect(key + "GPUs", gpu_bounds_text(gpu_bounds(record, summary)));
    std::string estimates;
    const EstimateComparison estimated = compare_with_estimates(record, summary);
    for (const EstimatedOp& op : estimated.ops) {
      estimates += reason_text(op, summary.ops[op.op]) + "\n";
    }
    for (const EstimateGroup& group : estimated.groups) estimates += reason_text(group) + "\n";
    lines.expect(key + "estimates", estimates);
  }
}

TEST(KeptReports, OfSeveralRuns) {
  Lines lines("several.txt");
  for (std::uint32_t seed = 3101; seed <= 3115; ++seed) {
    std::vector<RunRecord> records;
    std::vector<Summary> summaries;
    std::vector<SimulatorCost> costs;
    for (std::uint32_t i = 0; i < 2 + seed % 2; ++i) {
      // Of one program each, in two thirds.
      records.push_back(test::RandomRecord(seed + (seed % 3 == 0 ? 1000 * i : 0)).make());
      if (i > 0) {
        for (isa::OpInfo& op : records[i].ops) op.estimated_cycles += 100;
        for (CriticalPath::Op& op : records[i].result.critical_path.ops) {
          for (double& cycles : op.cycles) cycles *= 1.25;
        }
        records[i].params.hbm.pin_mbps += 200;
      }
      summaries.push_back(summarize(records[i]));
      costs.push_back(some_cost(seed + i));
    }
    const std::string key = std::to_string(seed) + " ";
    TextStyle style;
    style.unicode = seed % 2 == 0;
    style.width = 70 + static_cast<int>(seed * 37 % 90);
    lines.expect(key + "comparison", comparison_report(records, summaries, costs, style));
    lines.expect(key + "comparison json", comparison_json(records, summaries, costs));
    lines.expect(key + "table", markdown_text(comparison_table(records, summaries)));
    lines.expect(key + "page", html_data(records, summaries));
    lines.expect(key + "diff", diff_text(records[0], records[1], {"one", "two"}, style));
    lines.expect(key + "diff json", diff_json(records[0], records[1], {"one", "two"}));
    std::vector<ScalingPoint> points;
    for (std::size_t i = 0; i < records.size(); ++i) {
      ScalingPoint point;
      point.config = "v3-" + std::to_string(8 << i);
      point.cores = std::size_t{8} << i;
      point.weak = scaling_run(records[i], summaries[i]);
      if (seed % 2 == 0) point.strong = point.weak;
      if (seed % 2 != 0) point.why_not_strong = "no batch of it";
      points.push_back(point);
    }
    lines.expect(key + "scaling", scaling_report("workload", points, style));
    lines.expect(key + "scaling json", scaling_json("workload", points));
  }
}

/// Whole pages, as the reader sees them.
TEST(KeptReports, PagesAsTheyAre) {
  const auto expect = [](const std::string& name, const std::string& now) {
    const std::string path = TPUSIM_SOURCE_DIR "/tests/report/kept/" + name;
    if (test::KeptLines::updating()) {
      std::ofstream(path) << now;
      return;
    }
    std::ifstream in(path);
    const std::string before{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(now, before) << name << "\nmeant so? TPUSIM_UPDATE_KEPT=1 writes it anew";
  };
  TextStyle style;
  style.width = 110;
  const RunRecord made_up = test::synthetic_record_with_events();
  expect("made_up_page.txt", text_report(made_up, summarize(made_up), some_cost(1), style));
  const RunRecord random = test::RandomRecord(3003).make();
  expect("random_page.txt", text_report(random, summarize(random), some_cost(2), style));
}

}  // namespace
}  // namespace tpu::report::kept_reports_test

#endif
