#include "models/core/schedule_causes.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "tests/models/test_program.h"

namespace tpu::schedule_causes_test {
namespace {

using Cause = ScheduleCause;

/// Cycles of a program's only step by cause; what is left out is 0.
std::map<Cause, std::uint64_t> causes_of(const std::string& code) {
  const RunResult result = test::run(test::program_of("kernel top\n" + code));
  const Counters& total = result.cores[0].total;
  std::map<Cause, std::uint64_t> causes;
  for (std::size_t c = 0; c < kScheduleCauses; ++c) {
    if (total.schedule[c] > 0) causes[static_cast<Cause>(c)] = total.schedule[c];
  }
  EXPECT_EQ(std::accumulate(total.schedule.begin(), total.schedule.end(), std::uint64_t{0}),
            total.core[CoreState::kIssue] + total.core[CoreState::kDelay]);
  return causes;
}

using Expected = std::map<Cause, std::uint64_t>;

TEST(ScheduleCauses, PushesAsFastAsTheMxuTakesThemAreItsPorts) {
  // 105 cycles after the first push its result is there; the last drains the pipeline.
  EXPECT_EQ(causes_of(R"(
  { vmatmul.f32.gmra.mxu0 %v0 ;; vdelay 7 }
  { vmatmul.f32.gmra.mxu0 %v0 ;; vdelay 7 }
  { vmatmul.f32.gmra.mxu0 %v0 ;; vdelay 88 }
  { %v1 = vpop.f32.mrf.mxu0 ;; vdelay 7 }
  { %v2 = vpop.f32.mrf.mxu0 ;; vdelay 7 }
  { %v3 = vpop.f32.mrf.mxu0 }
)"),
            (Expected{{Cause::kMxuPush, 16}, {Cause::kFillAndDrain, 105}, {Cause::kOtherSlot, 1}}));
}

TEST(ScheduleCauses, AResultWithoutAStretchOfPushesIsAwaited) {
  EXPECT_EQ(causes_of(R"(
  { vmatmul.f32.gmra.mxu0 %v0 ;; vdelay 104 }
  { %v1 = vpop.f32.mrf.mxu0 }
  { vst [vmem:$0x8] %v1 }
)"),
            (Expected{{Cause::kMxuResult, 106}, {Cause::kStore, 1}}));
}

TEST(ScheduleCauses, FullSlotsAreTheCauseOfTheNextBundle) {
  EXPECT_EQ(causes_of(R"(
  { %v1 = vld [vmem:$0x0] }
  { %v2 = vld [vmem:$0x8] }
  { %v3 = vld [vmem:$0x10] }
)"),
            (Expected{{Cause::kLoad, 3}}));
  EXPECT_EQ(causes_of(R"(
  { vst [vmem:$0x8] %v2 }
  { vst [vmem:$0x10] %v2 }
)"),
            (Expected{{Cause::kStore, 2}}));
  EXPECT_EQ(causes_of(R"(
  { %s1 = smov 1 ;; %s2 = smov 2 }
  { %s3 = smov 3 ;; %s4 = smov 4 }
)"),
            (Expected{{Cause::kScalar, 2}}));
}

TEST(ScheduleCauses, OneSlotOfTwoIsNotFull) {
  EXPECT_EQ(causes_of("  { %s1 = smov 1 }\n  { %s2 = smov 2 }\n"),
            (Expected{{Cause::kUnforced, 1}, {Cause::kScalar, 1}}));
  EXPECT_EQ(causes_of("  { %s1 = smov 1 }\n  { %s2 = sadd.s32 %s1, 2 }\n"),
            (Expected{{Cause::kScalarResult, 1}, {Cause::kScalar, 1}}));
}

TEST(ScheduleCauses, CyclesThatNothingAsksForAreUnforced) {
  EXPECT_EQ(causes_of("  { %s1 = smov 1 ;; vdelay 9 }\n  { %s2 = sadd.s32 %s1, 2 }\n"),
            (Expected{{Cause::kUnforced, 10}, {Cause::kScalar, 1}}));
}

/// A load is there after two cycles, a move after one: both reach the last bundle, and the load
/// explains more, whichever register it is.
TEST(ScheduleCauses, OfTwoRegistersThatAreDueTheOneThatExplainsMoreHolds) {
  for (const bool load_first : {true, false}) {
    const std::string load = load_first ? "%s1" : "%s2", move = load_first ? "%s2" : "%s1";
    EXPECT_EQ(causes_of("  { " + load + " = sld [smem:$0x400] }\n  { " + move +
                        " = smov 1 }\n  { %s3 = sadd.s32 %s1, %s2 }\n"),
              (Expected{{Cause::kScalarResult, 2}, {Cause::kScalar, 1}}))
        << load_first;
  }
}

/// The load and the move are due in the same cycle; the register has the move's value.
TEST(ScheduleCauses, WhatIsOverwrittenHoldsNobody) {
  EXPECT_EQ(causes_of(R"(
  { %s1 = sld [smem:$0x400] }
  { %s1 = smov 1 }
  { %s3 = sadd.s32 %s1, 1 }
)"),
            (Expected{{Cause::kUnforced, 1}, {Cause::kScalarResult, 1}, {Cause::kScalar, 1}}));
}

/// The table of what is due comes around every 256 cycles.
TEST(ScheduleCauses, ARegisterIsDueWhenItWasWrittenLast) {
  for (const int apart : {255, 256, 257, 512}) {
    EXPECT_EQ(causes_of("  { %s1 = smov 1 ;; vdelay " + std::to_string(apart - 1) +
                        " }\n  { %s1 = smov 2 }\n  { %s3 = sadd.s32 %s1, 1 }\n"),
              (Expected{{Cause::kUnforced, apart}, {Cause::kScalarResult, 1}, {Cause::kScalar, 1}}))
        << apart;
    // What was due that long ago holds nobody.
    EXPECT_EQ(causes_of("  { %s1 = smov 1 ;; vdelay " + std::to_string(apart) +
                        " }\n  { %s3 = sadd.s32 %s1, 1 }\n"),
              (Expected{{Cause::kUnforced, apart + 1}, {Cause::kScalar, 1}}))
        << apart;
  }
}

/// Predicates, masks and vectors as scalars are.
TEST(ScheduleCauses, EveryFileOfRegistersHolds) {
  EXPECT_EQ(causes_of("  { %p1 = pmov 1 }\n  { %p2 = pneg %p1 }\n"),
            (Expected{{Cause::kScalarResult, 1}, {Cause::kScalar, 1}}));
  EXPECT_EQ(causes_of("  { %v1 = vadd.f32 %v0, %v0 }\n  { %v2 = vadd.f32 %v1, %v1 }\n"),
            (Expected{{Cause::kVectorResult, 1}, {Cause::kVectorAlu, 1}}));
  EXPECT_EQ(causes_of("  { %m1 = vcmp.lt.f32.partialorder %v0, %v3 }\n"
                      "  { %v2 = vsel %m1, %v0, %v3 }\n"),
            (Expected{{Cause::kVectorResult, 1}, {Cause::kVectorAlu, 1}}));
}

TEST(ScheduleCauses, WeightsAreLoadedAtTheirPort) {
  // The matmul may not overtake the second; the code ends when the port is free again.
  EXPECT_EQ(causes_of(R"(
  { vmatpush.msra.mxu0 %v0 ;; vdelay 7 }
  { vmatpush.msra.mxu0 %v0 ;; vdelay 6 }
  { vmatmul.f32.gmra.mxu0 %v0 }
)"),
            (Expected{{Cause::kWeights, 16}}));
}

TEST(ScheduleCauses, ALoopIsHeldByTheTripBefore) {
  // Within a trip nothing holds the push but the one of the trip before.
  const Expected causes = causes_of(R"(
  { %s1 = smov 10 }
again:
  { %s1 = sadd.s32 %s1, -1 ;; vdelay 3 }
  { vmatmul.f32.gmra.mxu0 %v0 ;; %p1 = scmp.ne.s32.totalorder %s1, 0 ;; vdelay 1 }
  { sbr.rel (%p1) target = again }
  { %s2 = smov 0 }
)");
  EXPECT_EQ(causes.at(Cause::kMxuPush), 80u);
}

/// A branch and its slot, eleven times: the shortest loop that there is.
TEST(ScheduleCauses, ALoopOfTwoBundlesIsHeldByTheTripBefore) {
  const Expected causes = causes_of(R"(
  { %s1 = smov 10 ;; %p1 = pmov 1 }
again:
  { %s1 = sadd.s32 %s1, -1 ;; sbr.rel (%p1) target = again }
  { vmatmul.f32.gmra.mxu0 %v0 ;; %p1 = scmp.ne.s32.totalorder %s1, 0 ;; vdelay 6 }
)");
  EXPECT_EQ(causes.at(Cause::kMxuPush), 88u);
}

}  // namespace
}  // namespace tpu::schedule_causes_test
