#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/models/test_program.h"

namespace tpu::sequencer_test {
namespace {

using test::fault_of;
using test::program_of;
using test::run;

RunOptions interpreted() {
  RunOptions options = test::on_core(0);
  options.interpret = true;
  return options;
}

TEST(Sequencer, ABundleTakesACycleAndItsDelay) {
  const isa::Program program = program_of(R"(
kernel top
  { %s1 = smov 1 }
  { %s2 = smov 2 ;; vdelay 7 }
  { %s3 = smov 3 }
)");
  const RunResult result = run(program);
  EXPECT_EQ(result.cycles, 3u + 7u);
  EXPECT_EQ(result.cores[0].total.bundles, 3u);
  EXPECT_EQ(result.cores[0].total.core[CoreState::kIssue], 3u);
  EXPECT_EQ(result.cores[0].total.core[CoreState::kDelay], 7u);
}

TEST(Sequencer, ABranchExecutesOneDelaySlot) {
  // Five times: the loop's three bundles and the delay slot's vdelay.
  const isa::Program program = program_of(R"(
kernel top
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, 5 }
  { sbr.rel (%p1) target = loop }
  { %s2 = smov 1 ;; vdelay 2 }
  { %s3 = smov 1 }
)");
  const std::uint64_t expected = 1 + 5 * (4 + 2) + 1;
  EXPECT_EQ(run(program).cycles, expected);
  EXPECT_EQ(run(program, interpreted()).cycles, expected);
}

TEST(Sequencer, ANumberIsNegatedAsARegisterIs) {
  for (const bool number : {false, true}) {
    for (const int value : {0, 1}) {
      const std::string from = number ? std::to_string(value) : "%p2";
      const isa::Program program =
          program_of("kernel top\n  { %p2 = pmov " + std::to_string(value) + " }\n  { %p1 = pneg " +
                     from + R"( }
  { sbr.rel (%p1) target = end }
  { %s2 = smov 1 }
  { vdelay 99 }
end:
  { %s3 = smov 1 }
)");
      EXPECT_EQ(run(program).cycles, value == 0 ? 5u : 105u) << from;
    }
  }
}

/// Both instructions read what was there before the bundle: with a true guard the registers change
/// places, with a false one the second of them takes the first one's number.
TEST(Sequencer, InstructionsOfABundleReadWhatWasThereBefore) {
  for (const int guard : {0, 1}) {
    const isa::Program program = program_of("kernel top\n  { %p1 = pmov " + std::to_string(guard) +
                                            R"( ;; %s1 = smov 10 }
  { %s2 = smov 30 }
  { %s1 = smov (%p1), %s2 ;; %s2 = smov %s1 }
first:
  { %s1 = ssub.s32 %s1, 1 }
  { %p2 = scmp.gt.s32.totalorder %s1, 0 }
  { sbr.rel (%p2) target = first }
  { %s3 = smov 0 }
second:
  { %s2 = ssub.s32 %s2, 1 }
  { %p2 = scmp.gt.s32.totalorder %s2, 0 }
  { sbr.rel (%p2) target = second }
  { %s3 = smov 0 ;; vdelay 3 }
)");
    const std::uint64_t first = guard != 0 ? 30 : 10, second = 10;
    EXPECT_EQ(run(program).cycles, 3 + 4 * first + 7 * second) << guard;
    EXPECT_EQ(run(program, interpreted()).cycles, 3 + 4 * first + 7 * second) << guard;
  }
}

TEST(Sequencer, CallsAndReturnsTakeNoCycle) {
  const isa::Program program = program_of(R"(
kernel top
  { %s1 = smov 0 }
  { inlined_call site = 0 }
  { inlined_call site = 0 ;; vdelay 3 }
  { %s1 = smov 0 }
kernel callee
  { %s2 = smov 0 }
  { %s2 = smov 1 ;; vdelay 10 }
)");
  const RunResult result = run(program);
  EXPECT_EQ(result.cycles, 4u + 3u + 2u * 12u);
  EXPECT_EQ(result.cores[0].ops[0].count, 2u);
  EXPECT_EQ(result.cores[0].ops[0].cycles, 24u);
  EXPECT_EQ(result.cores[0].ops[0].counters.bundles, 4u);
}

/// The slot begins a contact, so it is a block of its own; first it is jumped to.
TEST(Sequencer, ADelaySlotMayBeATarget) {
  const isa::Program program = program_of(R"(
kernel top
  { %p1 = pmov 1 }
  { sbr.rel (%p1) target = slot }
  { %s2 = smov 0 }
again:
  { sbr.rel (%p1) target = end }
slot:
  { vsyncadd 9, 1 ;; vdelay 2 }
  { vdelay 9 }
  { sbr.rel (%p1) target = again }
  { %s2 = smov 0 }
  { vdelay 99 }
end:
  { %s2 = smov 0 }
)");
  const std::uint64_t expected = 3 + (3 + 10 + 2) + (1 + 3) + 1;
  EXPECT_EQ(run(program).cycles, expected);
  EXPECT_EQ(run(program, interpreted()).cycles, expected);
}

/// A branch whose slot is a block of its own, taken in some trips and not in others.
TEST(Sequencer, ABranchWithAContactInItsSlotGoesEitherWay) {
  const isa::Program program = program_of(R"(
kernel top
  { %s1 = smov 0 }
loop:
  { %s2 = sand.u32 %s1, 1 }
  { %p2 = scmp.eq.s32.totalorder %s2, 0 }
  { sbr.rel (%p2) target = even }
  { vsyncadd 9, 1 ;; vdelay 1 }
  { vdelay 49 }
even:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, 7 }
  { sbr.rel (%p1) target = loop }
  { vsyncadd 9, 1 }
)");
  const std::uint64_t expected = 1 + 7 * (3 + 2 + 4) + 3 * 50;
  EXPECT_EQ(run(program).cycles, expected);
  EXPECT_EQ(run(program, interpreted()).cycles, expected);
}

