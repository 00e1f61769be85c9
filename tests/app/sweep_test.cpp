#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>

#include "sim/app/program_cache.h"
#include "sim/config/configuration.h"
#include "tests/app/program_fixture.h"

/// `tpusim sweep` as a user runs it: on one machine, in shards, killed and started again.

namespace tpu::app::sweep_test {
namespace {

const std::string kGemm =
    "workload = \"matmul\"\ncores = 1\n"
    "[grid]\nshape = [\"128x128x128\", \"256x256x256\"]\ncore.mxu.count = [1, 2]\n"
    "hbm.gb_per_s = [300, 600, 900]\n";

class SweepTest : public ProgramTest {
 protected:
  std::string out(const std::string& words) const {
    const Outcome outcome = tpusim(words);
    EXPECT_EQ(outcome.exit_code, 0) << words << "\n" << outcome.err;
    return outcome.out;
  }
  std::size_t points(const std::string& folder) const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_ / folder), fs::directory_iterator()));
  }
};

TEST_F(SweepTest, RowsAreWhatRunsReport) {
  write("s.toml", kGemm);
  out("sweep s.toml -o s.csv");
  const json run = report(
      "run matmul --cores 1 --shape 256x256x256 --set core.mxu.count=1 --set "
      "hbm.gb_per_s=600");
  const std::string table = text_of(folder_ / "s.csv");
  const std::string cycles = std::to_string(run["steps"][0]["cycles"].get<std::uint64_t>());
  EXPECT_NE(table.find("\n8,matmul,1,256x256x256,1,600,done,,"), std::string::npos) << table;
  const std::size_t row = table.find("\n8,");
  EXPECT_NE(table.substr(row, table.find('\n', row + 1) - row).find("," + cycles + ","),
            std::string::npos)
      << table << cycles;
}

TEST_F(SweepTest, OnlyWhatIsMissingIsSimulated) {
  write("s.toml", kGemm);
  EXPECT_NE(out("sweep s.toml").find("12 points: 12 simulated, 0 known"), std::string::npos);
  fs::remove(fs::directory_iterator(folder_ / "s.points")->path());
  EXPECT_NE(out("sweep status s.toml").find("11 done, 0 failed, 1 missing"), std::string::npos);
  expect_error("sweep merge s.toml -o t.csv", 2, "found 1 missing; tpusim sweep run makes them");
  EXPECT_NE(out("sweep s.toml").find("1 simulated, 11 known"), std::string::npos);
  // What a setting is called does not matter, what it means does.
  write("t.toml",
        "workload = \"matmul\"\ncores = 1\ncore.mxu.count = 2\n"
        "[grid]\nshape = [\"128x128x128\", \"384x128x128\"]\nhbm.pin_mbps = 1172\n");
  EXPECT_NE(out("sweep t.toml --points s.points").find("2 points: 1 simulated, 1 known"),
            std::string::npos);
}

TEST_F(SweepTest, ChangedContentsOfAWorkloadAreAnotherPoint) {
  write("a.s", "kernel top\n  { %s0 = smov 7 }\n");
  ASSERT_EQ(tpusim("asm a.s -o a.h5").exit_code, 0);
  write("s.toml", "[[points]]\nworkload = \"a.h5\"\n");
  EXPECT_NE(out("sweep s.toml").find("1 simulated"), std::string::npos);
  EXPECT_NE(out("sweep s.toml").find("0 simulated"), std::string::npos);
  write("a.s", "kernel top\n  { %s0 = smov 7 }\n  { %s0 = smov 8 }\n");
  ASSERT_EQ(tpusim("asm a.s -o a.h5").exit_code, 0);
  EXPECT_NE(out("sweep s.toml").find("1 simulated"), std::string::npos);
}

TEST_F(SweepTest, APointThatFailsIsARowWithItsError) {
  write("s.toml",
        "workload = \"matmul\"\nshape = \"128x128x128\"\ncores = 1\n"
        "[grid]\ncore.mxu.count = [1, 9]\n[[points]]\nconfig = \"v9\"\n");
  EXPECT_NE(out("sweep s.toml -o s.csv").find("3 points: 3 simulated, 0 known already, 2 failed"),
            std::string::npos);
  const std::string table = text_of(folder_ / "s.csv");
  EXPECT_NE(table.find("core.mxu.count: expected 1 to 4"), std::string::npos) << table;
  EXPECT_NE(table.find("no configuration \"\"v9\"\""), std::string::npos) << table;
}

