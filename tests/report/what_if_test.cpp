#include <gtest/gtest.h>

#include <algorithm>

#include "sim/report/critical_path_report.h"
#include "sim/report/scaling_report.h"
#include "sim/report/what_if_report.h"
#include "tests/traces/synthetic_record.h"

/// A step of 1,100 cycles (1.1702 us), of whose critical path of 2,200 cycles 500 are the HBM's,
/// 400 the host's and 960 the MXUs'; 256 examples a step.

namespace tpu::report::what_if_test {
namespace {

constexpr double kStepMs = 1100 / 940e3;
const TextStyle kStyle{false, 120};

traces::RunRecord record_with(std::vector<traces::WhatIf> what_if) {
  traces::RunRecord record = test::synthetic_record();
  record.what_if = std::move(what_if);
  return record;
}

traces::WhatIf variant(const char* name, double times_the_step,
                       const char* settings = "--set x=1") {
  return {name, settings, times_the_step * kStepMs, 256e3 / (times_the_step * kStepMs), "", 0, 0};
}

std::vector<std::string> advice_of(const traces::WhatIf& what) {
  const traces::RunRecord record = record_with({what});
  return advice(record, summarize(record));
}

std::string only(const traces::WhatIf& what) {
  const std::vector<std::string> sentences = advice_of(what);
  return sentences.size() == 1 ? sentences[0] : std::to_string(sentences.size()) + " sentences";
}

TEST(WhatIf, AdviceSaysHowMuchOfTheStepAVariantGains) {
  EXPECT_EQ(only(variant("HBM free", 0.75)),
            "A free HBM gains at most 0.293 us of 1.170 us (25.0 %).");
  EXPECT_EQ(only(variant("infeed free", 0.75)),
            "A free infeed gains at most 0.293 us of 1.170 us (25.0 %). That takes 291,684,848 "
            "examples/s from the host; beyond them the cores bound the step.");
  traces::WhatIf nobody_counts = variant("infeed free", 0.75);
  nobody_counts.examples_per_s = 0;
  EXPECT_EQ(only(nobody_counts), "A free infeed gains at most 0.293 us of 1.170 us (25.0 %).");
  EXPECT_EQ(only(variant("ICI free", 0.75)),
            "A free ICI gains at most 0.293 us of 1.170 us (25.0 %).");
  EXPECT_EQ(only(variant("twice the MXUs", 0.5)),
            "Twice the MXUs gains at most 0.585 us of 1.170 us (50.0 %).");
  EXPECT_EQ(only(variant("HBM and infeed free", 0.5)),
            "0.585 us remain with HBM and infeed free: what the schedule of the cores needs.");
}

TEST(WhatIf, BelowHalfAPercentNothingIsGained) {
  EXPECT_EQ(only(variant("HBM free", 0.9951)), "Nothing to gain (below 0.5 %): a free HBM.");
  EXPECT_EQ(only(variant("HBM free", 1.0049)), "Nothing to gain (below 0.5 %): a free HBM.");
  EXPECT_EQ(only(variant("HBM free", 0.9949)).find("Nothing"), std::string::npos);
  EXPECT_EQ(only(variant("HBM free", 1.25)),
            "A free HBM makes the step longer, 1.463 us: the compiler chooses other tiles for that "
            "machine, and they are worse.");
  const traces::RunRecord record =
      record_with({variant("HBM free", 1), variant("ICI free", 0.999)});
  EXPECT_EQ(advice(record, summarize(record)),
            (std::vector<std::string>{"Nothing to gain (below 0.5 %): a free ICI, a free HBM."}));
}

TEST(WhatIf, AnotherBatchIsJudgedByTheTimeOfAnExample) {
  // Half as many examples again in 1.2 times the time.
  traces::WhatIf more = variant("batch 192", 1.2, "--batch 192");
  more.examples_per_s *= 1.5;
  EXPECT_EQ(
      only(more),
      "Batch 192 makes 273,454,545 examples/s in place of 218,763,636: a multiple of 128 fills "
      "the lanes, which padding fills now.");
  more.step_ms = 0.9 * kStepMs;
  EXPECT_EQ(only(more),
            "Batch 128 a core takes longer, 1.170 us, than batch 192, 1.053 us: a multiple of 128 "
            "fills the lanes, which padding fills now.");
  more.examples_per_s = 256e3 / kStepMs * 0.99;
  EXPECT_TRUE(advice_of(more).empty());
  const traces::RunRecord record = record_with({more});
  const Summary summary = summarize(record);
  EXPECT_NEAR(what_if_json(record, summary)["variants"][0]["gain"].get<double>(), 1 - 1 / 0.99,
              1e-9);
}

TEST(WhatIf, WiderLayersAreJudgedByTheTimeOfAUsefulFlop) {
  traces::WhatIf wide = variant("no padding", 1.5, "--feature-multiple 128");
  wide.model_flops = 2 * 2 * 65536ULL * 100;
  EXPECT_EQ(
      only(wide),
      "Padding: layers as wide as the lanes that they take have 2 x the useful FLOPs in 1.500 x "
      "the time, 25.0 % less for each.");
  wide.model_flops = 2 * 65536ULL * 100;
  EXPECT_EQ(
      only(wide),
      "Padding: layers as wide as the lanes that they take have 1 x the useful FLOPs in 1.500 x "
      "the time, 50.0 % more for each.");
  wide.step_ms = summarize(test::synthetic_record()).step_mean_ms;
  EXPECT_NE(only(wide).find(" 0.0 % less for each."), std::string::npos) << only(wide);
  wide.step_ms *= 1.5;
  wide.model_flops = 0;
  const traces::RunRecord record = record_with({wide});
  const Summary summary = summarize(record);
  EXPECT_NEAR(what_if_json(record, summary)["variants"][0]["gain"].get<double>(), -0.5, 1e-9);
}

/// A program that is compiled anew for the change is told from one compiled anew without it.
TEST(WhatIf, AnotherProgramIsToldFromItself) {
  traces::WhatIf anew = variant("twice the MXUs", 1.2, "--compiler tpusim --set x=1");
  anew.as_it_is_ms = 1.6 * kStepMs;
  EXPECT_EQ(only(anew),
            "Twice the MXUs gains at most 0.468 us of 1.872 us (25.0 %), both compiled by tpusim.");
  const traces::RunRecord record = record_with({anew});
  const Summary summary = summarize(record);
  const Json row = what_if_json(record, summary)["variants"][0];
  EXPECT_NEAR(row["gain"].get<double>(), 0.25, 1e-9);
  EXPECT_NEAR(row["gain_ms"].get<double>(), 0.4 * kStepMs, 1e-12);
  EXPECT_NEAR(row["as_it_is_ms"].get<double>(), 1.6 * kStepMs, 1e-12);
  EXPECT_NE(what_if_text(record, summary)
                .find("\n        --compiler tpusim --set x=1; without: 1.872 us"),
            std::string::npos);
}

/// 960 of 2,200 cycles depend on the MXUs, 500 on the HBM: behind a slow host neither gains
/// anything, and a hundredth of a percent is no order.
TEST(WhatIf, GainsThatPrintAlikeStandInTheOrderOfTheCauses) {
  const traces::RunRecord record =
      record_with({variant("HBM free", 0.9999), variant("twice the MXUs", 1),
                   variant("infeed free", 0.8), variant("ICI free", 0.99)});
  const std::string text = what_if_text(record, summarize(record));
  std::vector<std::size_t> places;
  for (const char* name : {"  infeed free ", "  ICI free ", "  twice the MXUs ", "  HBM free "}) {
    places.push_back(text.find(name));
    EXPECT_NE(places.back(), std::string::npos) << name;
  }
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end())) << text;
}