TEST(Sequencer, ACallWhoseGuardDoesNotHoldIsABundleAlone) {
  const isa::Program program = program_of(R"(
kernel top
  { %p1 = pmov 0 }
  { inlined_call (%p1) site = 0 ;; vdelay 2 }
  { inlined_call (!%p1) site = 0 }
  { %s1 = smov 0 }
kernel callee
  { vdelay 10 }
)");
  for (const RunOptions& options : {test::on_core(0), interpreted()}) {
    const RunResult result = run(program, options);
    EXPECT_EQ(result.cycles, 1u + 3u + 1u + 11u + 1u);
    EXPECT_EQ(result.cores[0].ops[0].count, 1u);
  }
}

/// More guards than a word has bits, of which every third holds.
TEST(Sequencer, GuardedPushesMayBeMoreThanAWordHasBits) {
  std::string text = "kernel top\n";
  std::uint64_t holds = 0;
  for (int push = 0; push < 100; ++push) {
    const bool does = push % 3 == 0;
    if (does) ++holds;
    text += "  { %p1 = pmov " + std::to_string(does ? 1 : 0) +
            " }\n  { vpow2.f32 (%p1), %v1 ;; vdelay 20 }\n  { %v2 = vpop.eup (%p1) }\n";
  }
  const isa::Program program = program_of(text);
  for (const RunOptions& options : {test::on_core(0), interpreted()}) {
    const RunResult result = run(program, options);
    EXPECT_EQ(result.cycles, 100u * (1 + 21 + 1));
    EXPECT_EQ(result.cores[0].total.eup_pushes, holds);
    EXPECT_EQ(unit_account(result.cores[0].total, Unit::kEup).busy, holds);
  }
}

/// The result is ready long before the wait ends, with whose bundle it is popped.
TEST(Sequencer, WhatIsReadyDuringAWaitIsPoppedInItsBundle) {
  const isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 512, 0, 1 }
  { vmatmul.f32.gmra.mxu0 %v0 }
  { dma.done.wait 1, 512 ;; %v1 = vpop.f32.mrf.mxu0 }
)");
  const RunResult fast = run(program), slow = run(program, interpreted());
  EXPECT_GT(fast.cores[0].total.core[CoreState::kMemoryWait], 105u);
  EXPECT_EQ(fast.cycles, slow.cycles);
}

TEST(Sequencer, StepsFollowEachOther) {
  const isa::Program program = program_of(R"(
kernel top
  { %s1 = smov 0 ;; vdelay 9 }
)");
  RunOptions options = test::on_core(0);
  options.steps = 3;
  const RunResult result = run(program, options);
  ASSERT_EQ(result.cores[0].steps.size(), 3u);
  for (std::uint64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(result.cores[0].steps[step].begin, 10 * step);
    EXPECT_EQ(result.cores[0].steps[step].end, 10 * step + 10);
  }
}

}  // namespace
}  // namespace tpu::sequencer_test
