#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "isa/dma_descriptor.h"
#include "models/host/stage_account.h"
#include "models/memory/hbm_mapping.h"
#include "models/memory/hbm_timing.h"
#include "models/network/link.h"
#include "tests/models/hbm_burst_twin.h"
#include "tests/models/test_program.h"

namespace tpu::part_account_test {
namespace {

using test::program_of;
using test::run;

using Cycles = std::map<std::string, std::uint64_t>;

Cycles cycles_of(const RunResult& result, const std::string& part) {
  for (const PartAccount& account : result.parts) {
    if (account.part == part) return {account.cycles.begin(), account.cycles.end()};
  }
  ADD_FAILURE() << "no account of " << part;
  return {};
}

std::uint64_t total(const Cycles& cycles) {
  std::uint64_t sum = 0;
  for (const auto& [activity, count] : cycles) sum += count;
  return sum;
}

TEST(PartAccounts, AChannelMovesDataTurnsRefreshesAndIsIdle) {
  // 3,200 granules in, 3,200 out beside them: a hundred of each in every channel.
  const RunResult result = run(program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 3200, 0, 1 }
  { dma.vmem_to_hbm 25600, 3200, 8192, 2 }
  { dma.done.wait 1, 3200 }
  { dma.done.wait 2, 3200 }
  { vdelay 1000 }
)"));
  const MachineParams params;
  const HbmTiming timing(params.hbm, params.clock_mhz);
  for (std::size_t c = 0; c < 32; ++c) {
    const Cycles channel = cycles_of(result, "HBM of core 0, channel " + std::to_string(c));
    EXPECT_EQ(total(channel), timing.to_memory(result.cycles));
    EXPECT_EQ(channel.at("data"), 200 * timing.granule);
    // They take turns.
    EXPECT_GT(channel.at("turn"), 90 * (timing.turn[0] + timing.turn[1]));
    EXPECT_LE(channel.at("turn"), 101 * (timing.turn[0] + timing.turn[1]));
    EXPECT_EQ(channel.at("refresh") % timing.refresh, 0u);
    EXPECT_GE(channel.at("refresh"), 4 * timing.refresh);
    // Asked for in cycle 0; the write of the next one is there sooner.
    EXPECT_EQ(channel.at("idle: row opens"), timing.to_memory(1) + timing.first_data[kHbmWrite]);
    EXPECT_GT(channel.at("idle: not asked"), timing.to_memory(990));
  }
}

/// The same with every command: what the bus does not move has its cause.
TEST(PartAccounts, AChannelOfCommandsTurnsRefreshesAndIsIdle) {
  RunOptions options = test::on_core(0);
  options.hbm_command = true;
  const RunResult result = run(program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 3200, 0, 1 }
  { dma.vmem_to_hbm 25600, 3200, 8192, 2 }
  { dma.done.wait 1, 3200 }
  { dma.done.wait 2, 3200 }
  { vdelay 1000 }
)"),
                               options);
  const HbmTiming timing({}, 940);
  for (std::size_t c = 0; c < 32; ++c) {
    const Cycles channel = cycles_of(result, "HBM of core 0, channel " + std::to_string(c));
    EXPECT_EQ(total(channel), timing.to_memory(result.cycles));
    EXPECT_EQ(channel.at("data"), 200 * timing.granule);
    EXPECT_GT(channel.at("turn"), 0u);
    EXPECT_GT(channel.at("refresh"), timing.refresh / 2);
    EXPECT_LT(channel.at("refresh"), channel.at("data"));
    EXPECT_GT(channel.at("idle: not asked"), timing.to_memory(990));
    EXPECT_LT(channel.at("idle: not asked"), timing.to_memory(1300));
  }
}