/// Most gain first; what did not run stands below with its reason.
TEST(WhatIf, TheTableHasARowForEachVariant) {
  traces::WhatIf failed{"batch 9", "--batch 9", 0, 0, "does not fit", 0, 0};
  traces::WhatIf silent = variant("ICI free", 1, "");
  silent.examples_per_s = 0;
  const traces::RunRecord record =
      record_with({silent, failed, variant("twice the MXUs", 0.9), variant("HBM free", 0.75)});
  const std::string text = what_if_text(record, summarize(record));
  // Of 2,200 cycles the HBM's 500 are 22.7 %.
  const char* const lines =
      "  as it is               1.170 us           218,763,636/s\n"
      "  HBM free               0.878 us   -25.0 % 291,684,848/s   -22.7 %\n"
      "        --set x=1\n"
      "  twice the MXUs         1.053 us   -10.0 % 243,070,707/s\n"
      "        --set x=1\n"
      "  ICI free               1.170 us     0.0 %                   0.0 %\n"
      "  batch 9: does not fit\n"
      "  A free HBM gains at most 0.293 us of 1.170 us (25.0 %).\n"
      "  Twice the MXUs gains at most 0.117 us of 1.170 us (10.0 %).\n"
      "  Nothing to gain (below 0.5 %): a free ICI.\n\n";
  EXPECT_EQ(text.substr(text.find('\n') + 1), lines);
  traces::WhatIf slow = variant("ICI free", 1);
  slow.examples_per_s = 0.5;
  EXPECT_NE(what_if_text(record_with({slow}), summarize(record)).find(" 0.500/s "),
            std::string::npos);
  EXPECT_EQ(what_if_text(record_with({}), summarize(record)), "");
  const Json json = what_if_json(record, summarize(record));
  ASSERT_EQ(json["variants"].size(), 4u);
  EXPECT_EQ(json["variants"][1]["problem"], "does not fit");
  EXPECT_FALSE(json["variants"][1].contains("gain"));
  const Json& hbm = json["variants"][3];
  EXPECT_FALSE(hbm.contains("problem"));
  EXPECT_NEAR(hbm["step_time_ms"].get<double>(), 0.75 * kStepMs, 1e-12);
  EXPECT_NEAR(hbm["gain_ms"].get<double>(), 0.25 * kStepMs, 1e-12);
  EXPECT_NEAR(hbm["gain"].get<double>(), 0.25, 1e-9);
  EXPECT_NEAR(hbm["same_program_gain_ms"].get<double>(), 500 / 2200.0 * kStepMs, 1e-12);
}

