#include "models/core/scoreboard.h"

#include <gtest/gtest.h>

#include "models/core/sync_flags.h"
#include "models/core/xlu.h"

namespace tpu::scoreboard_test {
namespace {

/// One bundle that writes register v5 after three cycles, one that reads it, one with a push to
/// MXU 0 and one with its pop.
DecodedKernel kernel() {
  DecodedKernel result;
  DecodedBundle bundle;
  result.slow_writes.push_back({timed_register::kVector + 5, 3});
  result.queue_ops.resize(2);
  result.queue_ops[0].kind = QueueOp::Kind::kMxuRows;
  result.queue_ops[0].results = 1;
  result.queue_ops[1].kind = QueueOp::Kind::kMxuPop;
  result.bundles.push_back(bundle);
  bundle.first_slow_write = 1;
  bundle.reads[1] = 1U << 5;
  result.bundles.push_back(bundle);
  bundle.reads[1] = 0;
  result.bundles.push_back(bundle);
  bundle.first_queue_op = 1;
  result.bundles.push_back(bundle);
  bundle.first_queue_op = 2;
  result.bundles.push_back(bundle);
  return result;
}
enum Bundle : std::size_t { kWrite, kRead, kPush, kPop };

TEST(Scoreboard, ARegisterIsThereAfterItsLatency) {
  const DecodedKernel code = kernel();
  for (std::uint64_t distance : {1u, 2u, 3u}) {
    Scoreboard scoreboard{CoreParams()};
    EXPECT_FALSE(scoreboard.issue(code, kWrite, 0, 100));
    const Scoreboard::Violation violation = scoreboard.issue(code, kRead, 0, 100 + distance);
    EXPECT_EQ(static_cast<bool>(violation), distance < 3);
    if (violation) {
      EXPECT_EQ(violation.hazard.kind, Hazard::Kind::kRegisterEarly);
      EXPECT_EQ(violation.hazard.ready, 103u);
    }
  }
}

/// XLA's code for v4 pops when it likes: the core waits, and what follows is as late.
TEST(Scoreboard, AnInterlockWaitsForWhatComesTooEarly) {
  const DecodedKernel code = kernel();
  const CoreParams params;
  Scoreboard scoreboard{params};
  isa::CodeConventions conventions;
  conventions.interlocked = true;
  scoreboard.set_conventions(conventions);
  EXPECT_FALSE(scoreboard.issue(code, kPush, 0, 50));
  EXPECT_EQ(scoreboard.take_held(), 0u);
  EXPECT_FALSE(scoreboard.issue(code, kPush, 0, 52));  // Due at 58.
  EXPECT_EQ(scoreboard.take_held(), 6u);
  EXPECT_FALSE(scoreboard.issue(code, kPop, 0, 60));
  EXPECT_EQ(scoreboard.take_held(), 50 + params.mxu.latency_cycles() - 60);
  EXPECT_FALSE(scoreboard.issue(code, kPop, 0, 1000));
  EXPECT_EQ(scoreboard.take_held(), 0u);
  EXPECT_EQ(scoreboard.issue(code, kPop, 0, 2000).hazard.kind, Hazard::Kind::kQueueEmpty);
}

TEST(Scoreboard, APushOfSixteenRowsTakesTwiceAsLongAndGivesTwoResults) {
  DecodedKernel code = kernel();
  code.queue_ops[0].packed = true;
  const CoreParams params;
  const std::uint64_t first = 100 + params.mxu.latency_cycles();
  Scoreboard scoreboard{params};
  EXPECT_FALSE(scoreboard.issue(code, kPush, 0, 100));
  EXPECT_EQ(scoreboard.issue(code, kPush, 0, 115).hazard.ready, 116u);
  EXPECT_FALSE(scoreboard.issue(code, kPop, 0, first));
  EXPECT_EQ(scoreboard.issue(code, kPop, 0, first + 7).hazard.ready, first + 8);
  EXPECT_FALSE(scoreboard.issue(code, kPop, 0, first + 8));
}

TEST(Scoreboard, ASavedStateGoesOnAsTheOriginalWould) {
  const DecodedKernel code = kernel();
  for (std::uint64_t later = 0; later < 120; ++later) {
    Scoreboard original{CoreParams()};
    original.issue(code, kPush, 0, 50);
    original.issue(code, kWrite, 0, 51);
    const std::uint64_t now = 52 + later;
    Scoreboard restored{CoreParams()};
    restored.load(original.save(now));
    const Scoreboard::Violation a = original.issue(code, kPop, 0, now);
    const Scoreboard::Violation b = restored.issue(code, kPop, 0, 0);
    EXPECT_EQ(a.hazard.kind, b.hazard.kind);
    EXPECT_EQ(static_cast<bool>(a), now < 50 + 105);
    if (a) {
      EXPECT_EQ(a.hazard.ready - now, b.hazard.ready);
    }
  }
}

TEST(Scoreboard, StatesThatDifferOnlyInThePastAreTheSame) {
  const DecodedKernel code = kernel();
  Scoreboard early{CoreParams()};
  early.issue(code, kPush, 0, 10);
  Scoreboard late{CoreParams()};
  late.issue(code, kPush, 0, 90);
  EXPECT_EQ(early.save(300), late.save(400));
  EXPECT_NE(early.save(100), late.save(100));
}

/// A core with arrays of 2x2 blocks, each with a bundle per operation.
class LargeArray {
 public:
  LargeArray() : scoreboard_(params()) {}
  static CoreParams params() {
    CoreParams core;
    core.mxu.rows = core.mxu.columns = 256;
    core.mxu.result_queue_entries = 2;
    return core;
  }
  Hazard act(QueueOp::Kind kind, std::uint32_t part, std::uint64_t now) {
    DecodedKernel code;
    QueueOp op;
    op.kind = kind;
    op.part = static_cast<std::uint8_t>(part);
    op.results = 2;
    code.queue_ops.push_back(op);
    code.bundles.resize(2);
    code.bundles[1].first_queue_op = 1;
    return scoreboard_.issue(code, 0, 0, now).hazard;
  }
  Scoreboard& scoreboard() { return scoreboard_; }

