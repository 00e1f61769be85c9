#include "traces/perfetto_units.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/models/test_program.h"
#include "tests/traces/perfetto_reader.h"

namespace tpu::traces::perfetto_units_test {
namespace {

using Spans = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

class UnitsObserver : public Observer {
 public:
  explicit UnitsObserver(PerfettoUnits& units) : units_(units) {}
  void on_step(std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t) override {}
  void on_op(std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t, const Counters&) override {
  }
  void on_wait(std::uint32_t, CoreState, std::uint64_t, std::uint64_t) override {}
  void on_dma(const DmaEvent&) override {}
  void on_bundles(const IssuedBundles& bundles) override { units_.on_bundles(bundles); }

 private:
  PerfettoUnits& units_;
};

class PerfettoUnitsTest : public testing::Test {
 protected:
  void SetUp() override {
    program_ = test::program_of(R"(
kernel top
  { %v2 = vadd.f32 %v0, %v1 ;; %v3 = vmul.f32 %v0, %v1 }
  { vmatmul.f32.gmra.mxu0 %v0 ;; vdelay 7 }
  { vmatmul.f32.gmra.mxu0 %v1 }
  { %s3 = smov 7 ;; vdelay 200 }
  { %v4 = vpop.f32.mrf.mxu0 }
)");
    params_.clock_mhz = 1000;  // A cycle is a nanosecond.
    path_ = (std::filesystem::temp_directory_path() /
             ("tpusim-units-" + std::to_string(::getpid()) + ".pftrace"))
                .string();
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::map<std::string, test::Track> written(PerfettoUnits& units) const {
    units.finish().commit();
    std::ifstream in(path_, std::ios::binary);
    std::map<std::string, test::Track> tracks;
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (const auto& [id, track] : test::tracks_of(text)) tracks[track.name] = track;
    return tracks;
  }
  void run(PerfettoUnits& units) {
    UnitsObserver observer(units);
    RunOptions options = test::on_core(0);
    options.observer = &observer;
    test::run(program_, options);
  }

  isa::Program program_;
  MachineParams params_;
  std::string path_;
};

TEST_F(PerfettoUnitsTest, EachUnitIsBusyUntilItTakesTheNext) {
  PerfettoUnits units(path_, program_, params_, {0, ~std::uint64_t{0}});
  run(units);
  EXPECT_EQ(units.slices(), 5u + 2 + 6);
  auto tracks = written(units);
  EXPECT_EQ(tracks["bundles"].slices,
            (Spans{{0, 1}, {1, 2}, {2, 9}, {9, 10}, {10, 11}, {11, 211}, {211, 212}}));
  EXPECT_EQ(tracks["bundles"].names,
            (std::vector<std::string>{"top", "top", "delay", "top", "top", "delay", "top"}));
  EXPECT_EQ(tracks["MXU 0 instructions"].slices, (Spans{{1, 9}, {9, 17}}));
  EXPECT_EQ(tracks["MXU 0 instructions"].names[1], "vmatmul.f32.gmra.mxu0");
  EXPECT_EQ(tracks["MXU 0 pops"].slices, (Spans{{211, 219}}));
  EXPECT_EQ(tracks["VALU 0 instructions"].names, std::vector<std::string>{"vadd.f32"});
  EXPECT_EQ(tracks["VALU 1 instructions"].names, std::vector<std::string>{"vmul.f32"});
  EXPECT_EQ(tracks["scalar ALU 0 instructions"].slices, (Spans{{10, 11}}));
  const std::uint64_t core = tracks["bundles"].parent;
  EXPECT_NE(core, 0u);
  EXPECT_EQ(tracks["MXU 0 pops"].parent, core);
  // Bundles first, then unit by unit, of each its instructions first.
  const char* const order[] = {"bundles", "MXU 0 instructions", "MXU 0 pops"};
  for (std::size_t i = 1; i < std::size(order); ++i) {
    EXPECT_GT(tracks[order[i]].rank, tracks[order[i - 1]].rank) << order[i];
  }
  EXPECT_EQ(tracks["VALU 1 instructions"].rank, tracks["VALU 0 instructions"].rank + 4);
  EXPECT_GT(tracks["VALU 0 instructions"].rank, tracks["bundles"].rank);
}

TEST_F(PerfettoUnitsTest, TheNextOneEndsWhatIsUnderWay) {
  PerfettoUnits units(path_, program_, params_, {0, ~std::uint64_t{0}});
  units.on_bundles({0, 0, 0, 1, 2, 10});
  units.on_bundles({0, 0, 0, 1, 2, 13});
  EXPECT_EQ(written(units)["MXU 0 instructions"].slices, (Spans{{10, 13}, {13, 21}}));
}

TEST_F(PerfettoUnitsTest, OnlyTheWindowIsWritten) {
  PerfettoUnits units(path_, program_, params_, {9, 11});
  run(units);
  auto tracks = written(units);
  EXPECT_EQ(tracks["bundles"].slices, (Spans{{9, 10}, {10, 11}, {11, 211}}));
  EXPECT_EQ(tracks.count("MXU 0 pops"), 0u);
}

TEST_F(PerfettoUnitsTest, ABundleInTheCycleOfTheWindowsEndIsBehindIt) {
  PerfettoUnits units(path_, program_, params_, {9, 10});
  run(units);
  EXPECT_EQ(written(units)["bundles"].slices, (Spans{{9, 10}}));
}

TEST_F(PerfettoUnitsTest, ARunThatBeginsAgainLeavesNothingOfTheFirst) {
  PerfettoUnits units(path_, program_, params_, {0, ~std::uint64_t{0}});
  units.on_bundles({0, 0, 0, 0, 3, 5000});
  units.forget();
  run(units);
  auto tracks = written(units);
  EXPECT_EQ(tracks["bundles"].slices.size(), 7u);
  EXPECT_EQ(tracks["bundles"].slices.back().second, 212u);
}

TEST_F(PerfettoUnitsTest, WhatIsTooMuchIsLeftOutAndCounted) {
  PerfettoUnits units(path_, program_, params_, {0, ~std::uint64_t{0}}, 1000);
  for (std::uint64_t i = 0; i < 200; ++i) units.on_bundles({0, 0, 0, 0, 5, 300 * i});
  EXPECT_GE(units.slices(), 1000u);
  EXPECT_LT(units.slices(), 1010u);
  EXPECT_GT(units.left_out(), 600u);
  EXPECT_LT(units.left_out(), 1000u);
}

/// Ten millions in 200 MB.
TEST_F(PerfettoUnitsTest, ASliceTakesLessThanTwentyBytes) {
  PerfettoUnits units(path_, program_, params_, {0, ~std::uint64_t{0}});
  for (std::uint64_t i = 0; i < 5000; ++i) units.on_bundles({0, 0, 0, 0, 5, 300 * i + i % 7});
  units.finish().commit();
  EXPECT_EQ(units.slices(), 5000u * 13);
  EXPECT_LT(std::filesystem::file_size(path_), units.slices() * 20);
}

}  // namespace
}  // namespace tpu::traces::perfetto_units_test