/// A granule in, and a granule out some cycles later: the bus turns where the second is there in
/// time for it, for as long as it then waits, and no row misses.
TEST(PartAccounts, AGranuleBehindOneOfTheOtherDirectionTurnsTheBus) {
  const MachineParams params;
  const HbmTiming timing(params.hbm, params.clock_mhz);
  std::uint64_t most = 0, least = ~std::uint64_t{0};
  for (int delay = 1; delay < 300; delay += 3) {
    const RunResult result = run(program_of(
        "kernel top\n  { dma.hbm_to_vmem 0, 32, 0, 1 ;; vdelay " + std::to_string(delay) + R"( }
  { dma.vmem_to_hbm 25600, 32, 8192, 2 }
  { dma.done.wait 1, 32 }
  { dma.done.wait 2, 32 }
)"));
    const Cycles channel = cycles_of(result, "HBM of core 0, channel 0");
    EXPECT_EQ(channel.at("row miss"), 0u) << delay;
    most = std::max(most, channel.at("turn"));
    least = std::min(least, channel.at("turn"));
  }
  // The write is there first: its data needs no row to be read.
  EXPECT_EQ(most, timing.turn[kHbmRead]);
  EXPECT_EQ(least, 0u);
}

TEST(PartAccounts, RowsOfABankThatFollowEachOtherMiss) {
  const MachineParams params;
  const HbmMapping mapping(32, params.hbm.banks, params.hbm.row_bytes / isa::kHbmGranuleBytes);
  std::uint64_t far = 1;
  while (mapping.channel(far) != mapping.channel(0) || mapping.row(far) == mapping.row(0) ||
         mapping.bank(mapping.row(far)) != mapping.bank(mapping.row(0))) {
    ++far;
  }
  const std::string far_granule = std::to_string(far);
  const RunResult result = run(program_of("kernel top\n  { dma.hbm_to_vmem 0, 1, 0, 1 }\n" +
                                          ("  { dma.hbm_to_vmem " + far_granule + ", 1, 8, 1 }\n") +
                                          "  { dma.done.wait 1, 2 }\n"));
  const HbmTiming timing(params.hbm, params.clock_mhz);
  const Cycles channel =
      cycles_of(result, "HBM of core 0, channel " + std::to_string(mapping.channel(0)));
  EXPECT_EQ(channel.at("data"), 2 * timing.granule);
  EXPECT_EQ(channel.at("row miss"), timing.row_miss[0]);
}

TEST(PartAccounts, UnitsAddUpWhereInterlocksHoldThem) {
  isa::Program program = program_of(R"(
kernel top
  { vmatmul.f32.gmra.mxu0 %v0 }
  { vmatmul.f32.gmra.mxu0 %v0 }
  { vadd.xlane.f32.xlu0 %v0 }
  { vadd.xlane.f32.xlu0 %v0 }
  { vmatmul.bf16.gmra.mxu1 %v0 }
  { vmatmul.bf16.gmra.mxu1 %v0 }
  { vdelay 30 }
)");
  program.conventions.interlocked = true;
  program.chip = "v4";
  MachineParams params;
  params.chip = "v4";
  const RunResult result = run(program, test::on_core(0), params);
  const Counters& total = result.cores[0].total;
  EXPECT_EQ(unit_account(total, Unit::kMxu0).busy, 16u);
  EXPECT_EQ(unit_account(total, Unit::kMxu1).busy, 32u);
  EXPECT_EQ(unit_account(total, Unit::kXlu).busy, 16u);
  EXPECT_EQ(unit_account(total, Unit::kMxu0).idle.total(), result.cycles - 16);
}

/// The memory goes on behind the end of the run where the machine's time does; the account does
/// not.
TEST(PartAccounts, WhatIsUnderWayAtTheEndIsCutThere) {
  const isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 3200, 0, 1 }
  { vdelay 999 }
)");
  const MachineParams params;
  const HbmTiming timing(params.hbm, params.clock_mhz);
  for (const bool interpret : {false, true}) {
    for (const bool command : {false, true}) {
      RunOptions options = test::on_core(0);
      options.interpret = interpret;
      options.hbm_command = command;
      const RunResult result = run(program, options);
      const Cycles channel = cycles_of(result, "HBM of core 0, channel 3");
      EXPECT_EQ(result.cycles, 1001u);
      EXPECT_EQ(total(channel), timing.to_memory(result.cycles)) << interpret << command;
      EXPECT_LT(channel.at("data"), 100 * timing.granule);
      const Cycles dmas = cycles_of(result, "DMAs of core 0");
      EXPECT_EQ(dmas.at("busy"), result.cycles);
      EXPECT_EQ(total(dmas), result.cycles);
    }
  }
}

