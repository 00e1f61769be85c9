#include "models/critical_path.h"

#include <gtest/gtest.h>

#include <numeric>

#include "models/wait_graph.h"
#include "tests/models/test_program.h"

namespace tpu::critical_path_test {
namespace {

using test::program_of;
using test::run;

constexpr std::size_t kHbm = CriticalPath::set_of(Resource::kHbm);
constexpr std::size_t kMxu = CriticalPath::set_of(Resource::kMxu);

std::uint64_t on(const CriticalPath& path, Resource resource) {
  return path.path[static_cast<std::size_t>(resource)];
}
double share(const CriticalPath& path, Resource resource) {
  return path.shares()[static_cast<std::size_t>(resource)];
}

void expect_whole(const CriticalPath& path) {
  EXPECT_EQ(std::accumulate(path.path.begin(), path.path.end(), std::uint64_t{0}), path.cycles);
  EXPECT_EQ(path.without[0], path.cycles);
  const auto shares = path.shares();
  EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-9);
  // What changes nothing when it is free has no share, not even one of rounding.
  for (std::size_t r = 0; r < shares.size(); ++r) {
    bool matters = false;
    for (std::size_t set = 0; set < CriticalPath::kSets; ++set) {
      matters |= path.without[set] != path.without[set | std::size_t{1} << r];
    }
    if (!matters) {
      EXPECT_EQ(shares[r], 0);
    }
    EXPECT_GE(shares[r], 0);
  }
}

/// One core of a graph that is written by hand, its time all of the MXU.
class HandGraph {
 public:
  explicit HandGraph(std::size_t most = 1 << 20) : graph_(MachineParams(), 1, 1, 0, most) {}

  void run(std::uint64_t cycles) {
    at_.cycle += cycles;
    at_.ran[0] += cycles;
    at_.op = 0;
  }
  std::uint32_t start() {
    graph_.at(at_);
    return graph_.start(0, 0, Resource::kHbm, Resource::kHbm);
  }
  /// A batch that the host has ready in cycle `split`.
  std::uint32_t start_batch(std::uint64_t split) {
    graph_.at(at_);
    const std::uint32_t transfer = graph_.start(0, 0, Resource::kHost, Resource::kHbm);
    graph_.split(transfer, split);
    return transfer;
  }
  /// It is done in a cycle; the core waits for it, or needs it.
  void wait(std::uint32_t transfer, std::uint64_t done) {
    graph_.at(at_);
    graph_.done(transfer, done);
    if (done <= at_.cycle) return graph_.met(at_, transfer);
    at_.cycle = done;
    graph_.released(0, done, transfer);
  }
  void end_op() { graph_.pass(at_); }
  std::uint64_t now() const { return at_.cycle; }
  CriticalPath finish() {
    end_op();
    return graph_.finish(0);
  }

