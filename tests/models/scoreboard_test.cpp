#include "models/core/scoreboard.h"

#include <gtest/gtest.h>

namespace tpu {
namespace {

/// One bundle that writes register v5 after three cycles, one that reads it, one with a push to
/// MXU 0 and one with its pop.
DecodedKernel kernel() {
  DecodedKernel result;
  DecodedBundle bundle;
  result.slow_writes.push_back({timed_register::kVector + 5, 3});
  result.queue_ops.resize(2);
  result.queue_ops[0].kind = QueueOp::Kind::kMxuRows;
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

}  // namespace
}  // namespace tpu