TEST(WhatIf, WhatTheSameProgramWouldGainIsReadOffItsPath) {
  traces::RunRecord record = test::synthetic_record();
  const Summary summary = summarize(record);
  const std::pair<const char*, double> cycles[] = {
      {"HBM free", 500}, {"infeed free", 400}, {"HBM and infeed free", 900}, {"ICI free", 0}};
  for (const auto& [name, gained] : cycles) {
    const auto gain = expected_gain_ms(record, summary, name);
    ASSERT_TRUE(gain.has_value()) << name;
    EXPECT_NEAR(*gain, gained / 2200 * kStepMs, 1e-12) << name;
  }
  // The same program uses no more MXUs than it was made for.
  EXPECT_FALSE(expected_gain_ms(record, summary, "twice the MXUs").has_value());
  EXPECT_FALSE(expected_gain_ms(record, summary, "batch 9").has_value());
  record.result.critical_path.cycles = 0;
  EXPECT_FALSE(expected_gain_ms(record, summary, "HBM free").has_value());
  EXPECT_EQ(causes_text(record, summary, kStyle), "");
}

/// What the page and --json say of a run that nobody simulated again.
TEST(WhatIf, EveryRunHasWhatTheSameProgramWouldGain) {
  traces::RunRecord record = test::synthetic_record();
  record.infeed_bytes = 1;
  const std::vector<std::pair<std::string, double>> gained{
      {"HBM and infeed free", 900}, {"HBM free", 500}, {"infeed free", 400}, {"ICI free", 0}};
  const auto expect_rows = [&](const std::vector<std::string>& names) {
    const Summary summary = summarize(record);
    const Json same = what_if_json(record, summary)["same_program"];
    const double step = summary.step_mean_ms;
    ASSERT_EQ(same.size(), names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(same[i]["name"], names[i]);
      for (const auto& [name, cycles] : gained) {
        if (name != names[i]) continue;
        EXPECT_NEAR(same[i]["gain_ms"].get<double>(), cycles / 2200 * step, 1e-12);
        EXPECT_NEAR(same[i]["step_time_ms"].get<double>(), (1 - cycles / 2200) * step, 1e-12);
      }
    }
  };
  expect_rows({"HBM and infeed free", "HBM free", "infeed free", "ICI free"});
  EXPECT_EQ(advice(record, summarize(record)),
            (std::vector<std::string>{
                "A free HBM and infeed gains the same program 0.479 us of 1.170 us (40.9 %).",
                "A free HBM gains the same program 0.266 us of 1.170 us (22.7 %).",
                "A free infeed gains the same program 0.213 us of 1.170 us (18.2 %).",
                "Nothing to gain (below 0.5 %): a free ICI."}));
  record.infeed_bytes = 0;  // Nothing to free.
  expect_rows({"HBM free", "ICI free"});
  record.core_numbers.resize(1);
  record.result.cores.resize(1);
  expect_rows({"HBM free"});
  record.result.critical_path.cycles = 0;
  expect_rows({});
}

