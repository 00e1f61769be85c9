#include "models/core/sync_flags.h"

#include <gtest/gtest.h>

namespace tpu::sync_flags_test {
namespace {

FlagRaiser of_transfer(std::uint32_t transfer) {
  FlagRaiser raiser;
  raiser.transfer = transfer;
  return raiser;
}

/// What comes later in the cycle in which a wait ends has not ended it.
TEST(SyncFlags, TheAdditionThatReachesTheAwaitedValueEndsTheWait) {
  SyncFlags flags(8);
  flags.begin_wait(3, 2, 100);
  EXPECT_FALSE(flags.add(3, 1, of_transfer(10)));
  EXPECT_FALSE(flags.add(4, 9, of_transfer(11)));  // Another flag.
  EXPECT_TRUE(flags.add(3, 1, of_transfer(12)));
  EXPECT_FALSE(flags.add(3, 5, of_transfer(13)));
  EXPECT_EQ(flags.wait().raiser.transfer, 12u);
  EXPECT_EQ(flags.reached_by(3, 2), 12u);
}

/// Of five additions the last four are kept; what was taken away since counts no more.
TEST(SyncFlags, AFlagKnowsWhichOfItsLastAdditionsReachedAValue) {
  SyncFlags flags(8);
  for (std::uint32_t i = 1; i <= 5; ++i) flags.add(1, 10, of_transfer(i));
  EXPECT_EQ(flags.reached_by(1, 50), 5u);
  EXPECT_EQ(flags.reached_by(1, 41), 5u);
  EXPECT_EQ(flags.reached_by(1, 40), 4u);
  EXPECT_EQ(flags.reached_by(1, 20), 2u);
  EXPECT_EQ(flags.reached_by(1, 51), ~std::uint32_t{0});
  flags.add(1, static_cast<std::uint32_t>(-30), {});
  EXPECT_EQ(flags.reached_by(1, 20), 5u);
  EXPECT_EQ(flags.reached_by(1, 10), 4u);
}

}  // namespace
}  // namespace tpu::sync_flags_test
