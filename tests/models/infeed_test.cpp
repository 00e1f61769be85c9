#include <gtest/gtest.h>

#include <cmath>

#include "models/core_classes.h"
#include "models/host/host_seats.h"
#include "models/host/infeed_queue.h"
#include "models/host/outfeed_queue.h"
#include "sim/base/error.h"
#include "tests/models/hbm_burst_twin.h"
#include "tests/models/test_program.h"

namespace tpu::infeed_test {
namespace {

using test::fault_of;
using test::program_of;

std::uint64_t up(double value) { return static_cast<std::uint64_t>(std::ceil(value)); }

constexpr std::uint64_t kBatchBytes = 1 << 20;
constexpr std::uint64_t kPcieLatency = 940;  // 1000 ns at 940 MHz

/// PCIe, then the write into the HBM.
std::uint64_t pcie_cycles(std::uint64_t bytes) {
  return up(static_cast<double>(bytes) * 940 / 15000) + kPcieLatency;
}
/// The cycle in which a batch is in the HBM that has crossed PCIe in cycle `now`.
std::uint64_t batch_written(std::uint64_t now) {
  return test::hbm_done(true, kBatchBytes / 1024, now);
}

/// From the end of its preparation, without refresh: PCIe and the write.
std::uint64_t batch_written_after_pcie() {
  constexpr std::uint64_t kFirstWrite = 12, kGranule = 64, kLatency = 140;  // memory clocks, cycles
  const std::uint64_t clocks = kFirstWrite + kBatchBytes / 1024 / 32 * kGranule;
  return pcie_cycles(kBatchBytes) + (clocks * 47 + 44) / 45 + kLatency;
}

/// Takes a batch of 1 MiB and then works for `work` cycles.
isa::Program taker(std::uint64_t work) {
  isa::Program program = program_of("kernel top\n" + std::string(R"(
  { dma.infeed_to_hbm 1024, 0, 1 }
  { dma.done.wait 1, 1024 }
  { vsyncadd 1, -1024 ;; vdelay )") +
                                    std::to_string(work) + " }\n");
  program.infeed_bytes = kBatchBytes;
  program.examples_per_core = 128;
  return program;
}

RunOptions steps(std::uint32_t count, std::vector<std::uint32_t> cores) {
  RunOptions options;
  options.steps = count;
  options.cores = std::move(cores);
  return options;
}

TEST(Infeed, AnUnlimitedHostIsBoundByPcie) {
  const RunResult result = test::run(taker(0), steps(1, {0}));
  const std::uint64_t arrival = pcie_cycles(kBatchBytes);
  EXPECT_EQ(result.cycles, batch_written(arrival) + 2);
  EXPECT_EQ(result.cores[0].total.core[CoreState::kInfeedWait], batch_written(arrival) - 1);
}

TEST(Infeed, PaddingDoesNotCrossPcie) {
  isa::Program program = taker(0);
  program.infeed_host_bytes = kBatchBytes / 8;
  const RunResult result = test::run(program, steps(1, {0}));
  EXPECT_EQ(result.cycles, batch_written(pcie_cycles(kBatchBytes / 8)) + 2);
}

TEST(Infeed, BatchesWaitInTheQueueWhileTheCoreWorks) {
  // After the first step two batches have arrived: the next steps find theirs at once.
  const std::uint64_t work = 10 * pcie_cycles(kBatchBytes);
  const RunResult result = test::run(taker(work), steps(3, {0}));
  for (int step = 1; step < 3; ++step) {
    const StepSpan span = result.cores[0].steps[step];
    EXPECT_EQ(span.end, batch_written(span.begin) + 2 + work);
  }
}

TEST(Infeed, ASlowHostSetsThePace) {
  MachineParams params;
  params.host.examples_per_s = 100000;
  for (const std::vector<std::uint32_t>& cores :
       {std::vector<std::uint32_t>{0}, {0, 1, 2, 3, 4, 5, 6, 7}}) {
    const RunResult result = test::run(taker(1000), steps(12, cores), params);
    const double period = 128.0 * static_cast<double>(cores.size()) / 100000 * 940e6;
    for (const CoreResult& core : result.cores) {
      // The first batch is there when the host has prepared it.
      EXPECT_GE(core.steps[0].end, up(period / static_cast<double>(cores.size())));
      for (int step = 4; step < 12; ++step) {
        const double cycles = static_cast<double>(core.steps[step].end - core.steps[step].begin);
        EXPECT_NEAR(cycles, period, 0.01 * period);
      }
      const double idle = static_cast<double>(core.total.core[CoreState::kInfeedWait]);
      EXPECT_GT(idle, 0.9 * static_cast<double>(result.cycles) - 12 * 10000.0);
    }
  }
}

TEST(Infeed, AWaitForTheHostIsNoEndlessLoop) {
  MachineParams params;
  params.host.examples_per_s = 100;
  RunOptions options = steps(2, {0});
  options.max_step_cycles = 20000;  // A batch takes 1.28 s of the host, 1.2e9 cycles.
  EXPECT_GT(test::run(taker(1000), options, params).cycles, std::uint64_t{1} << 30);
}

TEST(Infeed, AfterAWarmUpTheFirstStepHasThePaceOfTheHost) {
  MachineParams params;
  params.host.examples_per_s = 100;
  RunOptions options = steps(1, {0});
  options.warmup_steps = 1;
  const RunResult result = test::run(taker(1000), options, params);
  const CoreResult& core = result.cores[0];
  ASSERT_EQ(core.steps.size(), 1u);
  // 128 examples at 100 a second.
  EXPECT_EQ(core.steps[0].end - core.steps[0].begin, 1280000u * 940);
  EXPECT_EQ(core.begin_cycle, core.steps[0].begin);
  EXPECT_EQ(core.total.core.total(), 1280000u * 940);
  EXPECT_EQ(core.total.dmas, 1u);
}

TEST(WarmUp, AStepThatRepeatsTheOneBeforeIsTheFirstToCount) {
  MachineParams params;
  params.hbm.refresh_interval_ns = 0;
  const std::uint64_t work = 10 * pcie_cycles(kBatchBytes);
  RunOptions options = steps(2, {0});
  options.most_warmup_steps = 8;
  const RunResult result = test::run(taker(work), options, params);
  const CoreResult& core = result.cores[0];
  // The first step waits for PCIe; the second does not, and the third is like it.
  ASSERT_EQ(core.warmup.size(), 2u);
  ASSERT_EQ(core.steps.size(), 2u);
  const auto length = [](const StepSpan& span) { return span.end - span.begin; };
  EXPECT_GT(length(core.warmup[0]), length(core.warmup[1]) + pcie_cycles(kBatchBytes) / 2);
  EXPECT_EQ(length(core.warmup[1]), length(core.steps[0]));
  EXPECT_EQ(core.begin_cycle, core.steps[0].begin);
  EXPECT_EQ(core.total.core.total(), length(core.steps[0]) + length(core.steps[1]));
  EXPECT_EQ(core.total.dmas, 2u);
  // Bounded.
  options.most_warmup_steps = 1;
  EXPECT_EQ(test::run(taker(work), options, params).cores[0].warmup.size(), 1u);
}

TEST(WarmUp, AProgramWithoutAHostCountsFromItsSecondStep) {
  RunOptions options = steps(1, {0});
  options.most_warmup_steps = 8;
  const RunResult result =
      test::run(program_of("kernel top\n  { %s0 = smov 7 ;; vdelay 99 }\n"), options);
  ASSERT_EQ(result.cores[0].warmup.size(), 1u);
  EXPECT_EQ(result.cores[0].total.core.total(), 100u);
}

TEST(WarmUp, StepsMayTakeTurns) {
  const MachineParams params;
  const auto before = [](const std::vector<std::uint64_t>& cycles) {
    std::vector<StepSpan> spans;
    for (const std::uint64_t each : cycles) spans.push_back({7, 7 + each});
    return spans;
  };
  EXPECT_EQ(repeated_step(params, before({}), 1000), 0u);
  EXPECT_EQ(repeated_step(params, before({170000, 149000}), 148000), 0u);
  EXPECT_EQ(repeated_step(params, before({170000, 149000, 148000}), 149100), 2u);
  EXPECT_EQ(repeated_step(params, before({170000, 149000}), 149100), 1u);
  EXPECT_EQ(repeated_step(params, before({149000, 1, 2, 3, 4}), 149000), 0u);
  EXPECT_EQ(repeated_step(params, before({100000000}), 100090000), 1u);
  EXPECT_EQ(repeated_step(params, before({100000000}), 100110000), 0u);
}

TEST(WarmUp, AllCoresCountTheSameSteps) {
  // Each core meets its own steps at its own time: the one host serves them in turn.
  MachineParams params;
  params.host.examples_per_s = 2000000;
  RunOptions options = steps(2, {0, 1, 2, 3, 4, 5, 6, 7});
  options.most_warmup_steps = 8;
  const RunResult result = test::run(taker(40000), options, params);
  for (const CoreResult& core : result.cores) {
    EXPECT_EQ(core.warmup.size(), result.cores[0].warmup.size());
    EXPECT_EQ(core.steps.size(), 2u);
    EXPECT_EQ(core.warmup.back().end, core.begin_cycle);
  }
  EXPECT_GE(result.cores[0].warmup.size(), 1u);
}

/// Step i of core c takes about as many thousand cycles as `lengths` says.
isa::Program stepper(const std::vector<std::vector<std::uint32_t>>& lengths) {
  constexpr std::uint32_t kStep = 8, kLengths = 16, kStepsPerCore = 8;  // Words of SMEM.
  isa::Program program = program_of(R"(
kernel top
  { %s1 = sld [smem:$0x1] ;; vdelay 2 }
  { %s2 = sld [smem:$0x8] ;; vdelay 2 }
  { %s1 = sshll.u32 %s1, 3 }
  { %s1 = sadd.s32 %s1, %s2 }
  { %s2 = sadd.s32 %s2, 1 }
  { sst [smem:$0x8] %s2 }
  { %s3 = sld [smem:%s1 + $0x10] ;; vdelay 2 }
again:
  { %s3 = sadd.s32 %s3, -1 ;; vdelay 995 }
  { %p1 = scmp.gt.s32.totalorder %s3, 0 }
  { sbr.rel (%p1) target = again }
  { %s4 = smov 0 }
)");
  program.initial_smem.push_back({kStep, 0});
  for (std::uint32_t core = 0; core < lengths.size(); ++core) {
    for (std::uint32_t step = 0; step < kStepsPerCore; ++step) {
      const std::size_t last = lengths[core].size() - 1;
      program.initial_smem.push_back({kLengths + kStepsPerCore * core + step,
                                      lengths[core][std::min<std::size_t>(step, last)]});
    }
  }
  return program;
}

/// Cores that run ahead of each other are not simulated in the order in which their steps end.
TEST(WarmUp, TheCoreWhoseStepEndsFirstDecides) {
  const auto warmup = [](const std::vector<std::vector<std::uint32_t>>& lengths, bool interpret) {
    RunOptions options = steps(1, {0, 1});
    options.most_warmup_steps = 8;
    options.interpret = interpret;
    const RunResult result = test::run(stepper(lengths), options);
    EXPECT_EQ(result.cores[0].warmup.size(), result.cores[1].warmup.size());
    EXPECT_EQ(result.cores[0].steps.size(), 1u);
    return result.cores[0].warmup.size();
  };
  for (const bool interpret : {false, true}) {
    // The first core has four steps of its own, the second, which is always ahead, one; and turned.
    EXPECT_EQ(warmup({{99, 79, 59, 39, 19}, {9}}, interpret), 1u);
    EXPECT_EQ(warmup({{99}, {29, 23, 17, 11, 5}}, interpret), 5u);
    // Both end their second step in the same cycle: the one with the smaller number decides.
    EXPECT_EQ(warmup({{20, 40, 60}, {30, 30, 90}}, interpret), 3u);
    EXPECT_EQ(warmup({{30, 30, 90}, {20, 40, 60}}, interpret), 1u);
  }
}

TEST(Infeed, TheRateIsKeptWithoutDrift) {
  MachineParams params;
  params.host.examples_per_s = 99991;
  params.hbm.refresh_interval_ns = 0;
  const RunResult result = test::run(taker(0), steps(200, {0}), params);
  const double period = 128.0 / 99991 * 940e6;
  const std::vector<StepSpan>& spans = result.cores[0].steps;
  EXPECT_NEAR(static_cast<double>(spans[199].end - spans[0].end), 199 * period, 2);
}

TEST(Infeed, AYearOfStepsIsCountedToTheCycle) {
  MachineParams params;
  params.host.examples_per_s = 0.001;  // a batch of 128 in 128,000 s
  const RunResult result = test::run(taker(1000), steps(247, {0}), params);
  const std::uint64_t period = 128000 * std::uint64_t{940000000};
  const std::vector<StepSpan>& spans = result.cores[0].steps;
  EXPECT_GT(result.cycles, 365 * 24 * 3600 * std::uint64_t{940000000});
  for (std::size_t step = 1; step + 1 < spans.size(); ++step) {
    // What remains is the phase of the refresh.
    ASSERT_NEAR(static_cast<double>(spans[step].end - spans[step - 1].end),
                static_cast<double>(period), 400)
        << step;
  }
  params.hbm.refresh_interval_ns = 0;
  EXPECT_EQ(test::run(taker(1000), steps(247, {0}), params).cores[0].steps[246].end,
            247 * period + batch_written_after_pcie() + 1002);
}

TEST(Infeed, ARunThatNoCounterHoldsIsRefusedBeforeItBegins) {
  MachineParams params;
  params.host.examples_per_s = 0.00001;
  try {
    test::run(taker(1000), steps(1000000, {0}), params);
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("expected a run of less than 38.9 years"),
              std::string::npos)
        << error.what();
    // 1,000,000 steps of 128 examples, 100,000 s each.
    EXPECT_NE(std::string(error.what()).find("found one of 4.06e+05 years: 1000000 steps"),
              std::string::npos)
        << error.what();
  }
  params.host.examples_per_s = 0.000001;
  EXPECT_THROW(test::run(taker(1000), steps(1, {0}), params), ConfigurationError);
}

TEST(Infeed, ABatchMayBeTakenInPieces) {
  isa::Program program = program_of(R"(
kernel top
  { dma.infeed_to_hbm 1, 8, 1 }
  { dma.infeed_to_hbm 2, 0, 1 }
  { dma.done.wait 1, 3 }
  { vsyncadd 1, -3 }
)");
  program.infeed_bytes = 3 * 1024;
  Machine machine(MachineParams(), program);
  CoreLoad load;
  for (std::uint32_t batch = 0; batch < 2; ++batch) {
    std::vector<std::uint32_t> words(3 * 256, 10 * batch);
    words[256] = 10 * batch + 1;
    words[512] = 10 * batch + 2;
    load.infeed.push_back({0, words});
  }
  machine.load(2, load);
  RunOptions options = steps(2, {2});
  options.values = true;
  machine.run(options);
  EXPECT_EQ(machine.read_hbm(2, 8, 1)[0], 10u);
  EXPECT_EQ(machine.read_hbm(2, 0, 1)[0], 11u);
  EXPECT_EQ(machine.read_hbm(2, 1, 1)[0], 12u);
}

TEST(Infeed, TakingMoreThanABatchOrWithoutOneIsAFault) {
  isa::Program program = taker(0);
  program.infeed_bytes = 1023 * 1024;
  EXPECT_NE(fault_of(program).find("1023 are left of the batch"), std::string::npos);
  program.infeed_bytes = 0;
  EXPECT_NE(fault_of(program).find("takes no infeed"), std::string::npos);
}

TEST(Infeed, EachChipHasAPcieLinkOfItsOwn) {
  // Of one chip: the cores' parts of a batch share the link. Of four: each has its own.
  const RunResult one_chip = test::run(taker(0), steps(1, {0, 1}));
  for (const CoreResult& core : one_chip.cores) {
    EXPECT_EQ(core.end_cycle, batch_written(pcie_cycles(2 * kBatchBytes)) + 2) << core.core;
  }
  const RunResult four_chips = test::run(taker(0), steps(1, {0, 2, 4, 6}));
  for (const CoreResult& core : four_chips.cores) {
    EXPECT_EQ(core.end_cycle, batch_written(pcie_cycles(kBatchBytes)) + 2) << core.chip;
  }
}

TEST(InfeedQueue, APlaceIsFreeWhenTheLastGranuleOfItsBatchIsTaken) {
  InfeedQueue queue({1, 0}, 8);
  EXPECT_TRUE(queue.has_place());
  queue.take_place();
  queue.take_room(8);
  queue.deliver(8);
  for (const std::uint64_t granules : {3u, 4u}) {
    queue.request(granules, granules);
    ASSERT_TRUE(queue.next());
    EXPECT_FALSE(queue.has_place()) << granules;
  }
  queue.request(1, 1);
  ASSERT_TRUE(queue.next());
  EXPECT_TRUE(queue.has_place());
}

/// When the last piece of a batch of 1 MiB is there, which leaves in pieces of a quarter of the
/// queue: the wire is free behind the piece before, and there is room when the DMA, which waits,
/// has the piece that came four before.
std::uint64_t last_piece(std::uint64_t queue_bytes) {
  std::vector<std::uint64_t> there;
  double free = 0;
  for (std::uint64_t piece = 0; piece < 4 * kBatchBytes / queue_bytes; ++piece) {
    const std::uint64_t room = piece < 4 ? 0 : there[piece - 4];
    free = std::max(free, static_cast<double>(room)) +
           static_cast<double>(queue_bytes) / 4 * 940 / 15000;
    there.push_back(up(free) + kPcieLatency);
  }
  return there.back();
}

TEST(Infeed, ABatchPassesAShortQueueInPieces) {
  for (const std::uint32_t kib : {8u, 64u, 1024u}) {
    MachineParams params;
    params.host.infeed_queue_kib = kib;
    const RunResult result = test::run(taker(0), steps(1, {0}), params);
    EXPECT_EQ(result.cycles, batch_written(last_piece(kib * 1024)) + 2) << kib;
  }
  // Of 32 KiB the wire is busy with four pieces up to cycle 2053, and the first is there in 1454.
  EXPECT_EQ(last_piece(32768), pcie_cycles(kBatchBytes));
  EXPECT_GT(last_piece(8192), pcie_cycles(kBatchBytes) + 50000);
}

TEST(InfeedQueue, HasRoomForSoManyBytesAndGivesThemToTheFirstThatWaits) {
  InfeedQueue queue({4, 10}, 8);
  EXPECT_TRUE(queue.has_room(10));
  queue.take_room(8);
  EXPECT_FALSE(queue.has_room(3));
  EXPECT_TRUE(queue.has_room(2));
  queue.take_place();
  queue.request(8, 7);
  queue.deliver(5);
  EXPECT_FALSE(queue.next());
  EXPECT_TRUE(queue.has_room(7));  // Five are taken already.
  queue.deliver(3);
  const auto done = queue.next();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->token, 7u);
  EXPECT_TRUE(queue.has_room(10));
}

TEST(OutfeedQueue, ADmaIsDoneWhenItsLastBytesHaveRoom) {
  OutfeedQueue queue(100);
  EXPECT_EQ(queue.enter(0, 100, 0, 100), 0u);      // All of it has room.
  EXPECT_EQ(queue.enter(0, 100, 100, 200), 100u);  // When the first hundred have left.
  // 150 have to leave: the first hundred, and half of the second.
  EXPECT_EQ(queue.enter(50, 50, 200, 250), 150u);
  // More than it holds: all but a hundred have to be on their way.
  EXPECT_EQ(queue.enter(1000, 400, 1000, 1400), 1300u);
}

/// 64 KiB at 15000 / 940 bytes a cycle; the DMA ends when all but 16 KiB of them have left.
TEST(Outfeed, AQueueEndsTheDmaEarlier) {
  const isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_outfeed 0, 64, 1 }
  { dma.done.wait 1, 64 }
)");
  const RunResult none = test::run(program);
  MachineParams params;
  params.host.outfeed_queue_kib = 16;
  const std::uint64_t wire = up(65536.0 * 940 / 15000);
  EXPECT_EQ(test::run(program, test::on_core(0), params).cycles,
            none.cycles - wire - kPcieLatency + up(static_cast<double>(wire) * 48 / 64));
  params.host.outfeed_queue_kib = 64;
  EXPECT_EQ(test::run(program, test::on_core(0), params).cycles, none.cycles - wire - kPcieLatency);
}

