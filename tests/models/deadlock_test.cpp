#include <gtest/gtest.h>

#include "tests/models/test_program.h"

namespace tpu::deadlock_test {
namespace {

using test::fault_of;
using test::program_of;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Deadlock, NamesTheWaitingCoreItsFlagAndItsCode) {
  const std::string fault = fault_of(program_of(R"(
kernel top
  { vsyncadd 5, 2 }
  { vwait.ge.trace 5, 3 }
)"));
  EXPECT_TRUE(contains(fault, "deadlock: 1 of 1 cores wait")) << fault;
  EXPECT_TRUE(contains(fault,
                       "core 0 (chip 0, core 0), cycle 1, kernel \"top\", bundle 0x1: waits until "
                       "sync flag 5 is at least 3, it is 2; nothing is on its way to it"))
      << fault;
  EXPECT_TRUE(contains(fault, "{ vwait.ge.trace 5, 3 }")) << fault;
  EXPECT_TRUE(contains(fault, "no waiting core's code")) << fault;
}

TEST(Deadlock, NamesTheCycleOfWaiters) {
  // Each core waits for the other before it would raise the other's flag.
  const std::string fault = fault_of(program_of(R"(
kernel top
  { %s1 = sld [smem:$0x0] ;; vdelay 1 }
  { vwait.ge.trace 5, 1 }
  { %s2 = ssub.s32 1, %s1 }
  { %s2 = sshll.u32 %s2, 21 }
  { %s2 = sor.u32 %s2, 262149 }
  { vsyncadd.remote %s2, 1 }
)"),
                                     [] {
                                       RunOptions options;
                                       options.cores = {0, 2};
                                       return options;
                                     }());
  EXPECT_TRUE(contains(fault, "deadlock: 2 of 2 cores wait")) << fault;
  EXPECT_TRUE(contains(fault, "cycle of waiters:")) << fault;
  EXPECT_TRUE(contains(fault, "core 0 waits for core 2, which would raise the flag at core 2"))
      << fault;
  EXPECT_TRUE(contains(fault, "core 2 waits for core 0")) << fault;
  EXPECT_TRUE(contains(fault, "bundle 0x5")) << fault;
}

TEST(Deadlock, ACoreThatWaitsForItselfIsACycleOfOne) {
  const auto fault = [](const std::string& addition) {
    return fault_of(program_of("kernel top\n  { vwait.ge.trace 5, 1 }\n  { " + addition + " }\n"),
                    test::on_core(3));
  };
  const std::string own = fault("vsyncadd 5, 1");
  EXPECT_TRUE(contains(own, "cycle of waiters: core 3 waits for core 3\n")) << own;
  EXPECT_TRUE(contains(own, "which would raise the flag at core 3")) << own;
  // What lowers a flag, leaves it, or raises another one ends no wait.
  for (const char* other : {"vsyncadd 5, -1", "vsyncadd 5, 0", "vsyncadd 6, 1"}) {
    EXPECT_TRUE(contains(fault(other), "no waiting core's code")) << fault(other);
  }
}

TEST(Deadlock, CollectivesInDifferentOrderAreACycleInOneLine) {
  // Two barriers, by flags 5 and 6: chip 0 enters that of flag 5 first, chip 1 that of flag 6.
  const std::string fault = fault_of(program_of(R"(
kernel top
  { %s1 = sld [smem:$0x0] ;; vdelay 1 }
  { %s2 = ssub.s32 1, %s1 }
  { %s2 = sshll.u32 %s2, 21 }
  { %s3 = sor.u32 %s2, 262149 }
  { %s4 = sor.u32 %s2, 262150 }
  { %p1 = scmp.ne.s32.totalorder %s1, 0 }
  { sbr.rel (%p1) target = second }
  { %s20 = smov 0 }
  { vsyncadd.remote %s3, 1 }
  { vwait.ge.trace 5, 1 }
  { vsyncadd.remote %s4, 1 }
  { vwait.ge.trace 6, 1 }
second:
  { vsyncadd.remote %s4, 1 }
  { vwait.ge.trace 6, 1 }
  { vsyncadd.remote %s3, 1 }
  { vwait.ge.trace 5, 1 }
)"),
                                     [] {
                                       RunOptions options;
                                       options.cores = {0, 2};
                                       return options;
                                     }());
  EXPECT_TRUE(contains(fault, "cycle of waiters: core 0 waits for core 2 waits for core 0\n"))
      << fault;
  EXPECT_TRUE(contains(fault, "core 0 waits for core 2, which would raise the flag at core 2"))
      << fault;
}

TEST(Deadlock, AWaitForTooMuchOfADmaNamesNothingUnderWay) {
  const std::string fault = fault_of(program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 4, 0, 1 }
  { dma.done.wait 1, 8 }
  { dma.hbm_to_vmem 0, 4, 0, 1 }
)"));
  EXPECT_TRUE(contains(fault, "sync flag 1 is at least 8, it is 4")) << fault;
  // The core's own next DMA would raise it.
  EXPECT_TRUE(contains(fault, "core 0 waits for core 0")) << fault;
  EXPECT_TRUE(contains(fault, "bundle 0x2")) << fault;
}

}  // namespace
}  // namespace tpu::deadlock_test
