#include "sim/report/summary.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/traces/synthetic_record.h"

namespace tpu::report::summary_test {
namespace {

// Of the synthetic record: 2 cores x 2 steps; core 0 takes 1000 cycles a step, core 1 1100.
constexpr double kCycles = 4400;                                     // Both cores to the end.
constexpr double kPinBytesPerCycle = 1800e6 / 8 * 128 * 16 / 940e6;  // Half of the channels.
constexpr double kMhz = 940;

TEST(Summary, AStepTakesWhatItsSlowestCoreTakes) {
  const Summary summary = summarize(test::synthetic_record());
  ASSERT_EQ(summary.steps.size(), 2u);
  EXPECT_EQ(summary.steps[0].cycles, 1100u);
  EXPECT_DOUBLE_EQ(summary.step_mean_ms, 1100 / (kMhz * 1e3));
  EXPECT_DOUBLE_EQ(summary.step_min_ms, 1100 / (kMhz * 1e3));
  EXPECT_DOUBLE_EQ(summary.step_max_ms, 1100 / (kMhz * 1e3));
  EXPECT_NEAR(summary.examples_per_s, 256 / (1100 / (kMhz * 1e6)), 1);
}

TEST(Summary, UtilizationsAreThoseOfTheirDefinitions) {
  const Utilization used = summarize(test::synthetic_record()).utilization;
  EXPECT_DOUBLE_EQ(used.mxu, 4 * 120 * 8 / (kCycles * 2));
  EXPECT_DOUBLE_EQ(used.mxu_flops, 4 * 13107200.0 / (kCycles * 2 * 2 * 128 * 128));
  EXPECT_DOUBLE_EQ(used.vpu, 4 * 300 / (2 * kCycles));
  EXPECT_DOUBLE_EQ(used.hbm, 4 * 120000 / (kCycles * kPinBytesPerCycle));
  EXPECT_EQ(used.ici, 0);
}

TEST(Summary, IciCountsTheLinksOfTheChipsThatRun) {
  traces::RunRecord record = test::synthetic_record();
  record.result.cores[0].total.ici_bytes = 220000;
  // A chip of a 2x2 mesh has two links of 656 Gb/s; the run takes 2200 cycles.
  const double link_bytes = 2 * 656e9 / 8 / 940e6 * 2200;
  EXPECT_NEAR(summarize(record).utilization.ici, 220000 / link_bytes, 1e-12);
  record.params.ici.mesh_x = 4;
  record.params.ici.wrap_x = true;
  const double more_bytes = 3 * 656e9 / 8 / 940e6 * 2200;
  EXPECT_NEAR(summarize(record).utilization.ici, 220000 / more_bytes, 1e-12);
}

/// A chip counts once, in whatever order its cores are.
TEST(Summary, IciCountsAChipOnceWhoseCoresAreApart) {
  traces::RunRecord record = test::synthetic_record();
  record.result.cores.push_back(record.result.cores[1]);
  record.core_numbers.push_back(2);
  record.result.cores[1].chip = 1;
  record.result.cores[0].total.ici_bytes = 220000;
  const double link_bytes = 2 * 656e9 / 8 / 940e6 * 2200;
  EXPECT_NEAR(summarize(record).utilization.ici, 220000 / (2 * link_bytes), 1e-12);
}

/// Nobody has said what the padding is.
TEST(Summary, WithoutPaddedFlopsAnOpHasNoPadding) {
  traces::RunRecord record = test::synthetic_record();
  record.ops[0].padded_matmul_flops = 0;
  EXPECT_EQ(summarize(record).ops[0].matmul_padding, 1);
}

TEST(Summary, TheBreakdownAddsUpToOne) {
  const Breakdown parts = summarize(test::synthetic_record()).breakdown;
  EXPECT_DOUBLE_EQ(parts.compute, 4 * 650 / kCycles);
  EXPECT_DOUBLE_EQ(parts.memory_wait, 4 * 250 / kCycles);
  EXPECT_DOUBLE_EQ(parts.infeed_wait, 600 / kCycles);
  EXPECT_DOUBLE_EQ(parts.finished, 200 / kCycles);
  EXPECT_NEAR(parts.compute + parts.memory_wait + parts.infeed_wait + parts.outfeed_wait +
                  parts.ici_wait + parts.host_wait + parts.finished,
              1, 1e-12);
}

TEST(Summary, IdleIsWaitingForTheHostAndHavingFinished) {
  EXPECT_DOUBLE_EQ(summarize(test::synthetic_record()).idle_fraction, (600 + 200) / kCycles);
}

TEST(Summary, WaitingForTheOutfeedIsIdleToo) {
  traces::RunRecord record = test::synthetic_record();
  for (CoreResult& core : record.result.cores) {
    core.total.core = {};
    core.total.core.add(CoreState::kIssue, 700);
    core.total.core.add(CoreState::kInfeedWait, 50);
    core.total.core.add(CoreState::kOutfeedWait, 250);
  }
  const Summary summary = summarize(record);
  EXPECT_DOUBLE_EQ(summary.breakdown.outfeed_wait, 0.25);
  EXPECT_DOUBLE_EQ(summary.idle_fraction, 0.3);
}

TEST(Summary, TheRooflineIsTheGreaterOfFlopsAndBytes) {
  traces::RunRecord record = test::synthetic_record();
  Roofline roofline = summarize(record).roofline;
  EXPECT_NEAR(roofline.compute_ms, 200 / (kMhz * 1e3), 1e-12);  // 13107200 / 65536 cycles
  EXPECT_NEAR(roofline.memory_ms, 50000 / kPinBytesPerCycle / (kMhz * 1e3), 1e-12);
  EXPECT_EQ(roofline.bound_ms, roofline.compute_ms);
  EXPECT_NEAR(roofline.reached, 200.0 / 1100, 1e-12);
  record.compulsory_hbm_bytes = 1000000;
  roofline = summarize(record).roofline;
  EXPECT_EQ(roofline.bound_ms, roofline.memory_ms);
}

TEST(Summary, OpsAreMeansOverCoresMostExpensiveFirst) {
  const Summary summary = summarize(test::synthetic_record());
  ASSERT_EQ(summary.ops.size(), 3u);
  EXPECT_EQ(summary.ops[0].op, 0u);
  EXPECT_EQ(summary.ops[0].count, 2);
  EXPECT_EQ(summary.ops[0].cycles, 1200);
  EXPECT_EQ(summary.ops[0].flops, 2000);
  EXPECT_EQ(summary.ops[1].op, 1u);
  EXPECT_EQ(summary.ops[1].hbm_bytes, 240000);
  EXPECT_EQ(summary.ops[2].op, 2u);
  EXPECT_EQ(summary.ops[2].cycles, (200 + 400) / 2);
  EXPECT_EQ(summary.ops[2].cycles_max, 400u);
  EXPECT_EQ(summary.useful_matmul_flops, 1600);
  EXPECT_EQ(summary.padded_matmul_flops, 3200);
}

/// Of 2 x 600 cycles that the op takes on each of two cores.
TEST(Summary, SharesOfAnOpAreItsCountersOverItsCycles) {
  traces::RunRecord record = test::synthetic_record();
  for (CoreResult& core : record.result.cores) {
    Counters& counters = core.ops[0].counters;
    counters.busy_cycles[static_cast<std::size_t>(Unit::kEup)] = 300;
    counters.busy_cycles[static_cast<std::size_t>(Unit::kXlu)] = 600;
    counters.vector_loads = 240;
    counters.vector_stores = 120;
    counters.core.add(CoreState::kInfeedWait, 12);
    counters.core.add(CoreState::kOutfeedWait, 24);
    counters.core.add(CoreState::kPeerHostWait, 36);
    counters.core.add(CoreState::kIciWait, 48);
    counters.core.add(CoreState::kPeerWait, 60);
  }
  const Shares shares = summarize(record).ops[0].shares;
  EXPECT_DOUBLE_EQ(shares.eup, 0.25);
  EXPECT_DOUBLE_EQ(shares.xlu, 0.5);
  EXPECT_DOUBLE_EQ(shares.vector_load, 0.2);
  EXPECT_DOUBLE_EQ(shares.vector_store, 0.1);
  EXPECT_DOUBLE_EQ(shares.infeed, 0.06);
  EXPECT_DOUBLE_EQ(shares.ici, 0.04);
  EXPECT_DOUBLE_EQ(shares.peer, 0.05);
}

TEST(Summary, WithoutWarmUpTheFirstStepIsTheFirstThatCounts) {
  const Summary summary = summarize(test::synthetic_record());
  EXPECT_EQ(summary.steady.number, 1u);
  EXPECT_DOUBLE_EQ(summary.steady.first_ms, 1100 / (kMhz * 1e3));
}

TEST(Summary, EachOpIsBoundByWhatShortensIt) {
  const Summary summary = summarize(test::synthetic_record());
  EXPECT_EQ(to_string(summary.ops[0].bound), "padding");
  EXPECT_DOUBLE_EQ(summary.ops[0].bound.gain, 480.0 / 600);
  EXPECT_EQ(summary.ops[0].matmul_padding, 2);
  EXPECT_EQ(summary.ops[0].layout_padding, 2);
  EXPECT_EQ(to_string(summary.ops[1].bound), "HBM");
  EXPECT_DOUBLE_EQ(summary.ops[1].bound.gain, 250.0 / 300);
  EXPECT_EQ(to_string(summary.ops[2].bound), "host");
  EXPECT_EQ(summary.ops[2].bound.gain, 1);
}

/// The bound of an op of 1,200 cycles with these gains.
std::string bound_of(const CriticalPath::Op& op, double padding = 1) {
  traces::RunRecord record = test::synthetic_record();
  record.ops[0].padded_matmul_flops =
      static_cast<std::uint64_t>(padding * static_cast<double>(record.ops[0].matmul_flops));
  record.ops[0].shape.clear();
  record.result.critical_path.ops[0] = op;
  return to_string(summarize(record).ops[0].bound);
}

CriticalPath::Op gains(std::int64_t mxu, std::int64_t vector, std::int64_t hbm) {
  CriticalPath::Op op;
  // All of the path: a share of the path is no bound.
  op.path[static_cast<std::size_t>(Resource::kHbm)] = 1200;
  op.gain[static_cast<std::size_t>(Resource::kMxu)] = mxu;
  op.gain[static_cast<std::size_t>(Resource::kVector)] = vector;
  op.gain[static_cast<std::size_t>(Resource::kHbm)] = hbm;
  return op;
}

TEST(Bound, AGainOfAThirdIsABoundAndWhatComesNearItToo) {
  EXPECT_EQ(bound_of(gains(0, 0, 400)), "HBM");
  EXPECT_EQ(bound_of(gains(0, 0, 399)), "balanced");
  EXPECT_EQ(bound_of(gains(399, 399, 399)), "balanced");
  EXPECT_EQ(bound_of(gains(600, 299, 299)), "MXU");
  EXPECT_EQ(bound_of(gains(300, 0, 600)), "HBM+MXU");
  EXPECT_EQ(bound_of(gains(400, 500, 0)), "VPU+MXU");
  EXPECT_EQ(bound_of(gains(400, 400, 400)), "balanced");
  EXPECT_EQ(bound_of(gains(-400, 0, 0)), "");
}

TEST(Bound, PaddingNeedsMoreThanHalfAsMuchWorkAgain) {
  EXPECT_EQ(bound_of(gains(900, 0, 0), 1.5), "MXU");
  EXPECT_EQ(bound_of(gains(900, 0, 0), 1.51), "padding");
  EXPECT_EQ(bound_of(gains(0, 0, 900), 1.51), "HBM");
  EXPECT_EQ(bound_of(gains(600, 0, 600), 1.51), "MXU+HBM");
}

TEST(Summary, CausesOfAnOpAddUpAndSoDoesTheAccountOfTheSequencers) {
  const Summary summary = summarize(test::synthetic_record());
  EXPECT_EQ(total(summary.sequencer), static_cast<double>(summary.core_cycles));
  EXPECT_DOUBLE_EQ(summary.ops[0].causes[static_cast<std::size_t>(Resource::kLatency)], 0.2);
  for (const OpSummary& op : summary.ops) {
    EXPECT_NEAR(std::accumulate(op.causes.begin(), op.causes.end(), 0.0), 1, 1e-12);
  }
}

TEST(Summary, MemoryCountsADonatedOutputOnce) {
  const Memory memory = summarize(test::synthetic_record()).memory;
  EXPECT_EQ(memory.padded_bytes, 8192u + 102400u);
  EXPECT_EQ(memory.unpadded_bytes, 1024u + 102400u);
  EXPECT_EQ(memory.role_bytes[static_cast<std::size_t>(isa::BufferRole::kOutput)], 0u);
  EXPECT_EQ(memory.largest, (std::vector<std::uint32_t>{2, 0}));
  EXPECT_EQ(memory.hbm_plan_bytes, std::uint64_t{3} << 30);
  EXPECT_EQ(memory.hbm_peak_bytes, 8192u + 102400u);
}

TEST(Summary, TemporariesThatShareARangeCountItOnce) {
  traces::RunRecord record = test::synthetic_record();
  isa::Buffer later = record.buffers[2];
  later.granule += 50;  // Half of the first one's 100 granules.
  record.buffers.push_back(later);
  record.lifetimes.push_back({1, 2});
  const Memory memory = summarize(record).memory;
  EXPECT_EQ(memory.role_bytes[static_cast<std::size_t>(isa::BufferRole::kTemporary)], 150u * 1024);
  EXPECT_EQ(memory.hbm_peak_bytes, 8192u + 150 * 1024u);  // Both live in op 1.
  record.lifetimes.back() = {2, 2};
  EXPECT_EQ(summarize(record).memory.hbm_peak_bytes, 8192u + 100 * 1024u);
}

TEST(Summary, EveryCycleOfAUnitIsSomewhere) {
  for (const UnitSummary& unit : summarize(test::synthetic_record()).units) {
    double sum = unit.busy;
    for (const double part : unit.idle) sum += part;
    EXPECT_NEAR(sum, 1, 1e-12) << to_string(unit.unit);
    if (unit.unit == Unit::kMxu1) {
      EXPECT_DOUBLE_EQ(unit.busy, 4 * 480 / kCycles);
      EXPECT_DOUBLE_EQ(unit.idle[static_cast<std::size_t>(CoreState::kMemoryWait)],
                       4 * (250 - 20) / kCycles);
    }
  }
}

TEST(Summary, ARunWithoutStepsHasNoRates) {
  traces::RunRecord record = test::synthetic_record();
  record.result.cores.clear();
  record.core_numbers.clear();
  const Summary summary = summarize(record);
  EXPECT_EQ(summary.steps.size(), 0u);
  EXPECT_EQ(summary.examples_per_s, 0);
  EXPECT_EQ(summary.utilization.mxu, 0);
}

}  // namespace
}  // namespace tpu::report::summary_test