/// Nobody looks at the memory again, but the DMA has ended long before the run.
TEST(PartAccounts, ADmaThatNobodyWaitsForEndsAllTheSame) {
  const isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 1, 0, 1 }
  { vdelay 999 }
)");
  for (const bool interpret : {false, true}) {
    RunOptions options = test::on_core(0);
    options.interpret = interpret;
    const RunResult result = run(program, options);
    const Cycles dmas = cycles_of(result, "DMAs of core 0");
    // A row opens, 64 clocks of 900 MHz, the latency.
    EXPECT_EQ(dmas.at("busy"), ((27u + 64) * 940 + 899) / 900 + 140) << interpret;
    EXPECT_EQ(total(dmas), result.cycles);
  }
}

TEST(PartAccounts, ADmaIsUnderWayFromItsStartToItsFlag) {
  const RunResult result = run(program_of(R"(
kernel top
  { vdelay 99 }
  { dma.hbm_to_vmem 0, 64, 0, 1 }
  { dma.done.wait 1, 64 }
  { vdelay 49 }
)"));
  const Cycles dmas = cycles_of(result, "DMAs of core 0");
  EXPECT_EQ(dmas.at("idle: core runs"), 100u + 1u + 50u);  // The wait's bundle follows the flag.
  EXPECT_EQ(dmas.at("busy"), result.cycles - 151);
}

/// A core that runs ahead learns behind the second start that the first DMA had ended before it.
TEST(PartAccounts, BetweenTwoDmasNoneIsUnderWay) {
  const isa::Program one = program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 64, 0, 1 }
  { dma.done.wait 1, 64 }
)");
  const isa::Program two = program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 64, 0, 1 }
  { vdelay 2999 }
  { dma.hbm_to_vmem 64, 64, 128, 1 }
  { vdelay 2999 }
  { dma.done.wait 1, 128 }
)");
  RunOptions options = test::on_core(0);
  const std::uint64_t alone = cycles_of(run(one, options), "DMAs of core 0").at("busy");
  EXPECT_GT(alone, 140u);  // The latency that each has, beside its data.
  EXPECT_LT(alone, 400u);
  const Cycles ahead = cycles_of(run(two, options), "DMAs of core 0");
  options.interpret = true;
  const Cycles in_order = cycles_of(run(two, options), "DMAs of core 0");
  EXPECT_EQ(ahead, in_order);
  // Each begins at another place in a clock of the memory.
  EXPECT_NEAR(static_cast<double>(ahead.at("busy")), 2.0 * static_cast<double>(alone), 4);
}

TEST(PartAccounts, ALinkCountsBytesAndGapsByTheirCause) {
  Link link(2, 3);  // A byte takes a cycle and a half.
  const auto cycles_of_link = [&] {
    const PartAccount account = link.account("link", 200);
    return Cycles(account.cycles.begin(), account.cycles.end());
  };
  link.pass(10, 5);
  link.pass(12, 1);
  link.pass(100, 20, 40);  // Started in cycle 40; the link has been free since 19.
  EXPECT_EQ(cycles_of_link(),
            (Cycles{{"busy", 39}, {"idle: not asked", 10 + 21 + 70}, {"idle: on its way", 60}}));
  // It is on the wire until 130.
  link.begin_account(110);
  EXPECT_EQ(cycles_of_link(),
            (Cycles{{"busy", 20}, {"idle: not asked", 70}, {"idle: on its way", 0}}));
  link.begin_account(150);
  link.pass(170, 2, 160);
  EXPECT_EQ(cycles_of_link(),
            (Cycles{{"busy", 3}, {"idle: not asked", 37}, {"idle: on its way", 10}}));
}

