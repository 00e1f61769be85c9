#include "traces/konata.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "sim/base/error.h"
#include "tests/models/test_program.h"
#include "traces/bundle_recorder.h"

namespace tpu::traces::konata_test {
namespace {

/// A stage of an instruction: lane, name, cycles.
struct Stage {
  int lane = 0;
  std::string name;
  std::uint64_t begin = 0, end = 0;
};
struct Line {
  std::string thread, label, hint;
  std::vector<Stage> stages;
  std::uint64_t begin = 0, retired = 0;
};

std::vector<std::string> columns(const std::string& line) {
  std::vector<std::string> result;
  std::istringstream in(line);
  for (std::string each; std::getline(in, each, '\t');) result.push_back(each);
  return result;
}

void end_stage(Line& line, int lane, std::uint64_t now) {
  for (Stage& stage : line.stages) {
    if (stage.lane == lane && stage.end == 0) stage.end = now;
  }
}

/// Reads a Kanata log and checks its rules: numbers in order, no command before I or behind R, a
/// stage of a lane ends where the next one begins.
std::vector<Line> parse(const std::string& path) {
  std::ifstream in(path);
  std::string text;
  std::getline(in, text);
  EXPECT_EQ(text, "Kanata\t0004");
  std::getline(in, text);
  EXPECT_EQ(text, "C=\t0");
  std::vector<Line> lines;
  std::uint64_t now = 0;
  while (std::getline(in, text)) {
    const std::vector<std::string> words = columns(text);
    if (words[0] == "C") {
      EXPECT_GT(std::stoull(words[1]), 0u);
      now += std::stoull(words[1]);
      continue;
    }
    const std::size_t id = std::stoull(words[1]);
    if (words[0] == "I") {
      EXPECT_EQ(id, lines.size());
      lines.push_back({words[3], "", "", {}, now, 0});
      continue;
    }
    if (id >= lines.size() || lines[id].retired != 0) {
      ADD_FAILURE() << text;
      continue;
    }
    Line& line = lines[id];
    if (words[0] == "L") (words[2] == "0" ? line.label : line.hint) += words[3];
    if (words[0] == "S" || words[0] == "E") end_stage(line, std::stoi(words[2]), now);
    if (words[0] == "S") line.stages.push_back({std::stoi(words[2]), words[3], now, 0});
    if (words[0] == "R") line.retired = now;
  }
  for (const Line& line : lines) {
    EXPECT_GT(line.retired, line.begin);
    for (const Stage& stage : line.stages) EXPECT_GT(stage.end, stage.begin) << stage.name;
  }
  return lines;
}

class Recorder : public Observer {
 public:
  Recorder(const isa::Program& program, const MachineParams& params, std::uint64_t from,
           std::uint64_t to)
      : bundles_(program, params, {from, to}) {}
  void on_step(std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t) override {}
  void on_op(std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t, const Counters&) override {
  }
  void on_wait(std::uint32_t core, CoreState reason, std::uint64_t from,
               std::uint64_t to) override {
    bundles_.on_wait(core, reason, from, to);
  }
  void on_dma(const DmaEvent&) override {}
  void on_bundles(const IssuedBundles& bundles) override { bundles_.on_bundles(bundles); }
  BundleRecorder& bundles() { return bundles_; }

 private:
  BundleRecorder bundles_;
};

class KonataTest : public testing::Test {
 protected:
  void SetUp() override {
    program_ = test::program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 64, 0, 1 }
  { vmatmul.f32.gmra.mxu0 %v0 ;; vdelay 3 }
  { dma.done.wait 1, 64 }
  { vsyncadd 1, -64 ;; %s3 = smov 7 }
)");
    path_ = (std::filesystem::temp_directory_path() /
             ("tpusim-konata-" + std::to_string(::getpid()) + ".log"))
                .string();
  }
  void TearDown() override { std::filesystem::remove(path_); }
  BundleLog recorded(std::uint64_t from, std::uint64_t to, bool interpret) {
    Recorder recorder(program_, params_, from, to);
    RunOptions options = test::on_core(0);
    options.interpret = interpret;
    options.observer = &recorder;
    result_ = test::run(program_, options);
    return recorder.bundles().take();
  }

