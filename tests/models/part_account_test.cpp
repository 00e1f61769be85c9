#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "models/memory/hbm_mapping.h"
#include "models/memory/hbm_timing.h"
#include "models/network/link.h"
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
    EXPECT_GT(channel.at("idle"), timing.to_memory(1000));
  }
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

TEST(PartAccounts, WhatIsUnderWayAtTheEndIsCutThere) {
  const RunResult result = run(program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 3200, 0, 1 }
  { vdelay 999 }
)"));
  const MachineParams params;
  const HbmTiming timing(params.hbm, params.clock_mhz);
  const Cycles channel = cycles_of(result, "HBM of core 0, channel 3");
  EXPECT_EQ(total(channel), timing.to_memory(result.cycles));
  EXPECT_LT(channel.at("data"), 100 * timing.granule);
  const Cycles dmas = cycles_of(result, "DMAs of core 0");
  EXPECT_EQ(dmas.at("busy"), result.cycles);
  EXPECT_EQ(dmas.at("idle"), 0u);
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
  EXPECT_EQ(dmas.at("idle"), 100u + 1u + 50u);  // The wait's bundle follows the flag.
  EXPECT_EQ(dmas.at("busy"), result.cycles - 151);
}

TEST(PartAccounts, ALinkCountsBytesAndGaps) {
  Link link(2, 3);  // A byte takes a cycle and a half.
  link.pass(10, 5);
  link.pass(12, 1);
  link.pass(100, 20);
  const Cycles cycles = [&] {
    const PartAccount account = link.account("link", 200);
    return Cycles(account.cycles.begin(), account.cycles.end());
  }();
  EXPECT_EQ(cycles.at("busy"), 39u);  // 26 bytes.
  EXPECT_EQ(cycles.at("idle"), 161u);
}

TEST(PartAccounts, LinksPcieAndHostsAddUp) {
  isa::Program program = program_of(R"(
kernel top
  { dma.infeed_to_hbm 64, 0, 1 }
  { dma.done.wait 1, 64 }
  { vsyncadd 1, -64 }
  { vsyncadd.remote 262150, 1 }
  { %s2 = smov 0 ;; vdelay 20000 }
)");
  program.infeed_bytes = program.infeed_host_bytes = 64 << 10;
  program.examples_per_core = 4;
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
    EXPECT_GE(total(cycles), result.cycles) << account.part;
    if (cycles.at("busy") > 0) ++busy_parts;
  }
  // DMAs, PCIe, threads, copies.
  EXPECT_GE(busy_parts, 4u);
  const Cycles threads = cycles_of(result, "threads of host 0");
  EXPECT_EQ(threads.at("busy") % 940, 0u);  // Examples of a microsecond.
  EXPECT_GE(threads.at("busy"), 3u * 4 * 940);
}

}  // namespace
}  // namespace tpu::part_account_test