TEST(PartAccounts, AStageCountsOfItsWorkAheadWhatFallsIntoItsTime) {
  StageAccount stage;
  stage.pass(0, 40);
  stage.idle(0, 40, 50);
  stage.idle(1, 50, 60);
  stage.pass(60, 100);  // All of it is known at 5.
  stage.settle(5);
  stage.begin(30, 30);
  stage.pass(130, 200);
  stage.idle(1, 100, 130);
  const auto up_to = [&](std::uint64_t cycle, std::uint64_t free) {
    const PartAccount account = stage.end("stage", cycle, std::vector<std::uint64_t>{free},
                                          {"idle: not asked", "idle: not ready", nullptr});
    return Cycles(account.cycles.begin(), account.cycles.end());
  };
  EXPECT_EQ(up_to(80, 200),
            (Cycles{{"busy", 30}, {"idle: not asked", 10}, {"idle: not ready", 10}}));
  EXPECT_EQ(up_to(250, 200),
            (Cycles{{"busy", 120}, {"idle: not asked", 60}, {"idle: not ready", 40}}));
  // Another core's account begins later, and with it that of the host.
  stage.begin(110, 110);
  stage.begin(90, 90);
  for (int i = 0; i < 100; ++i) stage.idle(i % 2, 200 + i, 201 + i);
  stage.settle(250);
  EXPECT_EQ(up_to(300, 300),
            (Cycles{{"busy", 70}, {"idle: not asked", 50}, {"idle: not ready", 70}}));
}

/// A batch of 64 granules for core 0, then one to core 1 of the chip.
isa::Program busy_everywhere() {
  isa::Program program = program_of(R"(
kernel top
  { dma.infeed_to_hbm 64, 0, 1 }
  { dma.done.wait 1, 64 }
  { vsyncadd 1, -64 }
  { dma.hbm_to_vmem 0, 32, 0, 2 }
  { vdelay 2000 }
  { dma.done.wait 2, 32 }
  { vsyncadd 2, -32 }
  { vsyncadd.remote 262150, 1 }
  { %s2 = smov 0 ;; vdelay 20000 }
)");
  program.infeed_bytes = program.infeed_host_bytes = 64 << 10;
  program.examples_per_core = 4;
  return program;
}

/// Watches, and remembers nothing.
class Onlooker : public Observer {
  void on_step(std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t) override {}
  void on_op(std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t, const Counters&) override {
  }
  void on_wait(std::uint32_t, CoreState, std::uint64_t, std::uint64_t) override {}
  void on_dma(const DmaEvent&) override {}
};

TEST(PartAccounts, BeginWithTheFirstStepThatCounts) {
  const isa::Program program = busy_everywhere();
  for (const bool command : {false, true}) {
    RunOptions options = test::on_core(0);
    Onlooker onlooker;
    options.observer = &onlooker;
    options.warmup_steps = 2;
    options.hbm_command = command;
    const RunResult result = run(program, options);
    const StepSpan& step = result.cores.at(0).steps.at(0);
    const std::uint64_t cycles = step.end - step.begin;
    EXPECT_EQ(total(cycles_of(result, "DMAs of core 0")), cycles);
    EXPECT_EQ(total(cycles_of(result, "link 0 of chip 0")), cycles);
    EXPECT_EQ(cycles_of(result, "way to core 0").at("busy"), 0u);
    EXPECT_EQ(total(cycles_of(result, "way to core 0")), cycles);
    // A host works ahead: what it did for this step before it began is no part of it.
    const Cycles down = cycles_of(result, "PCIe of host 0, chip 0, down");
    EXPECT_EQ(total(down), cycles);
    EXPECT_LT(down.at("busy"), cycles / 2);
    const HbmTiming timing({}, 940);
    std::uint64_t moved = 0;
    for (const PartAccount& part : result.parts) {
      if (part.part.find("HBM") != 0) continue;
      const std::uint64_t clocks = total(cycles_of(result, part.part));
      EXPECT_EQ(clocks, timing.to_memory(step.end) - timing.to_memory(step.begin));
      for (const PartAccount::Moved& each : part.moved) {
        EXPECT_GE(each.begin_cycle + 1, step.begin);
        moved += each.bytes;
      }
      EXPECT_LT(part.moved.size(), 1025u);
    }
    EXPECT_EQ(moved, (64u + 32u) << 10) << "command " << command;
  }
}

