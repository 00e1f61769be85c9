#include "models/core/transfer_overlap.h"

#include <gtest/gtest.h>

#include "isa/dma_descriptor.h"
#include "tests/models/test_program.h"

namespace tpu::transfer_overlap_test {
namespace {

using test::program_of;
using Beside = std::map<std::uint32_t, std::uint64_t>;

constexpr std::uint32_t kNoOp = OpResult::kNoOp;

TEST(TransferOverlap, CountsEachCycleOfAnOpsTransfersOnceByWhatTheCoreDoes) {
  TransferOverlap overlap;
  OpResults ops;
  ops.resize(3);
  overlap.runs(0, 10);
  EXPECT_EQ(overlap.begin(12), 0U);
  EXPECT_EQ(overlap.begin(14), 0U);
  overlap.runs(kNoOp, 20);
  overlap.runs(1, 23);
  EXPECT_EQ(overlap.begin(30), 1U);
  overlap.runs(2, 50);  // Ahead of the machine's time.
  overlap.end(0, 41);
  overlap.end(0, 60);  // 20 to 60: 3 of none, 27 of op 1, 10 of op 2.
  overlap.runs(0, 70);
  EXPECT_EQ(overlap.begin(75), 0U);
  overlap.end(0, 79);  // Its own.
  overlap.end(1, 90);  // 50 to 90: 20 of op 2, 20 of op 0.
  overlap.runs(1, 100);
  EXPECT_EQ(overlap.begin(100), 1U);
  overlap.runs(2, 110);
  overlap.add_to(ops, 117);
  EXPECT_EQ(ops[0].beside, (Beside{{kNoOp, 3}, {1, 27}, {2, 10}}));
  EXPECT_EQ(ops[1].beside, (Beside{{2, 20 + 7}, {0, 20}}));
  EXPECT_EQ(ops[2].beside, Beside());
}

TEST(TransferOverlap, TheAccountBeginsInTheMiddleOfATransfer) {
  TransferOverlap overlap;
  OpResults ops;
  ops.resize(2);
  overlap.runs(0, 0);
  overlap.begin(5);
  overlap.runs(1, 10);
  overlap.begin_account(17);
  overlap.end(0, 30);
  overlap.add_to(ops, 40);
  EXPECT_EQ(ops[0].beside, (Beside{{1, 13}}));
}

constexpr std::uint64_t kHop = 940;                                 // 1000 ns at 940 MHz.
constexpr std::uint64_t kPassage = (16 * 1024 * 47 + 4099) / 4100;  // 16 KiB at 656 Gb/s.

/// When all have ended the step before, every core sends 16 KiB to the chip beside its own in the
/// first kernel, works for `work` cycles in the second one and waits for what comes in the third.
isa::Program exchange(std::uint32_t work) {
  isa::DmaDescriptor dma;
  dma.source.space = dma.destination.space = isa::MemorySpace::kVmem;
  dma.destination.address = 4096;
  dma.granules = 16;
  dma.source_flag = 3;
  dma.destination_flag = 4;
  dma.remote = true;
  const isa::DmaWords words = isa::encode(dma);
  isa::Program program = program_of(R"(
kernel top
  { vdelay 2000 }
  { inlined_call site = 0 }
  { inlined_call site = 1 }
  { inlined_call site = 2 }
kernel send
  { %s1 = sld [smem:$0x0] ;; vdelay 1 }
  { %s2 = sld [smem:$0x1] ;; vdelay 1 }
  { %s8 = sxor.u32 %s1, 1 }
  { %s12 = sshll.u32 %s8, 19 }
  { %s13 = sshll.u32 %s2, 16 }
  { %s12 = sor.u32 %s12, %s13 }
  { %s12 = sor.u32 %s12, )" + std::to_string(words[1]) +
                                    R"( }
  { sst [smem:$0x201] %s12 }
  { dma 512 }
kernel work
  { vdelay )" + std::to_string(work - 1) +
                                    R"( }
kernel receive
  { dma.done.wait 3, 16 }
  { vsyncadd 3, -16 }
  { dma.done.wait 4, 16 }
  { vsyncadd 4, -16 }
)");
  for (std::uint32_t i = 0; i < words.size(); ++i)
    program.initial_smem.push_back({512 + i, words[i]});
  program.cores = 8;
  return program;
}

/// The bundle of the DMA, in which the transfer begins, is the last of its kernel; then come a call
/// of a cycle, the work, another call, and what is left of the way.
TEST(TransferOverlap, OfACoreFollowsFromLinkAndWork) {
  for (const std::uint32_t work : {500U, 3000U}) {
    RunOptions options;
    options.cores = {0, 2};
    const RunResult result = test::run(exchange(work), options);
    const std::uint64_t way = kPassage + kHop;
    for (const CoreResult& core : result.cores) {
      const Beside& beside = core.ops[0].beside;
      if (work > way) {
        EXPECT_EQ(beside, (Beside{{kNoOp, 1}, {1, way - 2}}));
      } else {
        EXPECT_EQ(beside, (Beside{{kNoOp, 2}, {1, work}, {2, way - 3 - work}}));
      }
      EXPECT_TRUE(core.ops[1].beside.empty() && core.ops[2].beside.empty());
    }
  }
}

/// One core for a class, and steps that are counted: the same as each core in each step.
TEST(TransferOverlap, OfAClassAndOfStepsThatRepeatIsThatOfEachCore) {
  MachineParams params;
  params.hbm.refresh_interval_ns = 0;
  for (const std::uint32_t steps : {1U, 300U}) {
    RunOptions options;
    options.warmup_steps = 1;
    options.steps = steps;
    const RunResult folded = test::run(exchange(700), options, params);
    options.pod_full = true;
    const RunResult full = test::run(exchange(700), options, params);
    EXPECT_LT(folded.simulated_cores, 8U);
    EXPECT_EQ(full.simulated_cores, 8U);
    ASSERT_EQ(folded.cores.size(), 8U);
    for (std::size_t c = 0; c < 8; ++c) {
      EXPECT_EQ(folded.cores[c].ops[0].beside, full.cores[c].ops[0].beside) << "core " << c;
      EXPECT_EQ(full.cores[c].ops[0].beside.at(1), 700U * steps) << "core " << c;
    }
    EXPECT_EQ(folded.notes.empty(), steps == 1);
  }
}

}  // namespace
}  // namespace tpu::transfer_overlap_test