  RunResult result_;
  isa::Program program_;
  MachineParams params_;
  std::string path_;
};

TEST_F(KonataTest, ALineForEachBundleWithItsStages) {
  for (const bool interpret : {false, true}) {
    const BundleLog log = recorded(0, ~std::uint64_t{0}, interpret);
    export_konata(log, program_.ops, path_);
    const std::vector<Line> lines = parse(path_);
    ASSERT_EQ(lines.size(), 4u);
    EXPECT_EQ(lines[0].label.find("top 0x0: "), 0u) << lines[0].label;
    EXPECT_NE(lines[1].label.find("vmatmul.f32.gmra.mxu0"), std::string::npos);
    EXPECT_EQ(lines[1].thread, "0");
    // Issue, three cycles of delay, the result of the array beside them.
    ASSERT_EQ(lines[1].stages.size(), 3u);
    std::map<std::string, Stage> of_push;
    for (const Stage& stage : lines[1].stages) of_push[stage.name] = stage;
    EXPECT_EQ(of_push["I"].begin, 1u);
    EXPECT_EQ(of_push["I"].end, 2u);
    EXPECT_EQ(of_push["D"].end, 5u);
    EXPECT_EQ(of_push["R"].lane, 1);
    EXPECT_EQ(of_push["R"].end, 1u + params_.core.mxu.latency_cycles(0));
    EXPECT_EQ(lines[1].retired, of_push["R"].end);
    const Stage& wait = lines[2].stages.at(0);
    EXPECT_EQ(wait.name, "memory_wait");
    EXPECT_EQ(wait.begin, 5u);
    EXPECT_EQ(wait.end - wait.begin, result_.cores[0].total.core[CoreState::kMemoryWait]);
    EXPECT_EQ(lines[3].stages.at(0).begin, wait.end + 1);
  }
}

TEST_F(KonataTest, AWindowBeginsAtItsFirstBundle) {
  const BundleLog log = recorded(1, 6, false);
  EXPECT_EQ(log.bundles.size(), 1u);  // What waits at 5 issues behind the window.
  export_konata(log, program_.ops, path_);
  EXPECT_EQ(parse(path_).at(0).stages.at(0).begin, 0u);
  try {
    export_konata(BundleLog(), program_.ops, path_);
    ADD_FAILURE();
  } catch (const WorkloadError& error) {
    EXPECT_NE(std::string(error.what()).find("--window A:B"), std::string::npos);
  }
}

/// The viewer numbers bundles as they appear: one that waits from cycle 10 on stands before one of
/// another core that issues in cycle 50, whichever was told first.
TEST_F(KonataTest, BundlesStandInTheOrderInWhichTheyOrTheirWaitsBegin) {
  BundleRecorder recorder(program_, params_, {0, 1000});
  recorder.on_bundles({1, 0, 0, 0, 1, 50});
  recorder.on_wait(0, CoreState::kMemoryWait, 10, 100);
  recorder.on_bundles({0, 0, 0, 0, 1, 100});
  recorder.on_bundles({1, 0, 0, 1, 2, 60});
  export_konata(recorder.take(), program_.ops, path_);
  std::string threads;
  std::uint64_t last = 0;
  for (const Line& line : parse(path_)) {
    threads += line.thread;
    EXPECT_GE(line.begin, last);
    last = line.begin;
  }
  EXPECT_EQ(threads, "011");
}

TEST_F(KonataTest, MoreThanTheMostIsLeftOutAndCounted) {
  BundleRecorder recorder(program_, params_, {0, ~std::uint64_t{0}});
  for (std::uint64_t i = 0; i < 30000; ++i) recorder.on_bundles({0, 0, 0, 0, 4, 100 * i});
  const BundleLog log = recorder.take();
  EXPECT_EQ(log.left_out, 120000 - BundleRecorder::kMostBundles);
  EXPECT_EQ(log.bundles.size(), BundleRecorder::kMostBundles);
  EXPECT_EQ(log.texts.size(), 4u);
}

}  // namespace
}  // namespace tpu::traces::konata_test