TEST(Causes, EachHasItsShareOfThePathTheLargestFirst) {
  const traces::RunRecord record = test::synthetic_record();
  const Json json = causes_json(record, summarize(record));
  ASSERT_EQ(json.size(), kResources);
  double shares = 0;
  for (std::size_t i = 0; i < kResources; ++i) {
    shares += json[i]["share"].get<double>();
    if (i > 0) {
      EXPECT_LE(json[i]["share"].get<double>(), json[i - 1]["share"].get<double>());
    }
    for (std::size_t r = 0; r < kResources; ++r) {
      if (json[i]["cause"] != to_string(static_cast<Resource>(r))) continue;
      const double ms = static_cast<double>(record.result.critical_path.path[r]) / 2200 * kStepMs;
      EXPECT_NEAR(json[i]["path_ms"].get<double>(), ms, 1e-12);
      EXPECT_NEAR(json[i]["gain_ms"].get<double>(), ms, 1e-12);  // Nothing hides behind anything.
    }
  }
  EXPECT_NEAR(shares, 1, 1e-12);
}

/// Two steps in which a collective of each kind takes 470 cycles a core, and something else 940.
TEST(Scaling, ARunHasWhatItsCollectivesTakeAndWhatItWaits) {
  traces::RunRecord record = test::synthetic_record();
  record.result.simulated_cores = 1;
  for (const char* category :
       {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"}) {
    record.ops[1].category = category;
    Summary summary = summarize(record);
    summary.breakdown.peer_wait = 0.25;
    summary.breakdown.peer_host_wait = 0.125;
    const ScalingRun run = scaling_run(record, summary);
    // Its 600 cycles are of two steps.
    EXPECT_NEAR(run.all_reduce_ms, 300 / 940e3, 1e-12) << category;
    // Beside it 34 and 35 cycles of two cores are under way.
    EXPECT_NEAR(run.hidden_ms, 34.5 / 2 / 940e3, 1e-12);
    EXPECT_NEAR(run.waiting_ms, 0.375 * kStepMs, 1e-12);
    EXPECT_EQ(run.batch, 256u);
    EXPECT_DOUBLE_EQ(run.step_ms, kStepMs);
    EXPECT_DOUBLE_EQ(run.examples_per_s, summary.examples_per_s);
    EXPECT_EQ(run.simulated_cores, 1u);
  }
  record.ops[1].category = "copy";
  EXPECT_EQ(scaling_run(record, summarize(record)).all_reduce_ms, 0);
}

TEST(Scaling, EfficiencyIsARateOfACoreOverThatOfTheFirstMachine) {
  const ScalingRun small{64, 2.5, 800.4, 0.25, 0.125, 8}, large{256, 3, 2560, 0.5, 0.25, 1};
  const std::vector<ScalingPoint> points{{"v3-8", 8, small, small, ""},
                                         {"v3-32", 32, large, std::nullopt, "too few"}};
  // 2560 of 32 cores are 80 a core; 800.4 of 8 are 100.05.
  const char* const text =
      "net from slice to slice\n\n"
      "  machine   cores   batch   step ms   examples/s   efficiency   exposed ms\n"
      "  weak\n"
      "  v3-8          8      64      2.50          800      100.0 %         0.25\n"
      "  v3-32        32     256      3.00        2,560       80.0 %         0.50\n"
      "  strong\n"
      "  v3-8          8      64      2.50          800      100.0 %         0.25\n\n";
  const std::string report = scaling_report("net", points, kStyle);
  EXPECT_EQ(report.substr(0, std::string(text).size()), text) << report;
  EXPECT_NE(report.find("No strong scaling on v3-32: too few.\n"), std::string::npos) << report;
  const Json json = scaling_json("net", points);
  const Json& weak = json["points"][1]["weak"];
  EXPECT_NEAR(weak["efficiency"].get<double>(), 80 / 100.05, 1e-12);
  EXPECT_EQ(weak["batch"], 256);
  EXPECT_EQ(weak["step_ms"], 3);
  EXPECT_EQ(weak["examples_per_s"], 2560);
  EXPECT_EQ(weak["exposed_all_reduce_ms"], 0.5);
  EXPECT_EQ(weak["waiting_for_peers_ms"], 0.25);
  EXPECT_EQ(weak["simulated_cores"], 1);
  EXPECT_EQ(json["points"][1]["cores"], 32);
  EXPECT_TRUE(json["points"][1]["strong"].is_null());
  EXPECT_EQ(json["points"][1]["why_not_strong"], "too few");
  EXPECT_FALSE(json["points"][0].contains("why_not_strong"));
  EXPECT_EQ(json["points"][0]["strong"]["efficiency"], 1);
  const ScalingRun nothing{64, 2.5, 0, 0, 0, 8};
  EXPECT_EQ(
      scaling_json("net", {{"v3-8", 8, nothing, nothing, ""}})["points"][0]["weak"]["efficiency"],
      0);
}

}  // namespace
}  // namespace tpu::report::what_if_test
