#include "models/network/link.h"

#include <gtest/gtest.h>

namespace tpu::link_test {
namespace {

TEST(Link, AMessageOccupiesItForItsBytes) {
  Link link(656000, 8 * 940);  // 656 Gb/s at 940 MHz: 4100 bytes in 47 cycles.
  const Link::Passage passage = link.pass(100, 4100);
  EXPECT_EQ(passage.begin, 100u);
  EXPECT_EQ(passage.end, 147u);
  EXPECT_EQ(link.pass(100, 1).begin, 147u);
}

TEST(Link, FractionsOfACycleAddUpExactly) {
  Link link(656000, 8 * 940);
  for (int i = 0; i < 4099; ++i) link.pass(0, 1);
  EXPECT_EQ(link.pass(0, 1).end, 47u);
  EXPECT_EQ(link.pass(0, 1).end, 48u);
}

TEST(Link, IsFreeAgainAfterAPause) {
  Link link(2, 1);
  link.pass(0, 100);
  EXPECT_EQ(link.pass(1000, 10).begin, 1000u);
  EXPECT_EQ(link.account("link", 1000).cycles.at(0).second, 55u);
}

}  // namespace
}  // namespace tpu::link_test