 private:
  WaitGraph graph_;
  WaitGraph::Position at_;
};

TEST(CriticalPath, ATransferHidesTheWorkBesideIt) {
  HandGraph graph;
  graph.run(10);
  const std::uint32_t dma = graph.start();
  graph.run(60);
  graph.wait(dma, 1010);
  graph.run(5);
  const CriticalPath path = graph.finish();
  expect_whole(path);
  EXPECT_EQ(path.cycles, 1015u);
  EXPECT_EQ(on(path, Resource::kHbm), 1000u);
  EXPECT_EQ(on(path, Resource::kMxu), 15u);
  EXPECT_EQ(path.gain(kHbm), 940);
  EXPECT_EQ(path.gain(kMxu), 15);
  EXPECT_EQ(path.gain(kHbm | kMxu), 1015);
  EXPECT_EQ(path.twice_the_mxus, 5u + 1000 + 3);
  // What both gain only together, 60 cycles, is shared.
  EXPECT_NEAR(share(path, Resource::kHbm), 970.0 / 1015, 1e-12);
  EXPECT_NEAR(share(path, Resource::kMxu), 45.0 / 1015, 1e-12);
  EXPECT_EQ(path.ops.at(0).gain[static_cast<std::size_t>(Resource::kHbm)], 940);
}

TEST(CriticalPath, WorkHidesATransferThatIsDoneBefore) {
  HandGraph graph;
  const std::uint32_t dma = graph.start();
  graph.run(1000);
  graph.wait(dma, 600);
  const CriticalPath path = graph.finish();
  expect_whole(path);
  EXPECT_EQ(on(path, Resource::kMxu), 1000u);
  EXPECT_EQ(path.gain(kHbm), 0);
  EXPECT_EQ(path.gain(kMxu), 400);
}

/// The second one starts when the first one's data has passed: it did not wait for it.
TEST(CriticalPath, ATransferBehindTheDataOfAnotherIsNotQueued) {
  const std::uint64_t latency = MachineParams().hbm.latency_cycles;
  for (const std::uint64_t late : {0u, 1u}) {
    HandGraph graph;
    const std::uint32_t first = graph.start();
    graph.run(1000);
    const std::uint32_t second = graph.start();
    graph.run(latency + late);
    graph.wait(first, 1000 + latency + late);
    graph.wait(second, 3000);
    const CriticalPath path = graph.finish();
    expect_whole(path);
    EXPECT_EQ(on(path, Resource::kHbm), late == 0 ? 2000u : 3000u);
    EXPECT_EQ(on(path, Resource::kMxu), late == 0 ? 1000u : 0u);
  }
}

/// The data of a batch goes into the HBM behind that of a DMA, whatever was in the host before.
TEST(CriticalPath, ABatchQueuesInTheMemoryAsADmaDoes) {
  HandGraph graph;
  graph.run(10);
  const std::uint32_t dma = graph.start();
  graph.run(90);
  const std::uint32_t batch = graph.start_batch(100);
  graph.wait(dma, 1100);
  graph.wait(batch, 1200);
  const CriticalPath path = graph.finish();
  expect_whole(path);
  EXPECT_EQ(on(path, Resource::kHbm), 1190u);
  EXPECT_EQ(on(path, Resource::kMxu), 10u);
}

/// The host makes a batch each 1000 cycles whatever the core does: work between them is hidden.
TEST(CriticalPath, ALateBatchComesABatchOfTheHostBehindTheOneBeforeIt) {
  constexpr std::size_t kHost = CriticalPath::set_of(Resource::kHost);
  HandGraph graph;
  graph.run(30);
  graph.wait(graph.start_batch(1000), 1100);
  graph.run(50);
  graph.wait(graph.start_batch(2000), 2100);
  graph.run(50);
  graph.wait(graph.start_batch(3000), 3100);
  const CriticalPath path = graph.finish();
  expect_whole(path);
  EXPECT_EQ(path.cycles, 3100u);
  // Only what the core does before it asks for the first one delays them all.
  EXPECT_EQ(path.gain(kMxu), 30);
  EXPECT_EQ(path.gain(kHbm), 100);
  // Without the host: 130 cycles to the first batch, and 150 to each other.
  EXPECT_EQ(path.gain(kHost), 3100 - 130 - 2 * 150);
}

/// A loop with two buffers: the transfer for the trip after next starts when a buffer is free.
CriticalPath double_buffered(std::uint64_t work, std::uint64_t passage, std::size_t most) {
  const std::uint64_t latency = MachineParams().hbm.latency_cycles;
  HandGraph graph(most);
  std::uint64_t data_end = 0;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> waiting;
  const auto start = [&] {
    data_end = std::max(data_end, graph.now()) + passage;
    waiting.emplace_back(graph.start(), data_end + latency);
  };
  start();
  start();
  for (std::size_t trip = 0; trip < 1000; ++trip) {
    graph.wait(waiting[trip].first, waiting[trip].second);
    graph.run(work);
    start();
    graph.end_op();
  }
  return graph.finish();
}

TEST(CriticalPath, ALoopIsBoundByTheSlowerOfItsTwoSides) {
  const CriticalPath memory = double_buffered(500, 1000, 1 << 20);
  expect_whole(memory);
  EXPECT_GT(on(memory, Resource::kHbm), 99 * memory.cycles / 100);
  EXPECT_NEAR(static_cast<double>(memory.gain(kHbm)), 500e3, 5e3);
  const CriticalPath work = double_buffered(1000, 400, 1 << 20);
  expect_whole(work);
  EXPECT_GT(on(work, Resource::kMxu), 99 * work.cycles / 100);
  EXPECT_LT(work.gain(kHbm), 2000);
  // With half the work a transfer, started one trip ahead, is late in every second trip.
  const auto latency = static_cast<double>(MachineParams().hbm.latency_cycles);
  EXPECT_NEAR(static_cast<double>(work.twice_the_mxus), 1000 * (400 + latency + 500) / 2, 5e3);
}

TEST(CriticalPath, AFullRecordIsCutAndStaysWhole) {
  const CriticalPath whole = double_buffered(500, 1000, 1 << 20);
  const CriticalPath cut = double_buffered(500, 1000, 400);
  expect_whole(cut);
  EXPECT_EQ(whole.cuts, 0u);
  EXPECT_GT(cut.cuts, 5u);
  EXPECT_EQ(cut.cycles, whole.cycles);
  EXPECT_NEAR(static_cast<double>(cut.gain(kHbm)), static_cast<double>(whole.gain(kHbm)), 2e4);
}

TEST(CriticalPath, AWarmUpThatIsCutIsNotInTheResult) {
  constexpr std::size_t kMost = 50;
  for (const std::size_t warmup : {0, 1}) {
    WaitGraph graph(MachineParams(), 1, 1, warmup, kMost);
    WaitGraph::Position at;
    at.op = 0;
    const auto step = [&] {
      for (std::size_t i = 0; i < 3 * kMost; ++i) {
        at.cycle += 10;
        at.ran[0] += 10;
        graph.pass(at);
      }
    };
    step();
    graph.begin(0, at.cycle);
    step();
    const CriticalPath path = graph.finish(0);
    expect_whole(path);
    EXPECT_EQ(path.cycles, 3 * kMost * 10);
    EXPECT_EQ(path.ops.at(0).gain[0], static_cast<std::int64_t>(path.cycles));
  }
}

/// Of what a core runs when the record begins, or begins anew, the part behind that counts; one
/// that is ahead by then begins where it is.
TEST(CriticalPath, WhatACoreRunsWhenTheRecordBeginsCountsFromThere) {
  for (const bool cut : {false, true}) {
    for (const std::uint64_t ahead : {0u, 100u}) {
      WaitGraph graph(MachineParams(), 2, 1, 0, cut ? 5 : 1000);
      WaitGraph::Position late, other;
      late.core = 1;
      late.op = other.op = 0;
      for (int i = 0; i < 4; ++i) {
        if (i == 3) {
          late.cycle = late.ran[1] = ahead == 0 ? 200 : 1000 + ahead;
          graph.pass(late);
        }
        other.cycle += 250;
        other.ran[0] += 250;
        graph.pass(other);
      }
      if (!cut) graph.begin(0, other.cycle);
      late.cycle = late.ran[1] = 1500;
      graph.pass(late);
      if (!cut) graph.begin(1, late.cycle);
      other.cycle = other.ran[0] = 1200;
      graph.pass(other);
      const CriticalPath path = graph.finish(1);
      expect_whole(path);
      EXPECT_EQ(path.cycles, cut ? 1500u : 500u) << ahead;
      EXPECT_EQ(path.cuts, cut ? 1u : 0u);
      // Without it the other core needs 200 cycles more, and what it was ahead stays.
      EXPECT_EQ(path.gain(CriticalPath::set_of(Resource::kVector)), 500 - 200) << ahead;
    }
  }
}

TEST(CriticalPath, AFreeMemoryGainsWhatARunWithItGains) {
  // Reads of 64 KiB, 60 cycles of work beside each, whose last one waits for the read.
  std::string text = "kernel top\n";
  for (int i = 0; i < 20; ++i) {
    text += "  { dma.hbm_to_vmem " + std::to_string(64 * i) +
            ", 64, 0, 1 }\n  { vmatmul.f32.gmra.mxu0 %v0 ;; vdelay 60 }\n"
            "  { dma.done.wait 1, 64 }\n  { vsyncadd 1, -64 }\n";
  }
  const isa::Program program = program_of(text);
  const RunResult result = run(program);
  expect_whole(result.critical_path);
  EXPECT_EQ(result.critical_path.cycles, result.cycles);
  MachineParams free;
  free.hbm.pin_mbps = 1000000;
  free.hbm.latency_cycles = 0;
  free.hbm.refresh_interval_ns = 0;
  const std::uint64_t gained = result.cycles - run(program, test::on_core(0), free).cycles;
  EXPECT_NEAR(static_cast<double>(result.critical_path.gain(kHbm)), static_cast<double>(gained),
              0.02 * static_cast<double>(gained));
  RunOptions slow = test::on_core(0);
  slow.interpret = true;
  EXPECT_EQ(run(program, slow).critical_path.path, result.critical_path.path);
  EXPECT_EQ(run(program, slow).critical_path.without, result.critical_path.without);
}

/// Core 1 works 5,000 cycles longer and then raises flag 6 of core 0, which waits for it.
TEST(CriticalPath, ItGoesThroughTheCoreThatIsLate) {
  RunOptions options;
  options.cores = {0, 1};
  const RunResult result = run(program_of(R"(
kernel top
  { %s1 = sld [smem:$0x1] ;; vdelay 1 }
  { %p1 = scmp.ne.s32.totalorder %s1, 0 }
  { sbr.rel (%p1) target = late }
  { %s2 = smov 0 }
  { vwait.ge.trace 6, 1 }
  { %p2 = scmp.eq.s32.totalorder %s1, 0 }
  { sbr.rel (%p2) target = end }
  { %s2 = smov 0 }
late:
  { %s2 = smov 0 ;; vdelay 4999 }
  { vsyncadd.remote 262150, 1 }
end:
  { %s2 = smov 0 }
)"),
                               options);
  const CriticalPath& path = result.critical_path;
  expect_whole(path);
  EXPECT_EQ(path.cycles, result.cycles);
  EXPECT_GE(on(path, Resource::kLatency), 5000u);
  EXPECT_GT(on(path, Resource::kIci), 0u);
  EXPECT_GE(path.gain(CriticalPath::set_of(Resource::kLatency)), 5000);
}

TEST(CriticalPath, ASlowHostTakesTheStep) {
  isa::Program program = program_of(R"(
kernel top
  { dma.infeed_to_hbm 64, 0, 1 }
  { dma.done.wait 1, 64 }
  { vsyncadd 1, -64 }
  { %s2 = smov 0 ;; vdelay 20000 }
)");
  program.infeed_bytes = 64 << 10;
  program.examples_per_core = 4;
  MachineParams params;
  params.host.examples_per_s = 1000;
  RunOptions options = test::on_core(0);
  options.steps = 20;
  const RunResult result = run(program, options, params);
  expect_whole(result.critical_path);
  EXPECT_GT(share(result.critical_path, Resource::kHost), 0.9);
  params.host.examples_per_s = 0;
  const std::uint64_t gained = result.cycles - run(program, options, params).cycles;
  EXPECT_NEAR(static_cast<double>(result.critical_path.gain(CriticalPath::set_of(Resource::kHost))),
              static_cast<double>(gained), 0.01 * static_cast<double>(gained));
}

/// Without the pause between them two transfers share the memory: the second one ends as much later
/// as its bytes take, whichever way they go.
TEST(CriticalPath, TransfersThatMoveTogetherShareTheMemory) {
  for (const char* dma : {"{ dma.hbm_to_vmem 0, 512, 0, ", "{ dma.vmem_to_hbm 0, 512, 0, "}) {
    const auto program = [dma](const std::string& pause) {
      return program_of(std::string("kernel top\n") + dma + "1 }\n" + pause + dma +
                        "2 }\n{ dma.done.wait 1, 512 }\n{ dma.done.wait 2, 512 }\n");
    };
    const RunResult result = run(program("{ vdelay 20000 }\n"));
    expect_whole(result.critical_path);
    const std::uint64_t gained = result.cycles - run(program("")).cycles;
    EXPECT_NEAR(
        static_cast<double>(result.critical_path.gain(CriticalPath::set_of(Resource::kLatency))),
        static_cast<double>(gained), 50)
        << dma;
  }
}

}  // namespace
}  // namespace tpu::critical_path_test
