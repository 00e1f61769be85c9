#include <map>
#include <vector>

#include "tests/app/program_fixture.h"

namespace tpu::app::depends_on_test {
namespace {

class DependsOnTest : public ProgramTest {};

/// What-ifs by the resource whose time they change.
const std::map<std::string, std::string> kResources{
    {"HBM free", "HBM"}, {"infeed free", "host"}, {"ICI free", "ICI"}, {"twice the MXUs", "MXU"}};

TEST_F(DependsOnTest, TheOrderOfSharesIsThatOfTheWhatIfs) {
  for (const char* words :
       {"resnet50 --config v3-8 --cores 1 --batch 64 --image 32", "lenet --cores 1 --batch 128",
        "mlp --cores 1 --batch 128", "transformer --cores 1",
        "mlp --cores 1 --batch 128 --set host.examples_per_s=500000", "mlp --cores 8 --batch 1024",
        "mlp --config v2-8 --cores 1 --batch 128", TPUSIM_SOURCE_DIR "/workloads/captured/mlp"}) {
    const json run = report(std::string("run ") + words + " --what-if");
    const double step = run["step_time_ms"]["mean"];
    std::map<std::string, double> share;
    double shares = 0, path = 0, last = 1;
    for (const json& each : run["causes"]) {
      share[each["cause"]] = each["share"];
      EXPECT_LE(share[each["cause"]], last) << words;
      last = share[each["cause"]];
      shares += each["share"].get<double>();
      path += each["path_ms"].get<double>();
    }
    EXPECT_NEAR(shares, 1, 1e-9) << words;
    EXPECT_NEAR(path, step, 1e-9 * step) << words;
    EXPECT_NEAR(run["roofline"]["moved_memory_ms"].get<double>(),
                run["utilization"]["hbm"].get<double>() * step, 0.01 * step);
    std::vector<std::pair<std::string, double>> gains;
    for (const json& each : run["what_if"]["variants"]) {
      const auto resource = kResources.find(each["name"]);
      if (resource == kResources.end() || each.contains("problem")) continue;
      // Twice the MXUs take half of their time away, the others all of it.
      const double taken_away = each["name"] == "twice the MXUs" ? 0.5 : 1;
      const double gain = each["gain_ms"].get<double>() / step / taken_away;
      // The compiler makes another program for another machine: what that gains is no more than
      // near, and shares are of the same program. None uses more MXUs than it was made for.
      ASSERT_EQ(each.contains("same_program_gain_ms"), each["name"] != "twice the MXUs");
      if (each["name"] == "twice the MXUs") {
        gains.emplace_back(resource->second, gain);
        continue;
      }
      gains.emplace_back(resource->second, each["same_program_gain_ms"].get<double>() / step);
      EXPECT_NEAR(gains.back().second, gain, 0.1) << words << ": " << each["name"];
    }
    ASSERT_GE(gains.size(), run["compiler"].get<std::string>().find("xla") == 0 ? 2u : 3u) << words;
    for (const auto& [one, gain] : gains) {
      for (const auto& [other, other_gain] : gains) {
        if (gain < other_gain + 0.01) continue;
        EXPECT_GT(share[one], share[other]) << words << ": " << one << ", " << other;
      }
    }
  }
}

TEST_F(DependsOnTest, OpsSayWhatTheStepSays) {
  for (const char* words : {"mlp --cores 1 --batch 128", "lenet --cores 1 --batch 128",
                            "transformer --cores 1", TPUSIM_SOURCE_DIR "/workloads/captured/mlp"}) {
    const json run = report(std::string("run ") + words);
    const double step = run["step_time_ms"]["mean"];
    std::map<std::string, double> of_ops, bound, gained;
    double all = 0;
    for (const json& op : run["ops"]) {
      const double time = op["time_ms"];
      double sum = 0;
      for (const auto& [cause, part] : op["causes"].items()) {
        of_ops[cause] += part.get<double>() * time;
        sum += part.get<double>();
      }
      EXPECT_NEAR(sum, time > 0 ? 1 : 0, 1e-9) << words << ": " << op["name"];
      all += time;
      const std::string by = op["bound_by"];
      bound[by] += time;
      if (op["gain_ms"].contains(by)) gained[by] += op["gain_ms"][by].get<double>();
    }
    // The runtime of XLA works between operations, too.
    EXPECT_LE(all, 1.0001 * step) << words;
    EXPECT_GE(all, 0.85 * step) << words;
    for (const json& cause : run["causes"]) {
      const std::string name = cause["cause"];
      EXPECT_NEAR(of_ops[name], cause["share"].get<double>() * step, 0.05 * step + step - all)
          << words << ": " << name;
      // A name stands on no more time than three times what it explains.
      EXPECT_LE(bound[name], 3.0001 * gained[name]) << words << ": " << name;
      EXPECT_LE(gained[name], cause["gain_ms"].get<double>() + 0.05 * step) << words << name;
    }
  }
}

TEST_F(DependsOnTest, TheSameProgramGainsWhatIsSaid) {
  ASSERT_EQ(tpusim("compile mlp --cores 1 --batch 128 -o mlp.h5").exit_code, 0);
  const json run = report("run mlp.h5 -o run.h5");
  const json free = report(
      "run mlp.h5 --set hbm.pin_mbps=1000000 --set hbm.latency_cycles=0 "
      "--set hbm.refresh_interval_ns=0");
  const double gained =
      run["step_time_ms"]["mean"].get<double>() - free["step_time_ms"]["mean"].get<double>();
  for (const json& each : run["causes"]) {
    if (each["cause"] != "HBM") continue;
    EXPECT_NEAR(each["gain_ms"].get<double>(), gained, 0.01 * gained);
  }
}

}  // namespace
}  // namespace tpu::app::depends_on_test