TEST(PartAccounts, AnEngineIsIdleByWhatItsCoreDoes) {
  isa::Program program = busy_everywhere();
  MachineParams params;
  params.host.examples_per_s = 1e5;  // 37,600 cycles for the four.
  RunOptions options = test::on_core(0);
  options.warmup_steps = 2;
  const RunResult result = run(program, options, params);
  const Cycles dmas = cycles_of(result, "DMAs of core 0");
  // The infeed is a DMA under way while the core waits for it; else the core runs.
  EXPECT_GE(dmas.at("busy"), 37600u - 22100u);
  EXPECT_GE(dmas.at("idle: core runs"), 20000u);
  EXPECT_EQ(dmas.at("idle: infeed wait"), 0u);
  const Cycles down = cycles_of(result, "PCIe of host 0, chip 0, down");
  // Of each batch but the time on the wire; what is on its way when the step begins is no part.
  const StepSpan& step = result.cores.at(0).steps.at(0);
  EXPECT_EQ(total(down), step.end - step.begin);
  EXPECT_GT(down.at("idle: batch not ready"), 33000u);
  EXPECT_LT(down.at("idle: no room"), result.cycles / 8);
}

TEST(PartAccounts, AnEngineWithoutWorkSeesItsCoreWaitForAnother) {
  isa::Program program = program_of(R"(
kernel top
  { %s1 = sld [smem:$0x1] ;; vdelay 3 }
  { %p1 = scmp.eq.s32.totalorder %s1, 0 }
  { sbr.rel (%p1) target = meet }
  { %s9 = smov 0 }
  { %s2 = smov 0 ;; vdelay 500 }
meet:
  { %s3 = sxor.u32 %s1, 1 }
  { %s4 = sshll.u32 %s3, 20 }
  { %s4 = sor.u32 %s4, 262147 }
  { vsyncadd.remote %s4, 1 }
  { dma.done.wait 3, 1 }
  { vsyncadd 3, -1 }
)");
  program.cores = 2;
  RunOptions options;
  options.cores = {0, 1};
  const RunResult result = run(program, options);
  // Its idle cycles are the core's: what that waits, and what it runs before, between and behind.
  for (const std::uint32_t core : {0U, 1U}) {
    const Cycles dmas = cycles_of(result, "DMAs of core " + std::to_string(core));
    const CycleAccount<CoreState>& of_core = result.cores[core].total.core;
    EXPECT_EQ(dmas.at("busy"), 0u);
    EXPECT_EQ(dmas.at("idle: peer wait"), of_core[CoreState::kPeerWait]) << core;
    EXPECT_EQ(dmas.at("idle: ici wait"), of_core[CoreState::kIciWait]) << core;
    EXPECT_EQ(dmas.at("idle: core runs"), of_core[CoreState::kIssue] + of_core[CoreState::kDelay])
        << core;
    EXPECT_EQ(total(dmas), result.cycles);
  }
  const CycleAccount<CoreState>& early = result.cores[0].total.core;
  EXPECT_GT(early[CoreState::kPeerWait] + early[CoreState::kIciWait], 400u);
}

