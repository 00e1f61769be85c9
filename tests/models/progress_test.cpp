#include <gtest/gtest.h>

#include <algorithm>

#include "models/core/followed_kernels.h"
#include "models/origin.h"
#include "tests/models/test_program.h"

namespace tpu::progress_test {
namespace {

/// 20,000 trips: a call each 4,096 times that a core acts, with a share that grows.
TEST(Progress, IsToldNowAndThen) {
  isa::Program program = test::program_of(R"(
kernel top
  { %s1 = smov 0 }
again:
  { vsyncadd 5, 1 ;; %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, 20000 }
  { sbr.rel (%p1) target = again }
  { %s3 = smov 0 ;; vdelay 5 }
)");
  RunOptions options = test::on_core(0);
  options.interpret = true;
  std::vector<double> told;
  options.progress = [&](double fraction) { told.push_back(fraction); };
  test::run(program, options);
  EXPECT_GE(told.size(), 1u);
  EXPECT_LE(told.size(), 80000u / 4096 + 1);
  for (const double fraction : told) EXPECT_TRUE(fraction >= 0 && fraction <= 1) << fraction;
}

/// Twenty steps of equal length, each simulated: the share is that of the steps that are over.
TEST(Progress, IsTheShareOfTheStepsThatAreOver) {
  const isa::Program program = test::program_of(R"(
kernel top
  { %s1 = smov 0 }
again:
  { vsyncadd 5, 1 ;; %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, 2000 }
  { sbr.rel (%p1) target = again }
  { %s3 = smov 0 ;; vdelay 5 }
)");
  RunOptions options = test::on_core(0);
  options.interpret = options.pod_full = true;
  options.steps = 20;
  std::vector<double> told;
  options.progress = [&](double fraction) { told.push_back(fraction); };
  test::run(program, options);
  ASSERT_GE(told.size(), 8u);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  const auto calls = static_cast<double>(told.size());
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_NEAR(told[i], static_cast<double>(i + 1) / calls, 0.15) << i;
  }
}

/// The kernel that is given up when more is followed than may be is the one that took most.
TEST(FollowLimits, NameTheKernelThatTookMost) {
  const isa::Program program =
      test::program_of("kernel a\n  { %s1 = smov 7 }\nkernel b\n  { %s1 = smov 7 }\n");
  const auto most = [&](std::uint64_t first, std::uint64_t second) {
    FollowedKernels followed(program);
    FollowLimits limits;
    limits.instructions = 100;
    followed.begin_run(limits);
    try {
      followed.spend_instructions(0, first);
      followed.spend_instructions(1, second);
      followed.spend_instructions(0, 40);
    } catch (const FollowLimit& limit) {
      return static_cast<int>(limit.kernel());
    }
    return -1;
  };
  EXPECT_EQ(most(30, 30), -1);
  EXPECT_EQ(most(40, 30), 0);
  EXPECT_EQ(most(10, 60), 1);
  EXPECT_EQ(most(30, 31), 0);
}

}  // namespace
}  // namespace tpu::progress_test
