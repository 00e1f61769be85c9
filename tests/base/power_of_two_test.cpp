#include "sim/base/power_of_two.h"

#include <gtest/gtest.h>

namespace tpu::test::power_of_two_test {
namespace {

TEST(PowerOfTwo, BitsAndRounding) {
  for (std::int64_t number = 1; number < 1000; ++number) {
    EXPECT_LE(std::int64_t{1} << floor_log2(number), number);
    EXPECT_GT(std::int64_t{2} << floor_log2(number), number);
    const std::int64_t up = round_up_to_power_of_two(number);
    EXPECT_GE(up, number);
    EXPECT_LT(up / 2, number);
    EXPECT_EQ(up, std::int64_t{1} << ceil_log2(number));
  }
}

}  // namespace
}  // namespace tpu::test::power_of_two_test
