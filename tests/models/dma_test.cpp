#include <gtest/gtest.h>

#include <cmath>

#include "sim/base/error.h"
#include "tests/models/test_program.h"

namespace tpu {
namespace {

using test::fault_of;
using test::program_of;
using test::run;

std::string num(std::uint64_t value) { return std::to_string(value); }

/// From issue to flag: the transfer at what refresh leaves of the pin rate, and the latency.
std::uint64_t dma_cycles(std::uint64_t granules) {
  const double rate = 1800.0 * 128 * 16 / 8 / 940 * (3900 - 350) / 3900;
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(granules) * 1024 / rate)) + 217;
}

/// Halts unless flag 1 has `value` in the cycle `wait` after the DMA's start in cycle 0.
isa::Program flag_at(std::uint64_t granules, std::uint64_t wait, std::uint64_t value) {
  // The vsyncmov issues `wait` cycles after the DMA.
  return program_of("kernel top\n  { dma.hbm_to_vmem 0, " + num(granules) + ", 0, 1 ;; vdelay " +
                    num(wait - 1) + " }\n" + R"(
  { vsyncmov 1 }
  { %s1 = spop }
  { %p1 = scmp.ne.s32.totalorder %s1, )" +
                    num(value) + R"( }
  { shalt.err (%p1) }
)");
}

TEST(Dma, RaisesItsFlagExactlyAfterTransferAndLatency) {
  for (std::uint64_t granules : {1u, 64u, 4096u}) {
    const std::uint64_t cycles = dma_cycles(granules);
    EXPECT_EQ(fault_of(flag_at(granules, cycles - 1, 0)), "");
    EXPECT_EQ(fault_of(flag_at(granules, cycles, granules)), "");
    EXPECT_NE(fault_of(flag_at(granules, cycles - 1, granules)), "");
  }
}

TEST(Dma, AWaitEndsInTheCycleOfTheFlagAndCountsAsMemory) {
  const RunResult result = run(program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 256, 0, 1 }
  { dma.done.wait 1, 256 }
  { %s1 = smov 1 }
)"));
  // The wait's bundle issues in the cycle of the flag, then one more.
  EXPECT_EQ(result.cycles, dma_cycles(256) + 2);
  EXPECT_EQ(result.cores[0].total.core[CoreState::kMemoryWait], dma_cycles(256) - 1);
  EXPECT_EQ(result.cores[0].total.core[CoreState::kIssue], 3u);
  EXPECT_EQ(result.cores[0].total.hbm_read_bytes, 256u * 1024);
  EXPECT_EQ(result.cores[0].total.dmas, 1u);
}

TEST(Dma, ReadsInFlightPayTheLatencyOnce) {
  std::string text = "kernel top\n";
  for (int i = 0; i < 8; ++i) text += "  { dma.hbm_to_vmem " + num(64 * i) + ", 64, 0, 1 }\n";
  text += "  { dma.done.wait 1, 512 }\n";
  EXPECT_EQ(run(program_of(text)).cycles, dma_cycles(512) + 1);
}

TEST(Dma, ReadsAndWritesTogetherLoseTheTurnsOfTheChannels) {
  const RunResult result = run(program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 4096, 0, 1 }
  { dma.vmem_to_hbm 8192, 4096, 8192, 2 }
  { dma.done.wait 1, 4096 }
  { dma.done.wait 2, 4096 }
)"));
  const double mixed = 1800.0 * 128 * 16 / 8 / 940 * (3900 - 350) / 3900 * 128 / (128 + 25);
  EXPECT_NEAR(static_cast<double>(result.cycles), 2.0 * 4096 * 1024 / mixed + 217, 3);
}

TEST(Dma, DescriptorsInSmemStartStridedDmas) {
  // 2 runs of 4 granules, 16 apart in HBM, into VMEM row 8; flag 5.
  isa::DmaDescriptor descriptor;
  descriptor.source.address = 100;
  descriptor.source.stride = 16;
  descriptor.source.granules_per_run = 4;
  descriptor.destination.space = isa::MemorySpace::kVmem;
  descriptor.destination.address = 8;
  descriptor.granules = 8;
  descriptor.destination_flag = 5;
  isa::Program program = program_of(R"(
kernel top
  { dma 512 }
  { dma.done.wait 5, 8 }
  { dma.vmem_to_hbm 8, 8, 0, 6 }
  { dma.done.wait 6, 8 }
)");
  const isa::DmaWords words = isa::encode(descriptor);
  for (std::uint32_t i = 0; i < 8; ++i) program.initial_smem.push_back({512 + i, words[i]});
  Machine machine(MachineParams(), program);
  CoreLoad load;
  load.hbm.push_back({100, std::vector<std::uint32_t>(4 * 256, 7)});
  load.hbm.push_back({116, std::vector<std::uint32_t>(4 * 256, 9)});
  machine.load(0, load);
  RunOptions options = test::on_core(0);
  options.values = true;
  machine.run(options);
  const std::vector<std::uint32_t> back = machine.read_hbm(0, 0, 8 * 256);
  EXPECT_EQ(back[0], 7u);
  EXPECT_EQ(back[4 * 256 - 1], 7u);
  EXPECT_EQ(back[4 * 256], 9u);
  EXPECT_EQ(back[8 * 256 - 1], 9u);
}

TEST(Dma, SmemTablesAreReadWithValuesOff) {
  // The trip count of the loop stands in HBM.
  isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_smem 40, 1, 1024, 1 }
  { dma.done.wait 1, 1 }
  { %s2 = sld [smem:$0x402] }
  { %s1 = smov 0 }
loop:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (%p1) target = loop }
  { %s3 = smov 0 }
)");
  isa::Buffer table;
  table.granule = 40;
  table.data = {0, 0, 17};
  program.buffers.push_back(table);
  const std::uint64_t expected = dma_cycles(1) + 1 + 2 + 17 * 4;
  EXPECT_EQ(run(program).cycles, expected);
  // Without the table its content is unknown, and so is the branch.
  program.buffers.clear();
  EXPECT_NE(fault_of(program).find("--values on"), std::string::npos);
}

TEST(Dma, ReadingWhatNothingWroteIsAFaultWithValuesOn) {
  const isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_vmem 33, 2, 0, 1 }
  { dma.done.wait 1, 2 }
)");
  EXPECT_EQ(fault_of(program), "");
  RunOptions options = test::on_core(0);
  options.values = true;
  const std::string fault = fault_of(program, options);
  EXPECT_NE(fault.find("HBM granule 33"), std::string::npos) << fault;
  EXPECT_NE(fault.find("bundle 0x0"), std::string::npos) << fault;
}

TEST(Dma, TheOutfeedCrossesPcie) {
  const RunResult result = run(program_of(R"(
kernel top
  { dma.hbm_to_outfeed 0, 64, 1 }
  { dma.done.wait 1, 64 }
)"));
  // HBM, then 64 KiB at 15 GB/s = 15000 / 940 bytes a cycle, then 1000 ns.
  const auto pcie = static_cast<std::uint64_t>(std::ceil(65536.0 * 940 / 15000)) + 940;
  EXPECT_EQ(result.cycles, dma_cycles(64) + pcie + 1);
  EXPECT_EQ(result.cores[0].total.core[CoreState::kOutfeedWait], dma_cycles(64) + pcie - 1);
}

}  // namespace
}  // namespace tpu