 private:
  Scoreboard scoreboard_;
};

TEST(LargeArray, ResultsOfEachColumnPartComeWhenTheLastRowHasCrossedTheArray) {
  using Kind = QueueOp::Kind;
  // Seven rows behind the first, 127 further levels of two cells, 63 groups of four, the sum's own
  // cycle and three stages.
  constexpr std::uint64_t kLatency = 7 + 127 + 63 + 1 + 3;
  for (const auto& [part, latency] : {std::pair(0U, kLatency - 32), {1U, kLatency}}) {
    LargeArray array;
    EXPECT_FALSE(array.act(Kind::kMxuRows, 0, 10));
    const Hazard early = array.act(Kind::kMxuPop, part, 10 + latency - 1);
    EXPECT_EQ(early.kind, Hazard::Kind::kResultEarly);
    EXPECT_EQ(early.ready, 10 + latency);
  }
  LargeArray array;
  EXPECT_FALSE(array.act(Kind::kMxuRows, 0, 10));
  EXPECT_FALSE(array.act(Kind::kMxuPop, 0, 10 + kLatency));
  EXPECT_FALSE(array.act(Kind::kMxuPop, 1, 10 + kLatency));
  EXPECT_EQ(array.act(Kind::kMxuPop, 1, 10 + kLatency + 8).kind, Hazard::Kind::kQueueEmpty);
}

TEST(LargeArray, EachRowPartAndColumnPartHasAPortOfItsOwn) {
  using Kind = QueueOp::Kind;
  for (const Kind kind : {Kind::kMxuLatch, Kind::kMxuWeights}) {
    LargeArray array;
    EXPECT_FALSE(array.act(kind, 1, 100));
    EXPECT_FALSE(array.act(kind, 0, 101));
    EXPECT_EQ(array.act(kind, 1, 107).kind, Hazard::Kind::kPushEarly);
    EXPECT_FALSE(array.act(kind, 1, 108));
  }
}

TEST(LargeArray, AFullQueueOfOneColumnPartStopsTheMatmul) {
  using Kind = QueueOp::Kind;
  LargeArray array;
  EXPECT_FALSE(array.act(Kind::kMxuRows, 0, 0));
  EXPECT_FALSE(array.act(Kind::kMxuRows, 0, 8));
  EXPECT_FALSE(array.act(Kind::kMxuPop, 0, 300));
  EXPECT_EQ(array.act(Kind::kMxuRows, 0, 301).kind, Hazard::Kind::kQueueFull);
}

TEST(LargeArray, ASavedStateGoesOnAsTheOriginalWould) {
  using Kind = QueueOp::Kind;
  for (std::uint64_t later = 0; later < 240; later += 7) {
    LargeArray original, restored;
    original.act(Kind::kMxuRows, 0, 50);
    original.act(Kind::kMxuLatch, 1, 55);
    original.act(Kind::kMxuWeights, 1, 56);
    const std::uint64_t now = 57 + later;
    restored.scoreboard().load(original.scoreboard().save(now));
    for (const auto& [kind, part] :
         {std::pair(Kind::kMxuLatch, 1U), {Kind::kMxuWeights, 1U}, {Kind::kMxuPop, 1U}}) {
      EXPECT_EQ(original.act(kind, part, now).kind, restored.act(kind, part, 0).kind);
    }
  }
}

TEST(Xlu, TransposedRowsArePoppedOnePerInterval) {
  Xlu xlu(CoreParams(), 1);
  ASSERT_FALSE(xlu.push_transpose(100, 3));
  EXPECT_FALSE(xlu.pop_transposed(101));
  const Hazard early = xlu.pop_transposed(108);
  EXPECT_EQ(early.kind, Hazard::Kind::kPopEarly);
  EXPECT_EQ(early.ready, 109u);
  EXPECT_FALSE(xlu.pop_transposed(109));
  EXPECT_FALSE(xlu.pop_transposed(117));
  // Reduced rows have a queue without an interval.
  ASSERT_FALSE(xlu.push(200));
  ASSERT_FALSE(xlu.push(208));
  EXPECT_FALSE(xlu.pop(300));
  EXPECT_FALSE(xlu.pop(301));
}

// A block that is entered in a known state is not checked again: what every unit still holds is
// part of that state.
TEST(Scoreboard, ASavedStateHoldsTheResultsOfEveryUnit) {
  using Kind = QueueOp::Kind;
  const std::pair<Kind, Kind> units[] = {{Kind::kEupPush, Kind::kEupPop},
                                         {Kind::kXluPush, Kind::kXluPop},
                                         {Kind::kTransposePush, Kind::kTransposePop},
                                         {Kind::kScalarPush, Kind::kScalarPop}};
  for (const auto& [push, pop] : units) {
    for (std::uint64_t later = 1; later < 200; later += 3) {
      LargeArray original, restored, empty;
      EXPECT_FALSE(original.act(push, 0, 50));
      restored.scoreboard().load(original.scoreboard().save(50 + later));
      const Hazard expected = original.act(pop, 0, 50 + later), found = restored.act(pop, 0, 0);
      EXPECT_EQ(found.kind, expected.kind) << later;
      if (expected) {
        EXPECT_EQ(found.ready + 50 + later, expected.ready);
      }
      EXPECT_EQ(empty.act(pop, 0, 0).kind, Hazard::Kind::kQueueEmpty);
    }
  }
}

// vpush has the latency of its row in isa/opcodes.def, one cycle: not the bundle of the push
// itself.
TEST(Scoreboard, AValueReachesTheScalarUnitACycleAfterItsPush) {
  LargeArray core;
  EXPECT_FALSE(core.act(QueueOp::Kind::kScalarPush, 0, 100));
  const Hazard early = core.act(QueueOp::Kind::kScalarPop, 0, 100);
  EXPECT_EQ(early.kind, Hazard::Kind::kResultEarly);
  EXPECT_EQ(early.ready, 101u);
  EXPECT_FALSE(core.act(QueueOp::Kind::kScalarPop, 0, 101));
}

TEST(SyncFlags, CompareAsSignedNumbers) {
  constexpr auto kMinus = [](std::uint32_t value) { return ~value + 1; };
  SyncFlags flags(8);
  flags.add(3, kMinus(2), {});
  EXPECT_FALSE(flags.at_least(3, 0));
  EXPECT_FALSE(flags.at_least(3, kMinus(1)));
  EXPECT_TRUE(flags.at_least(3, kMinus(2)));
  flags.add(3, 3, {});
  EXPECT_TRUE(flags.at_least(3, 1));
  EXPECT_TRUE(flags.at_least(3, kMinus(5)));
  // A wait for 2 that an addition of -1 does not end, one of 2 does.
  flags.begin_wait(3, 2, 50);
  EXPECT_FALSE(flags.add(3, kMinus(1), {}));
  EXPECT_TRUE(flags.add(3, 2, FlagRaiser{CoreState::kOutfeedWait}));
  EXPECT_EQ(flags.wait().raiser.reason, CoreState::kOutfeedWait);
}

}  // namespace
}  // namespace tpu::scoreboard_test
