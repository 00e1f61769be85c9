#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <sstream>

#include "sim/report/comparison.h"
#include "sim/report/comparison_table.h"
#include "sim/report/energy.h"
#include "sim/report/estimate_comparison.h"
#include "sim/report/json_report.h"
#include "sim/report/monitoring_text.h"
#include "sim/report/run_diff.h"
#include "sim/report/text_report.h"
#include "tests/traces/synthetic_record.h"

/// Every figure of a comparison, of a difference and of estimates, worked out once more.

namespace tpu::report::every_comparison_test {
namespace {

const TextStyle kStyle{false, 120};

traces::RunRecord whole_slice() {
  traces::RunRecord record = test::synthetic_record();
  while (record.result.cores.size() < record.params.cores()) {
    record.core_numbers.push_back(static_cast<std::uint32_t>(record.core_numbers.size()));
    record.result.cores.push_back(record.result.cores[record.result.cores.size() % 2]);
  }
  record.params.input.images = 5000;
  return record;
}

std::map<std::string, double> rows_of(const traces::RunRecord& record, const Summary& summary) {
  std::map<std::string, double> values;
  for (const ResultRow& row : result_rows({record}, {summary})) values[row.name] = row.values[0];
  return values;
}

TEST(EveryComparison, EachRowIsAFigureOfTheRun) {
  const traces::RunRecord record = whole_slice();
  Summary s = summarize(record);
  s.steps = {{1100, 0}, {1300, 0}, {1500, 0}};
  s.breakdown = {0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 0, 0};
  s.utilization = {0.11, 0.13, 0.17, 0.19, 0.23};
  s.idle_fraction = 0.29;
  s.examples_per_s = 400;
  const Energy energy = energy_of(record);
  const std::map<std::string, double> expected{{"step_time_ms", s.step_mean_ms},
                                               {"step_cycles", 1300},
                                               {"examples_per_s", 400},
                                               {"mxu", 11},
                                               {"mxu_flops", 13},
                                               {"vpu", 17},
                                               {"hbm", 19},
                                               {"ici", 23},
                                               {"idle", 29},
                                               {"compute", 1},
                                               {"memory_wait", 2},
                                               {"infeed_wait", 4},
                                               {"ici_wait", 16},
                                               {"peer_wait", 96},
                                               {"roofline_ms", s.roofline.bound_ms},
                                               {"joules", energy.total()},
                                               {"watts_per_chip", energy.watts_per_chip},
                                               {"examples_per_joule", energy.examples_per_joule},
                                               {"dollars_per_hour", 8},
                                               {"dollars_per_epoch", 8 * 5000 / 400.0 / 3600},
                                               {"examples_per_dollar", 400 * 3600 / 8.0},
                                               {"hbm_peak_gib", (8192 + 102400) / 1073741824.0}};
  const std::map<std::string, double> rows = rows_of(record, s);
  EXPECT_EQ(rows.size(), expected.size());
  for (const auto& [name, value] : expected)
    EXPECT_NEAR(rows.at(name), value, 1e-9 * value) << name;
}

TEST(EveryComparison, WhatHasNoDatasetNoStepsOrNoRateHasNoEpoch) {
  traces::RunRecord record = whole_slice();
  Summary summary = summarize(record);
  EXPECT_TRUE(to_json(record, summary, {})["cost"].contains("epoch"));
  summary.examples_per_s = 0;
  EXPECT_TRUE(std::isnan(rows_of(record, summary).at("dollars_per_epoch")));
  EXPECT_FALSE(to_json(record, summary, {})["cost"].contains("epoch"));
  summary.examples_per_s = 0.5;
  EXPECT_NEAR(rows_of(record, summary).at("dollars_per_epoch"), 8 * 5000 / 0.5 / 3600, 1e-9);
  record.params.input.images = 1;
  EXPECT_NEAR(rows_of(record, summary).at("dollars_per_epoch"), 8 / 0.5 / 3600, 1e-9);
  record.params.input.images = 0;
  EXPECT_TRUE(std::isnan(rows_of(record, summary).at("dollars_per_epoch")));
  EXPECT_FALSE(to_json(record, summary, {})["cost"].contains("epoch"));
  summary.steps.clear();
  EXPECT_EQ(rows_of(record, summary).at("step_cycles"), 0);
}

TEST(EveryComparison, BoundsOfGpusAreOfTheFirstRun) {
  const traces::RunRecord first = test::synthetic_record();
  traces::RunRecord second = first;
  second.compulsory_hbm_bytes *= 1000;
  second.model_flops *= 3;
  const std::vector<Summary> summaries{summarize(first), summarize(second)};
  const std::vector<GpuBound> bounds = gpu_bounds(first, summaries[0]);
  const Json json = comparison_json({first, second}, summaries, {{}, {}});
  ASSERT_EQ(json["gpus"].size(), bounds.size());
  const traces::Table table = comparison_table({first, second}, summaries);
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const Json& row = json["gpus"][i];
    EXPECT_EQ(row["name"], bounds[i].name);
    EXPECT_EQ(row["step_ms"], bounds[i].step_ms);
    EXPECT_EQ(row["examples_per_s"], bounds[i].examples_per_s);
    EXPECT_EQ(row["watts"], bounds[i].watts);
    const auto& cells = table.column<std::string>(bounds[i].name + " (bound)");
    const auto& names = table.column<std::string>("figure");
    for (std::size_t cell = 0; cell < cells.size(); ++cell) {
      if (names[cell] == "step_time_ms" || names[cell] == "roofline_ms") {
        EXPECT_DOUBLE_EQ(std::stod(cells[cell]), bounds[i].step_ms);
      } else if (names[cell] == "examples_per_s") {
        EXPECT_DOUBLE_EQ(std::stod(cells[cell]), bounds[i].examples_per_s);
      } else if (names[cell] != "watts_per_chip") {
        EXPECT_EQ(cells[cell], "") << names[cell];
      }
    }
  }
  const std::string text = gpu_bounds_text({{"A100", 0.25, 1000, 400, "FLOPs"}});
  EXPECT_EQ(text,
            "Bounds of GPUs: peaks of their data sheets, nothing is simulated\n"
            "         step at least   examples/s at most   bound by   board, W\n"
            "  A100        0.250 ms                1,000      FLOPs        400\n\n");
  EXPECT_EQ(gpu_bounds_text({}), "");
}

TEST(EveryComparison, MarkdownHasALineForEachRow) {
  traces::Table table;
  using Texts = std::vector<std::string>;
  table.add("a", Texts{"1", "x|y|z"}).add("b|c", Texts{"2", "|"}).add("d", Texts{"3", "4"});
  EXPECT_EQ(markdown_text(table),
            "| a | b\\|c | d |\n|---|---|--:|\n| 1 | 2 | 3 |\n| x\\|y\\|z | \\| | 4 |\n");
}

TEST(EveryComparison, MarkdownHasSixDigits) {
  traces::Table table;
  using Texts = std::vector<std::string>;
  table.add("n", Texts{"0.18628714285714285", "687111.2951587795", "130401", "12345678",
                       "99999.95111", "460.8", "1.25 of 3.0000001", "0.000012345678901"});
  EXPECT_EQ(markdown_text(table),
            "| n |\n|---|\n| 0.186287 |\n| 687111 |\n| 130401 |\n| 12345678 |\n| 100000 |\n"
            "| 460.8 |\n| 1.25 of 3.0000001 |\n| 1.23457e-05 |\n");
}

/// 24 operations, each 2 cycles longer than the one before in the second run; one is in one alone.
TEST(EveryComparison, ADifferenceShowsTwentyAndAddsUpTheOthers) {
  traces::RunRecord first = test::synthetic_record();
  CriticalPath& path = first.result.critical_path;
  path = {};
  first.ops.clear();
  constexpr auto kMxu = static_cast<std::size_t>(Resource::kMxu);
  for (std::size_t op = 0; op < 24; ++op) {
    isa::OpInfo info;
    info.name = "op" + std::to_string(op);
    first.ops.push_back(info);
    path.ops.emplace_back();
    path.ops[op].cycles[kMxu] = 94;
    path.cycles += 94;
  }
  path.path[kMxu] = path.cycles;
  traces::RunRecord second = first;
  for (std::size_t op = 0; op < 24; ++op) {
    second.result.critical_path.ops[op].cycles[kMxu] += 188 * static_cast<double>(op + 1);
  }
  second.ops[0].name = "other";
  const std::string text = diff_text(first, second, {"a", "b"}, kStyle);
  // 23 in both, one in each alone, and the time outside of operations.
  const RunDifference difference = difference_of(first, second);
  ASSERT_EQ(difference.ops.size(), 26u);
  double others[2] = {0, 0};
  std::size_t shown = 0;
  for (std::size_t i = 0; i < difference.ops.size(); ++i) {
    const OpDifference& row = difference.ops[i];
    if (i > 0) {
      EXPECT_LE(std::abs(row.change()), std::abs(difference.ops[i - 1].change()) + 1e-12);
    }
    const bool is_shown = text.find("          " + row.name + "\n") != std::string::npos ||
                          text.find("          " + row.name + "  ") != std::string::npos;
    shown += is_shown ? 1 : 0;
    EXPECT_EQ(is_shown, i < 20) << row.name << "\n" << text;
    if (is_shown) continue;
    others[0] += total(row.first);
    others[1] += total(row.second);
  }
  EXPECT_EQ(shown, 20u);
  const std::string signed_change =
      (others[1] < others[0] ? "-" : "+") + short_number(std::abs(others[1] - others[0]));
  EXPECT_NE(text.find(right(short_number(others[0]), 10) + right(short_number(others[1]), 10) +
                      right(signed_change, 10) + "  the others\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("The 20 largest differences of 26 operations"), std::string::npos);
}

/// A cause that one run has alone is a row; what changed less than a twentieth of the most is not
/// named, nor the fourth.
TEST(EveryComparison, CausesOfADifferenceAreTheThreeThatChangedMost) {
  traces::RunRecord first = test::synthetic_record(), second = first;
  CriticalPath& path = second.result.critical_path;
  const auto add = [&](Resource resource, std::int64_t cycles) {
    const auto r = static_cast<std::size_t>(resource);
    path.ops[0].cycles[r] += static_cast<double>(cycles);
    path.path[r] += static_cast<std::uint64_t>(cycles);
    path.cycles += static_cast<std::uint64_t>(cycles);
    for (std::size_t set = 0; set < CriticalPath::kSets; ++set) {
      if ((set >> r & 1) == 0) path.without[set] += static_cast<std::uint64_t>(cycles);
    }
  };
  add(Resource::kMxu, 1880);
  add(Resource::kIci, 940);
  add(Resource::kVector, 470);
  add(Resource::kHbm, 188);
  const auto at = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string text = diff_text(first, second, {"a", "b"}, kStyle);
  EXPECT_TRUE(at(text, "  MXU +1, ICI +0.500, VPU +0.250\n")) << text;
  const std::string back = diff_text(second, first, {"b", "a"}, kStyle);
  EXPECT_TRUE(at(back, "  MXU -1, ICI -0.500, VPU -0.250\n")) << back;
  EXPECT_TRUE(at(text, "  ICI\n") && at(back, "  ICI\n")) << text;
  const Json json = diff_json(first, second, {"a", "b"});
  EXPECT_FALSE(json["causes"][0].contains("ICI"));
  EXPECT_TRUE(json["causes"][1].contains("ICI"));
  EXPECT_NEAR(json["change_us"].get<double>(),
              json["us"][1].get<double>() - json["us"][0].get<double>(), 1e-9);
  for (const Json& op : json["ops"]) {
    double us[2] = {0, 0};
    for (std::size_t run = 0; run < 2; ++run) {
      for (const Json& cause : op["causes"][run]) us[run] += cause.get<double>();
      EXPECT_NEAR(op["us"][run].get<double>(), us[run], 1e-12);
    }
    EXPECT_NEAR(op["change_us"].get<double>(), us[1] - us[0], 1e-12);
    EXPECT_EQ(op["in"].dump(), "[true,true]");
  }
}

/// A twentieth of what changed most, whatever stands between; where nothing changed no cause is.
TEST(EveryComparison, ASmallCauseIsMeasuredByTheLargest) {
  const auto causes = [](double mxu, double ici, double vector) {
    traces::RunRecord first = test::synthetic_record(), second = first;
    CriticalPath::Op& op = second.result.critical_path.ops[0];
    op.cycles[static_cast<std::size_t>(Resource::kMxu)] += mxu;
    op.cycles[static_cast<std::size_t>(Resource::kIci)] += ici;
    op.cycles[static_cast<std::size_t>(Resource::kVector)] += vector;
    const std::string text = diff_text(first, second, {"a", "b"}, kStyle);
    const std::size_t name = text.find("jit(step)/dot_general");
    const std::size_t line = text.rfind('\n', text.rfind('\n', name) - 1) + 1;
    const std::string row = text.substr(line, text.find('\n', line) - line);
    return row.size() > 32 ? row.substr(32) : std::string();
  };
  EXPECT_EQ(causes(18800, 9400, 930), "MXU +10, ICI +5");
  EXPECT_EQ(causes(18800, 9400, 950), "MXU +10, ICI +5, VPU +0.505");
  EXPECT_EQ(causes(0, 0, 0), "");
}

TEST(EveryComparison, OperationsOfOneRunSaySo) {
  const traces::RunRecord first = test::synthetic_record();
  traces::RunRecord second = first;
  second.ops[1].name = "other";
  const std::string text = diff_text(first, second, {"a.h5", "b.h5"}, kStyle);
  const std::string below = "\n" + std::string(10, ' ');
  EXPECT_NE(text.find("-0.319  HBM -0.266, VPU -0.0532" + below + "copy.2  A alone\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("+0.319  HBM +0.266, VPU +0.0532" + below + "other  B alone\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("A: a.h5: made-up on v3-8, compiled by by hand\nB: b.h5: "), 0u) << text;
}

/// Groups are the operations with the same reason on the same side.
TEST(EveryComparison, GroupsOfEstimatesAddUpTheirOperations) {
  traces::RunRecord record = test::synthetic_record();
  for (std::size_t copy = 0; copy < 12; ++copy) {
    record.ops.push_back(record.ops[copy % 3]);
    for (CoreResult& core : record.result.cores) {
      core.ops.resize(record.ops.size());
      core.ops[copy + 3] = core.ops[copy % 3];
    }
  }
  for (std::size_t op = 0; op < record.ops.size(); ++op) {
    record.ops[op].estimated_cycles = 50 + 97 * (op * 7 % 13);
  }
  const Summary summary = summarize(record);
  const EstimateComparison all = compare_with_estimates(record, summary);
  std::map<std::pair<EstimateReason, bool>, EstimateGroup> groups;
  for (const EstimatedOp& op : all.ops) {
    const bool longer = op.cycles > op.estimated_cycles;
    EstimateGroup& group = groups[{op.reason, longer}];
    group.count += 1;
    group.differing += op.differs() ? 1 : 0;
    group.cycles += op.cycles;
    group.estimated_cycles += op.estimated_cycles;
    group.pin_cycles += op.pin_cycles;
    group.schedule_cycles += op.schedule_cycles;
    group.wait_cycles += op.wait_cycles;
  }
  EXPECT_GE(groups.size(), 4u);
  EXPECT_EQ(groups.size(), all.groups.size());
  for (const EstimateGroup& group : all.groups) {
    const EstimateGroup& mine = groups.at({group.reason, group.is_longer});
    EXPECT_EQ(group.count, mine.count);
    EXPECT_EQ(group.differing, mine.differing);
    EXPECT_DOUBLE_EQ(group.cycles, mine.cycles);
    EXPECT_DOUBLE_EQ(group.estimated_cycles, mine.estimated_cycles);
    EXPECT_DOUBLE_EQ(group.pin_cycles, mine.pin_cycles);
    EXPECT_DOUBLE_EQ(group.schedule_cycles, mine.schedule_cycles);
    EXPECT_DOUBLE_EQ(group.wait_cycles, mine.wait_cycles);
  }
  const Json json = to_json(record, summary, {})["xla_estimate"];
  EXPECT_EQ(json["ops"], all.ops.size());
  EXPECT_EQ(json["ops_without"], 0);
  EXPECT_DOUBLE_EQ(json["ratio"].get<double>(), all.cycles / all.estimated_cycles);
}

/// What the layout of an operation's result adds counts for what vectors and the HBM take, what
/// that of its product adds for the MXUs'.
TEST(EveryComparison, PaddingIsOfTheUnitThatBinds) {
  const auto bound = [](Resource by, const char* shape, std::uint64_t padded_flops) {
    traces::RunRecord record = test::synthetic_record();
    record.ops[0].shape = shape;
    record.ops[0].padded_matmul_flops = padded_flops;
    CriticalPath::Op op;
    op.gain[static_cast<std::size_t>(by)] = 900;
    record.result.critical_path.ops[0] = op;
    return to_string(summarize(record).ops[0].bound);
  };
  const char* const half = "f32[8,64]{1,0:T(8,128)}";
  const char* const full = "f32[8,128]{1,0:T(8,128)}";
  EXPECT_EQ(bound(Resource::kMxu, half, 800), "MXU");
  EXPECT_EQ(bound(Resource::kMxu, full, 1600), "padding");
  EXPECT_EQ(bound(Resource::kVector, half, 800), "padding");
  EXPECT_EQ(bound(Resource::kVector, full, 1600), "VPU");
  EXPECT_EQ(bound(Resource::kHbm, half, 800), "padding");
  EXPECT_EQ(bound(Resource::kHbm, full, 1600), "HBM");
  EXPECT_EQ(bound(Resource::kIci, half, 1600), "ICI");
  // What has no layout, no values, or a layout that only XLA writes.
  for (const char* shape : {"f32[8,64]", "f32[0,64]{1,0:T(8,128)}", "what{0:T(8)}"}) {
    EXPECT_EQ(bound(Resource::kHbm, shape, 800), "HBM") << shape;
  }
}

TEST(EveryComparison, AnOperationsNameStandsBesideItsFiguresWhereThereIsRoom) {
  const traces::RunRecord record = test::synthetic_record();
  const auto text = [&](int width) {
    return text_report(record, summarize(record), {}, {false, width});
  };
  EXPECT_NE(text(92).find("padding  operation\n"), std::string::npos);
  EXPECT_EQ(text(91).find("padding  operation\n"), std::string::npos);
}

/// Below the figures it begins in column 10 and takes the rest of the line.
TEST(EveryComparison, AnOperationsNameBelowItsFiguresFillsTheLine) {
  for (const std::size_t size : {81, 82}) {
    traces::RunRecord record = test::synthetic_record();
    record.ops[0].name = record.ops[0].category = std::string(size, 'x');
    const std::string text = text_report(record, summarize(record), {}, {false, 91});
    EXPECT_EQ(text.find("\n          " + std::string(size, 'x') + "\n") != std::string::npos,
              size == 81)
        << text;
  }
}

TEST(EveryComparison, OneStepIsCompiledOnce) {
  traces::RunRecord record = test::synthetic_record();
  for (CoreResult& core : record.result.cores) core.steps.resize(1);
  const std::string text = metrics_text(record);
  EXPECT_EQ(text.find("CachedCompile\n  Value: 0"), std::string::npos) << text;
  EXPECT_NE(text.find("Counter: UncachedCompile\n  Value: 1\n"), std::string::npos);
  record.values = false;
  EXPECT_FALSE(to_json(record, summarize(record), {}).contains("values_from"));
}

/// Random lines of short words: each line that is broken is as full as it can be, begins where it
/// should, and holds the same words in the same order.
TEST(EveryComparison, LinesAreAsFullAsTheyCanBe) {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    const int width = 20 + static_cast<int>(random() % 30);
    const std::size_t indent = random() % 4;
    std::string line(indent, ' ');
    std::vector<std::string> words;
    for (int w = 0; w < 14; ++w) {
      words.emplace_back(1 + random() % 6, static_cast<char>('a' + w));
      line += (w > 0 ? " " : "") + words.back();
    }
    std::istringstream lines(fit_to_width(line + "\n", {false, width}));
    std::string expected(indent, ' ');
    bool is_begin = true;
    for (const std::string& word : words) {
      if (!is_begin && expected.size() + 1 + word.size() > static_cast<std::size_t>(width)) {
        std::string got;
        ASSERT_TRUE(std::getline(lines, got));
        EXPECT_EQ(got, expected) << line << " in " << width;
        expected = std::string(indent + 2, ' ');
        is_begin = true;
      }
      expected += (is_begin ? "" : " ") + word;
      is_begin = false;
    }
    std::string last;
    ASSERT_TRUE(std::getline(lines, last));
    EXPECT_EQ(last, expected) << line << " in " << width;
    EXPECT_FALSE(std::getline(lines, last));
  }
}

/// A part that stands apart by column 24 of 40 and begins before 32 has what follows under it.
TEST(EveryComparison, APartStandsApartInTheFirstSixTenths) {
  const auto under = [](std::size_t gap, std::size_t blanks) {
    const std::string line = std::string(gap, 'x') + std::string(blanks, ' ') +
                             "one two three four five six seven eight";
    std::istringstream lines(fit_to_width(line + "\n", {false, 40}));
    std::string second;
    std::getline(lines, second);
    std::getline(lines, second);
    return second.find_first_not_of(' ');
  };
  EXPECT_EQ(under(24, 3), 27u);
  EXPECT_EQ(under(25, 3), 2u);
  EXPECT_EQ(under(24, 7), 31u);
  EXPECT_EQ(under(24, 8), 2u);
}

}  // namespace
}  // namespace tpu::report::every_comparison_test