/// Nothing is asked of a link before a DMA starts; then its data is on its way out of the HBM.
TEST(PartAccounts, ALinkWaitsForWhatADmaReads) {
  isa::DmaDescriptor descriptor;
  descriptor.source.address = 64;
  descriptor.destination.space = isa::MemorySpace::kVmem;
  descriptor.destination.chip = 1;
  descriptor.granules = 16;  // One message.
  descriptor.source_flag = 3;
  descriptor.destination_flag = 4;
  descriptor.remote = true;
  isa::Program program = program_of(R"(
kernel top
  { %s1 = sld [smem:$0x0] ;; vdelay 1 }
  { %p1 = scmp.ne.s32.totalorder %s1, 0 }
  { sbr.rel (%p1) target = receive }
  { vdelay 100 }
  { dma 512 }
  { sbr.rel target = end }
  { %s4 = smov 0 }
receive:
  { dma.done.wait 4, 16 }
end:
  { %s4 = smov 0 }
)");
  const isa::DmaWords words = isa::encode(descriptor);
  for (std::uint32_t i = 0; i < 8; ++i) program.initial_smem.push_back({512 + i, words[i]});
  RunOptions options;
  options.cores = {0, 2};
  const RunResult result = run(program, options);
  const std::uint64_t begin = 2 + 1 + 1 + 101;
  const std::uint64_t read = test::hbm_done(false, 16, begin) - begin;
  // 656 Gb/s at 940 MHz: 4100 bytes in 47 cycles, the last of them in part.
  const std::uint64_t busy = 16 * 1024 * 47 / 4100;
  EXPECT_EQ(cycles_of(result, "link 0 of chip 0"),
            (Cycles{{"busy", busy},
                    {"idle: on its way", read},
                    {"idle: not asked", result.cycles - busy - read}}));
}

TEST(PartAccounts, LinksPcieAndHostsAddUp) {
  const isa::Program program = busy_everywhere();
  MachineParams params;
  params.input.images = 1000;
  params.input.decode_ns_per_pixel = 1;
  params.input.pixels = 1000;
  RunOptions options = test::on_core(0);
  options.steps = 3;
  const RunResult result = run(program, options, params);
  std::size_t busy_parts = 0;
  for (const PartAccount& account : result.parts) {
    const Cycles cycles(account.cycles.begin(), account.cycles.end());
    if (account.part.find("HBM") == 0) continue;
    const bool is_threads = account.part.find("threads") == 0;
    EXPECT_EQ(total(cycles), result.cycles * (is_threads ? params.host.vcpus : 1)) << account.part;
    if (cycles.at("busy") > 0) ++busy_parts;
  }
  // DMAs, PCIe, threads, copies.
  EXPECT_GE(busy_parts, 4u);
  const Cycles threads = cycles_of(result, "threads of host 0");
  EXPECT_EQ(threads.at("busy") % 940, 0u);  // Examples of a microsecond.
  EXPECT_GE(threads.at("busy"), 3u * 4 * 940);
}

TEST(PartAccounts, AHostThatWorksAheadCountsTheStepsThatCount) {
  const isa::Program program = busy_everywhere();
  MachineParams params;
  params.input.images = 1000;
  params.input.decode_ns_per_pixel = 1;
  params.input.pixels = 1000;
  params.input.prefetch_batches = 3;
  RunOptions options = test::on_core(0);
  options.warmup_steps = 4;
  options.steps = 2;
  const RunResult result = run(program, options, params);
  const std::vector<StepSpan>& steps = result.cores.at(0).steps;
  const std::uint64_t cycles = steps.back().end - steps.front().begin;
  for (const char* part : {"PCIe of host 0, chip 0, down", "PCIe of host 0, chip 0, up",
                           "storage of host 0", "copies of host 0"}) {
    EXPECT_EQ(total(cycles_of(result, part)), cycles) << part;
  }
  const Cycles threads = cycles_of(result, "threads of host 0");
  EXPECT_EQ(total(threads), cycles * params.host.vcpus);
  // Four examples of a microsecond for each of two steps; ten batches were made in all.
  EXPECT_EQ(threads.at("busy"), 2u * 4 * 940);
}

}  // namespace
}  // namespace tpu::part_account_test