/// Both cores of a chip send in the same cycle: the lower number first, the other one behind it,
/// whichever module was made first.
TEST(Outfeed, CoresOfAChipThatSendInOneCycleShareTheLinkByTheirNumbers) {
  const isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_outfeed 0, 64, 1 }
  { dma.done.wait 1, 64 }
)");
  const std::uint64_t alone = test::run(program).cycles;
  const double wire = 65536.0 * 940 / 15000;
  for (const std::uint32_t order : {0U, 1U, 2U}) {
    RunOptions options;
    options.cores = {0, 1};
    options.pod_full = true;
    options.construction_seed = order;
    const RunResult result = test::run(program, options);
    EXPECT_EQ(result.cores[0].end_cycle, alone) << order;
    EXPECT_EQ(result.cores[1].end_cycle, alone - up(wire) + up(2 * wire)) << order;
  }
}

/// Of other chips the links are others: side by side all take what one takes alone.
TEST(Outfeed, EachChipHasALinkOfItsOwn) {
  const isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_outfeed 0, 64, 1 }
  { dma.done.wait 1, 64 }
)");
  const std::uint64_t alone = test::run(program).cycles;
  const RunResult result = test::run(program, steps(1, {0, 2, 4, 6}));
  for (const CoreResult& core : result.cores) EXPECT_EQ(core.end_cycle, alone) << core.chip;
}

/// Hosts are numbered in the order of their chips; their modules have the numbers in their names.
TEST(HostSeats, EachHostHasItsNumberAndItsChips) {
  MachineParams params;
  params.ici.mesh_x = 4;
  params.ici.mesh_y = 2;
  params.host.chips = 4;
  const std::vector<CoreLoad> loads(params.cores());
  std::vector<std::uint32_t> all;
  for (std::uint32_t core = 0; core < params.cores(); ++core) all.push_back(core);
  const std::vector<HostSeat> seats =
      host_seats(params, CoreClasses(all, params.cores(), false), loads);
  ASSERT_EQ(seats.size(), 2u);
  for (std::uint32_t host = 0; host < 2; ++host) {
    EXPECT_EQ(seats[host].number, host);
    ASSERT_EQ(seats[host].cores.size(), 8u);
    EXPECT_EQ(seats[host].cores[0].number, 8 * host);
  }
}

}  // namespace
}  // namespace tpu::infeed_test
