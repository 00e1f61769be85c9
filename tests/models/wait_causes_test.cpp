#include "models/core/wait_causes.h"

#include <gtest/gtest.h>

#include "tests/models/test_program.h"

namespace tpu::wait_causes_test {
namespace {

using test::program_of;

SyncFlags::Wait wait_since(std::uint64_t since, const FlagRaiser& raiser) {
  SyncFlags::Wait wait;
  wait.since = since;
  wait.raiser = raiser;
  return wait;
}

FlagRaiser raiser_of(CoreState reason) {
  FlagRaiser raiser;
  raiser.reason = reason;
  return raiser;
}

using Row = std::tuple<std::uint64_t, std::uint64_t, CoreState, std::uint32_t>;
std::vector<Row> rows(const std::vector<WaitCauses::Piece>& pieces) {
  std::vector<Row> result;
  for (const auto& p : pieces) result.emplace_back(p.begin, p.end, p.reason, p.late_core);
  return result;
}

TEST(WaitCauses, ALateSenderIsToBlameUntilItSendsAndThenTheInterconnect) {
  WaitCauses causes(2);
  causes.begin_wait(0, 100);
  const auto pieces = causes.end_wait(0, wait_since(100, FlagRaiser::peer(1, 400)), 1000);
  EXPECT_EQ(rows(pieces), (std::vector<Row>{{100, 400, CoreState::kPeerWait, 1},
                                            {400, 1000, CoreState::kIciWait, 0}}));
}

TEST(WaitCauses, WhatWasSentBeforeTheWaitIsTheInterconnectAlone) {
  WaitCauses causes(2);
  causes.begin_wait(0, 100);
  EXPECT_EQ(rows(causes.end_wait(0, wait_since(100, FlagRaiser::peer(1, 60)), 200)),
            (std::vector<Row>{{100, 200, CoreState::kIciWait, 0}}));
}

TEST(WaitCauses, TheBlameTravelsAlongTheChainOfSenders) {
  // Core 2 waits for its infeed from 50 to 300, works, waits for its memory, sends at 340; core 1
  // gets that at 350, works and sends at 400; core 0 waits for core 1 from 0 on.
  WaitCauses causes(3);
  causes.begin_wait(0, 0);
  causes.begin_wait(1, 20);
  causes.begin_wait(2, 50);
  causes.end_wait(2, wait_since(50, raiser_of(CoreState::kInfeedWait)), 300);
  causes.begin_wait(2, 310);
  causes.end_wait(2, wait_since(310, raiser_of(CoreState::kMemoryWait)), 330);
  const std::vector<Row> of_1 = {{20, 50, CoreState::kPeerWait, 2},
                                 {50, 300, CoreState::kPeerHostWait, 2},
                                 {300, 340, CoreState::kPeerWait, 2},
                                 {340, 350, CoreState::kIciWait, 1}};
  EXPECT_EQ(rows(causes.end_wait(1, wait_since(20, FlagRaiser::peer(2, 340)), 350)), of_1);
  const std::vector<Row> of_0 = {
      {0, 20, CoreState::kPeerWait, 1},       {20, 50, CoreState::kPeerWait, 2},
      {50, 300, CoreState::kPeerHostWait, 2}, {300, 340, CoreState::kPeerWait, 2},
      {340, 350, CoreState::kIciWait, 1},     {350, 400, CoreState::kPeerWait, 1},
      {400, 420, CoreState::kIciWait, 0}};
  EXPECT_EQ(rows(causes.end_wait(0, wait_since(0, FlagRaiser::peer(1, 400)), 420)), of_0);
}

/// Core 1 gets its batch 200 cycles behind core 0, works as long, and 30 cycles more: 200 of the
/// 230 cycles in which core 0 waits for it are its host's, though in 180 of them it works.
TEST(WaitCauses, WorkThatAHostPutOffIsTheHosts) {
  WaitCauses causes(2);
  const auto infeed = [&](std::uint32_t core, std::uint64_t begin, std::uint64_t end) {
    causes.begin_wait(core, begin);
    causes.end_wait(core, wait_since(begin, raiser_of(CoreState::kInfeedWait)), end);
  };
  // A step before, in which core 1 waited for 500 cycles, is over.
  infeed(1, 0, 500);
  for (const std::uint32_t core : {0U, 1U}) causes.begin_step(core, 1000);
  infeed(0, 1000, 1100);
  infeed(1, 1000, 1300);
  causes.begin_wait(0, 1280);
  EXPECT_EQ(rows(causes.end_wait(0, wait_since(1280, FlagRaiser::peer(1, 1510)), 1520)),
            (std::vector<Row>{{1280, 1480, CoreState::kPeerHostWait, 1},
                              {1480, 1510, CoreState::kPeerWait, 1},
                              {1510, 1520, CoreState::kIciWait, 0}}));
  // Since then neither waited for its host.
  causes.begin_wait(0, 1600);
  EXPECT_EQ(rows(causes.end_wait(0, wait_since(1600, FlagRaiser::peer(1, 1700)), 1700)),
            (std::vector<Row>{{1600, 1700, CoreState::kPeerWait, 1}}));
}

/// A core that waited as long for its own host is not late by it.
TEST(WaitCauses, HostsThatMadeBothLateAreNotToBlame) {
  WaitCauses causes(2);
  for (const std::uint32_t core : {0U, 1U}) {
    causes.begin_wait(core, 0);
    causes.end_wait(core, wait_since(0, raiser_of(CoreState::kInfeedWait)), 300);
  }
  causes.begin_wait(0, 350);
  EXPECT_EQ(rows(causes.end_wait(0, wait_since(350, FlagRaiser::peer(1, 400)), 400)),
            (std::vector<Row>{{350, 400, CoreState::kPeerWait, 1}}));
}

TEST(WaitCauses, WhatAWaitingCoreMayStillAskForIsNotForgotten) {
  // Core 0 waits from cycle 5 on; core 1 has 100,000 waits for its infeed, of 3 cycles in 10.
  constexpr std::uint64_t kWaits = 100000;
  WaitCauses causes(2);
  causes.begin_wait(0, 5);
  for (std::uint64_t i = 1; i <= kWaits; ++i) {
    causes.begin_wait(1, 10 * i);
    causes.end_wait(1, wait_since(10 * i, raiser_of(CoreState::kInfeedWait)), 10 * i + 3);
  }
  const std::uint64_t end = 10 * kWaits + 10;
  std::uint64_t host = 0, all = 0;
  for (const auto& p : causes.end_wait(0, wait_since(5, FlagRaiser::peer(1, end)), end)) {
    all += p.end - p.begin;
    if (p.reason == CoreState::kPeerHostWait) host += p.end - p.begin;
  }
  EXPECT_EQ(host, 3 * kWaits);
  EXPECT_EQ(all, end - 5);
}

/// Every core takes a batch, works for `work` cycles (core 3 of chip 1: `more` cycles longer), adds
/// 1 to flag 6 of all eight cores and waits for eight.
isa::Program step_with_a_barrier(std::uint32_t more, std::uint32_t work = 1) {
  std::string text = R"(
kernel top
  { dma.infeed_to_hbm 64, 0, 1 }
  { dma.done.wait 1, 64 }
  { vsyncadd 1, -64 }
  { %s4 = smov 0 ;; vdelay )" +
                     std::to_string(work) + R"( }
  { %s1 = sld [smem:$0x0] ;; vdelay 1 }
  { %s2 = sld [smem:$0x1] ;; vdelay 1 }
  { %s3 = sshll.u32 %s1, 1 }
  { %s3 = sadd.s32 %s3, %s2 }
  { %p1 = scmp.ne.s32.totalorder %s3, 3 }
  { sbr.rel (%p1) target = meet }
  { %s4 = smov 0 }
  { %s4 = smov 0 ;; vdelay )" +
                     std::to_string(more) + R"( }
meet:
)";
  for (std::uint32_t to = 0; to < 8; ++to) {
    const std::uint32_t address = 6 | 0x40000 | (to % 2) << 20 | (to / 2) << 21;
    text += "  { vsyncadd.remote " + std::to_string(address) + ", 1 }\n";
  }
  isa::Program program = program_of(text + "  { vwait.ge.trace 6, 8 }\n  { vsyncadd 6, -8 }\n");
  program.infeed_bytes = 64 << 10;
  program.examples_per_core = 4;
  return program;
}

RunResult run_on_a_board(const isa::Program& program, double examples_per_s, bool interpret,
                         std::uint32_t chips_of_a_host = 4) {
  MachineParams params;
  params.host.examples_per_s = examples_per_s;
  params.host.chips = chips_of_a_host;
  RunOptions options;
  options.steps = 20;
  options.interpret = interpret;
  return test::run(program, options, params);
}

double fraction(const RunResult& result, std::initializer_list<CoreState> states) {
  double sum = 0, all = 0;
  for (const CoreResult& core : result.cores) {
    for (const CoreState state : states) sum += static_cast<double>(core.total.core[state]);
    all += static_cast<double>(core.total.core.total());
    EXPECT_EQ(core.total.core.total(), result.cycles);
  }
  return sum / all;
}

TEST(WaitCauses, ASlowHostIsTheCauseOnAllCoresOfABoard) {
  // 1,000 examples/s: 32 ms from step to step, which takes 0.01 ms; all cores get theirs at once.
  for (const bool interpret : {false, true}) {
    const RunResult result = run_on_a_board(step_with_a_barrier(0), 1000, interpret);
    EXPECT_GT(fraction(result, {CoreState::kInfeedWait}), 0.99);
    EXPECT_LT(fraction(result, {CoreState::kIciWait}), 0.001);
  }
}

TEST(WaitCauses, TheSlowerHostIsTheCauseOnTheCoresOfTheOther) {
  // One host feeds six cores, the other two, whose queues are full: all that these wait for is the
  // others' host.
  for (const bool interpret : {false, true}) {
    const RunResult result = run_on_a_board(step_with_a_barrier(0), 1000, interpret, 3);
    EXPECT_GT(fraction(result, {CoreState::kInfeedWait, CoreState::kPeerHostWait}), 0.99);
    EXPECT_NEAR(fraction(result, {CoreState::kPeerHostWait}), 2.0 / 8, 0.01);
    EXPECT_LT(fraction(result, {CoreState::kIciWait}), 0.001);
  }
}

TEST(WaitCauses, ABatchThatComesLaterToOneChipIsTheCauseOnTheOthers) {
  // The parts of each chip cross the network to the host of the chips behind those of the one
  // before.
  MachineParams params;
  params.host.network_mb_per_s = 1000;
  RunOptions options;
  options.steps = 20;
  const RunResult result = test::run(step_with_a_barrier(0), options, params);
  EXPECT_GT(fraction(result, {CoreState::kPeerHostWait}), 0.15);
  EXPECT_GT(fraction(result, {CoreState::kInfeedWait, CoreState::kPeerHostWait}), 0.9);
  EXPECT_LT(fraction(result, {CoreState::kIciWait}), 0.05);
}

/// The last chip's batch comes some 460,000 cycles behind the first one's, and then all work for
/// 200,000: the others wait for that work, too, and the network is the cause.
TEST(WaitCauses, WorkBehindALateBatchIsNoCauseOfItsOwn) {
  MachineParams params;
  params.host.network_mb_per_s = 1000;
  RunOptions options;
  options.steps = 20;
  const RunResult result = test::run(step_with_a_barrier(0, 200000), options, params);
  const double steps = static_cast<double>(result.cycles) / 20, work = 200000 / steps;
  EXPECT_GT(work, 0.3);
  EXPECT_NEAR(fraction(result, {CoreState::kInfeedWait, CoreState::kPeerHostWait}), 1 - work, 0.02);
  EXPECT_LT(fraction(result, {CoreState::kPeerWait}), 0.005);
}

TEST(WaitCauses, ALongerProgramIsTheCauseAndTheLateCoreIsNamed) {
  const RunResult result = run_on_a_board(step_with_a_barrier(900000), 0, false);
  EXPECT_GT(fraction(result, {CoreState::kPeerWait}), 0.8);
  EXPECT_LT(fraction(result, {CoreState::kIciWait}), 0.01);
  for (std::size_t core = 0; core < 8; ++core) {
    const auto& waited_for = result.cores[core].waited_for;
    std::uint64_t most = 0, for_core_3 = 0;
    for (const auto& [late, cycles] : waited_for) {
      most = std::max(most, cycles);
      if (late == 3) for_core_3 = cycles;
    }
    if (core == 3) continue;
    EXPECT_EQ(for_core_3, most) << core;
    EXPECT_GT(for_core_3, 20 * 890000u) << core;
  }
}

/// Core 0 waits from the begin on for core 1, which waits 1,500 times for its host: more than is
/// kept of a core for which nobody waits.
TEST(WaitCauses, TheWaitOfACoreKeepsThePastOfTheOthers) {
  RunOptions options;
  options.cores = {0, 1};
  const RunResult result = test::run(program_of(R"(
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
  { dma.hbm_to_outfeed 0, 1, 1 }
  { dma.done.wait 1, 1 }
  { vsyncadd 1, -1 }
  { %s2 = sadd.s32 %s2, 1 }
  { %p3 = scmp.lt.s32.totalorder %s2, 1500 }
  { sbr.rel (%p3) target = late }
  { %s3 = smov 0 }
  { vsyncadd.remote 262150, 1 }
end:
  { %s2 = smov 0 }
)"),
                                     options);
  const std::uint64_t waits = result.cores[1].total.core[CoreState::kOutfeedWait];
  EXPECT_GT(waits, 1500u * 940);  // The way to the host takes 1000 ns.
  EXPECT_EQ(result.cores[0].total.core[CoreState::kPeerHostWait], waits);
}

TEST(WaitCauses, PiecesOfAWaitLeaveTheUnitsAccountsWhole) {
  const RunResult result = run_on_a_board(step_with_a_barrier(5000), 1e6, false);
  for (const CoreResult& core : result.cores) {
    EXPECT_EQ(unit_account(core.total, Unit::kXlu).total(), result.cycles);
  }
}

}  // namespace
}  // namespace tpu::wait_causes_test
