#include <map>
#include <vector>

#include "tests/app/program_fixture.h"

namespace tpu::app {
namespace {

class DependsOnTest : public ProgramTest {};

/// What-ifs by the resource whose time they change.
const std::map<std::string, std::string> kResources{
    {"HBM free", "HBM"}, {"infeed free", "host"}, {"ICI free", "ICI"}, {"twice the MXUs", "MXU"}};

TEST_F(DependsOnTest, TheOrderOfSharesIsThatOfTheWhatIfs) {
  for (const char* words :
       {"resnet50 --config v3-8 --cores 1 --batch 128", "lenet --cores 1 --batch 128",
        "mlp --cores 1 --batch 128", "transformer --cores 1",
        "mlp --cores 1 --batch 128 --set host.examples_per_s=500000",
        "mlp --cores 8 --batch 1024"}) {
    const json run = report(std::string("run ") + words + " --what-if");
    const double step = run["step_time_ms"]["mean"];
    std::map<std::string, double> share;
    double shares = 0, path = 0;
    for (const json& each : run["depends_on"]) {
      share[each["resource"]] = each["share"];
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
      if (resource == kResources.end()) continue;
      gains.emplace_back(resource->second, each["gain_ms"].get<double>() / step);
      // The compiler makes another program for another machine, so that is no more than near.
      EXPECT_NEAR(each["same_program_gain_ms"].get<double>() / step, gains.back().second, 0.08)
          << words << ": " << each["name"];
    }
    ASSERT_GE(gains.size(), 3u) << words;
    for (const auto& [one, gain] : gains) {
      for (const auto& [other, other_gain] : gains) {
        if (gain < other_gain + 0.01) continue;
        EXPECT_GT(share[one], share[other]) << words << ": " << one << ", " << other;
      }
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
  for (const json& each : run["depends_on"]) {
    if (each["resource"] != "HBM") continue;
    EXPECT_NEAR(each["gain_ms"].get<double>(), gained, 0.01 * gained);
  }
}

}  // namespace
}  // namespace tpu::app
