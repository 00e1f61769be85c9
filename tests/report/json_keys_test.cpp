#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "sim/report/comparison.h"
#include "sim/report/json_report.h"
#include "sim/report/run_diff.h"
#include "sim/report/scaling_report.h"
#include "tests/traces/synthetic_record.h"

/// sim/report/README.md explains every key of the JSON reports.

namespace tpu::report::json_keys_test {
namespace {

/// Objects whose keys are names out of configurations and runs.
bool has_names(const std::string& key) {
  return key == "parameters" || key == "waited_for" || key == "others";
}

void collect(const Json& json, std::set<std::string>& keys) {
  if (json.is_array()) {
    for (const Json& each : json) collect(each, keys);
    return;
  }
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.items()) {
    keys.insert(key);
    if (!has_names(key)) collect(value, keys);
  }
}

traces::RunRecord full_record() {
  traces::RunRecord record = test::synthetic_record();
  record.what_if = {{"HBM free", "--set hbm.pin_mbps=1", 0.001, 1000, "", 0, 0.002},
                    {"batch", "--batch 9", 0, 0, "does not fit"}};
  record.ops[0].estimated_cycles = 500;
  record.params.input.images = 1000;
  // All eight cores of a v3-8, which has a price.
  for (std::uint32_t core = 2; core < 8; ++core) {
    record.core_numbers.push_back(core);
    record.result.cores.push_back(record.result.cores[core % 2]);
  }
  record.control = {{}, {}};
  record.control[1].branches = 2;
  record.result.paths = {{0, 1, 2, 3, {}, false, false}, {1, 1, 0, 0, {1, 0}, false, false}};
  record.result.cores[0].warmup = {{0, 70}};
  return record;
}

std::vector<ScalingPoint> scaling_points(const traces::RunRecord& record, const Summary& summary) {
  const ScalingRun run = scaling_run(record, summary);
  return {{"v3-8", 8, run, run, ""}, {"v3-32", 32, run, std::nullopt, "5 examples, 32 cores"}};
}

TEST(JsonKeys, TheReadmeHasEach) {
  std::ifstream in(TPUSIM_SOURCE_DIR "/sim/report/README.md");
  const std::string readme{std::istreambuf_iterator<char>(in), {}};
  const traces::RunRecord record = full_record();
  const Summary summary = summarize(record);
  std::set<std::string> keys;
  collect(to_json(record, summary, {}, {{"out_000", 0, 0, true, 1e-4, "why"}}), keys);
  collect(comparison_json({record, record}, {summary, summary}, {{}, {}}), keys);
  collect(diff_json(record, record, {"a", "b"}), keys);
  collect(scaling_json("made-up", scaling_points(record, summary)), keys);
  for (const std::string& key : keys) {
    const bool found = readme.find("`" + key + "`") != std::string::npos ||
                       readme.find("." + key + "`") != std::string::npos;
    EXPECT_TRUE(found) << "sim/report/README.md: expected `" << key << "`";
  }
  EXPECT_GT(keys.size(), 100u);
}

TEST(JsonKeys, EachReportSaysItsVersion) {
  const traces::RunRecord record = full_record();
  const Summary summary = summarize(record);
  EXPECT_EQ(to_json(record, summary, {})["schema_version"], kJsonSchemaVersion);
  EXPECT_EQ(comparison_json({record, record}, {summary, summary}, {{}, {}})["schema_version"],
            kJsonSchemaVersion);
  EXPECT_EQ(diff_json(record, record, {"a", "b"})["schema_version"], kJsonSchemaVersion);
  EXPECT_EQ(scaling_json("made-up", scaling_points(record, summary))["points"].size(),
            scaling_points(record, summary).size());
  EXPECT_EQ(scaling_json("made-up", scaling_points(record, summary))["schema_version"],
            kJsonSchemaVersion);
}

}  // namespace
}  // namespace tpu::report::json_keys_test