TEST_F(SweepTest, ShardsAndProcessesMakeTheSameTable) {
  write("s.toml", kGemm);
  out("sweep s.toml --jobs 1 -o one.csv");
  const std::string table = text_of(folder_ / "one.csv");
  for (const int shards : {2, 7}) {
    const std::string folder = "shards" + std::to_string(shards);
    for (int i = shards; i >= 1; --i) {
      out("sweep run s.toml --jobs 1 --points " + folder + " --shard " + std::to_string(i) + "/" +
          std::to_string(shards));
    }
    out("sweep merge s.toml --points " + folder + " -o " + folder + ".csv");
    EXPECT_EQ(text_of(folder_ / (folder + ".csv")), table) << shards;
  }
  out("sweep s.toml --jobs 3 --points jobs -o jobs.csv");
  EXPECT_EQ(text_of(folder_ / "jobs.csv"), table);
  out("sweep run s.toml --points alone --point 5");
  EXPECT_EQ(points("alone"), 1u);
}

TEST_F(SweepTest, AKilledSweepGoesOnAndMakesTheSameTable) {
  write("s.toml", kGemm);
  out("sweep s.toml --points whole -o whole.csv");
  std::mt19937 random(20261122);
  // TPUSIM_KILLS asks for more.
  const char* wanted = std::getenv("TPUSIM_KILLS");
  const int kills = wanted == nullptr ? 12 : std::atoi(wanted);
  for (int kill = 0; kill < kills; ++kill) {
    // Points that are done would leave nothing to kill.
    if (kill % 4 == 0) fs::remove_all(folder_ / "s.points");
    const pid_t child = ::fork();
    if (child == 0) {
      if (::chdir(folder_.c_str()) != 0) ::_exit(1);
      ::close(STDOUT_FILENO);
      ::execl(TPUSIM_PROGRAM, TPUSIM_PROGRAM, "sweep", "s.toml", "--jobs", "2", nullptr);
      ::_exit(1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    if (!fs::exists(folder_ / "s.points")) continue;
    for (const fs::directory_entry& file : fs::directory_iterator(folder_ / "s.points")) {
      if (file.path().extension() != ".json") continue;
      EXPECT_FALSE(json::parse(text_of(file.path()), nullptr, false).is_discarded()) << file.path();
    }
  }
  out("sweep s.toml -o s.csv");
  EXPECT_EQ(text_of(folder_ / "s.csv"), text_of(folder_ / "whole.csv"));
}

TEST_F(SweepTest, MistakesOfTheCommandLine) {
  write("s.toml", kGemm);
  expect_error("sweep", 2, "expected [plan|run|status|merge] SWEEP.toml, found nothing");
  expect_error("sweep rnu s.toml", 2, "no \"rnu\"; the nearest is \"run\"");
  expect_error("sweep none.toml", 3, "none.toml: expected a sweep file: No such file");
  expect_error("sweep merge s.toml", 2, "expected -o TABLE.csv, TABLE.h5 or PAGE.html");
  expect_error("sweep s.toml -o table.txt", 2, "expected a name that ends in .csv, .h5 or .html");
  expect_error("sweep run s.toml --shard 3/2", 2, "expected a whole number from 1 to 2");
  expect_error("sweep run s.toml --shard 3", 2, "--shard I/N: N: expected a whole number");
  expect_error("sweep run s.toml --point 13", 2, "has the points 1 to 12, found 13");
  write("file", "x");
  expect_error("sweep s.toml --points file", 2, "expected a folder for the files of points");
  EXPECT_EQ(text_of(folder_ / "s.toml"), kGemm);
}

TEST(ProgramCacheTest, MachinesThatTheCompilerCantTellApartShareAProgram) {
  Arguments arguments;
  arguments.input = "matmul";
  arguments.workload.shape = "128x128x128";
  arguments.cores = CoreChoice{0, 1};
  config::Configuration machine = config::load_configuration("v3-8");
  ProgramCache cache(2);
  const auto prepared = [&](const std::string& setting) {
    config::Configuration changed = machine;
    if (!setting.empty()) config::apply_setting(changed, setting);
    cache.prepare(arguments, changed.params);
    return cache.prepared();
  };
  EXPECT_EQ(prepared(""), 1u);
  EXPECT_EQ(prepared("hbm.first_refresh_ns=100"), 1u);
  EXPECT_EQ(prepared("host.pcie_latency_ns=5"), 1u);
  EXPECT_EQ(prepared("core.mxu.count=1"), 2u);
  EXPECT_EQ(prepared(""), 2u);
  arguments.workload.shape = "128x128x256";
  EXPECT_EQ(prepared(""), 3u);
  arguments.cores = CoreChoice{1, 1};
  EXPECT_EQ(prepared(""), 4u);
}

}  // namespace
}  // namespace tpu::app::sweep_test
