// With values off, DMAs whose addresses depend on data cost what they cost with values on.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "isa/dma_descriptor.h"
#include "tests/models/test_program.h"

namespace tpu::unknown_address_test {
namespace {

/// Fetches an index out of granule 40, then 48 rows, each a DMA of its own, from granule `base` +
/// 64 * index on; `stride` granules lie between them.
isa::Program rows_by_index(std::uint32_t base, std::uint32_t stride) {
  std::string code = R"(
kernel top
  { dma.hbm_to_smem 40, 1, 1024, 1 }
  { dma.done.wait 1, 1 }
  { vsyncadd 1, -1 }
  { %s1 = sld [smem:$0x400] ;; vdelay 1 }
  { %s1 = sshll.u32 %s1, 6 }
)";
  for (std::uint32_t row = 0; row < 48; ++row) {
    code += "  { %s2 = sadd.s32 %s1, " + std::to_string(base + row * stride) + " }\n";
    code += "  { dma.hbm_to_vmem %s2, 1, " + std::to_string(row * 2) + ", 2 }\n";
  }
  code += "  { dma.done.wait 2, 48 }\n  { vsyncadd 2, -48 }\n";
  isa::Program program = test::program_of(code);
  isa::Buffer buffer;
  buffer.name = "index";
  buffer.role = isa::BufferRole::kParameter;
  buffer.granule = 40;
  buffer.bytes = isa::kHbmGranuleBytes;
  program.buffers.push_back(buffer);
  return program;
}

std::uint64_t cycles_on(const isa::Program& program, std::uint32_t index) {
  Machine machine(MachineParams(), program);
  CoreLoad load;
  load.hbm.push_back({40, {index}});
  load.hbm.push_back({1000, std::vector<std::uint32_t>(std::size_t{256} * 8192)});
  machine.load(0, load);
  RunOptions options = test::on_core(0);
  options.values = true;
  return machine.run(options).cycles;
}

/// The data of addresses may not be followed.
RunOptions without_following() {
  RunOptions options = test::on_core(0);
  options.follow.cycles = 0;
  return options;
}

TEST(UnknownAddress, IsFollowedBackToTheInput) {
  for (const std::uint32_t index : {0U, 5U, 63U}) {
    const isa::Program program = rows_by_index(1000, 3);
    RunOptions options = test::on_core(0);
    options.inputs = [&](std::uint32_t, const isa::Buffer&) {
      return std::vector<std::uint32_t>{index};
    };
    options.inputs_from = "a test";
    const RunResult off = test::run(program, options);
    EXPECT_EQ(off.cycles, cycles_on(program, index)) << index;
    ASSERT_EQ(off.notes.size(), 1u);
    EXPECT_EQ(off.notes[0], "control may depend on inputs: index (a test)");
  }
}

/// 32 DMAs between a row of VMEM, of which `dma` makes the instruction, and the granule in %s1, so
/// many granules further each time.
isa::Program computed_rows(std::uint32_t spread,
                           const std::function<std::string(const std::string& row)>& dma) {
  std::string code = "kernel top\n  { inlined_call site = 0 }\nkernel addresses\n";
  for (std::uint32_t row = 0; row < 32; ++row) {
    code += "  { %v1 = vmov " + std::to_string(row * spread) +
            " }\n  { vpush %v1 ;; vdelay 9 }\n  { %s1 = spop ;; vdelay 1 }\n  { " +
            dma(std::to_string(row * 2)) + " }\n";
  }
  return test::program_of(code + "  { dma.done.wait 2, 32 }\n  { vsyncadd 2, -32 }\n");
}

TEST(UnknownAddress, IsFollowedThroughTheKernelThatComputesIt) {
  const auto program = [](std::uint32_t spread) {
    return computed_rows(
        spread, [](const std::string& row) { return "dma.hbm_to_vmem %s1, 1, " + row + ", 2"; });
  };
  const auto on = [](const isa::Program& rows) {
    Machine machine(MachineParams(), rows);
    CoreLoad load;
    load.hbm.push_back({0, std::vector<std::uint32_t>(std::size_t{256} * 4096)});
    machine.load(0, load);
    RunOptions options = test::on_core(0);
    options.values = true;
    return machine.run(options).cycles;
  };
  // The same row each time: all DMAs meet in one channel.
  const isa::Program same = program(0);
  const isa::Program apart = program(1);
  EXPECT_EQ(test::run(same).cycles, on(same));
  EXPECT_EQ(test::run(apart).cycles, on(apart));
  EXPECT_GT(test::run(same).cycles, test::run(apart).cycles);
  EXPECT_EQ(test::run(same, without_following()).cycles,
            test::run(apart, without_following()).cycles);
}

/// Rows that are written one over the other meet in one channel of the HBM, rows side by side do
/// not.
TEST(UnknownAddress, OfADestinationIsFollowed) {
  const auto program = [](std::uint32_t spread) {
    return computed_rows(
        spread, [](const std::string& row) { return "dma.vmem_to_hbm " + row + ", 1, %s1, 2"; });
  };
  RunOptions with_values = test::on_core(0);
  with_values.values = true;
  std::vector<std::uint64_t> cycles;
  for (const std::uint32_t spread : {0U, 1U}) {
    cycles.push_back(test::run(program(spread)).cycles);
    EXPECT_EQ(cycles.back(), test::run(program(spread), with_values).cycles) << spread;
  }
  EXPECT_GT(cycles[0], cycles[1]);
  EXPECT_EQ(test::run(program(0), without_following()).cycles,
            test::run(program(1), without_following()).cycles);
}

/// The same where the address stands in a descriptor: word 0 of its eight.
TEST(UnknownAddress, OfADestinationMayStandInADescriptor) {
  const auto program = [](std::uint32_t spread) {
    isa::DmaDescriptor descriptor;
    descriptor.source.space = isa::MemorySpace::kVmem;
    descriptor.destination.space = isa::MemorySpace::kHbm;
    descriptor.granules = 1;
    descriptor.destination_flag = 2;
    const isa::DmaWords words = isa::encode(descriptor);
    std::string code = "kernel top\n  { inlined_call site = 0 }\nkernel addresses\n";
    for (std::uint32_t row = 0; row < 32; ++row) {
      code += "  { %v1 = vmov " + std::to_string(row * spread) +
              " }\n  { vpush %v1 ;; vdelay 9 }\n  { %s1 = spop ;; vdelay 1 }\n" +
              "  { sst [smem:$0x200] %s1 }\n  { dma 512 }\n";
    }
    isa::Program made =
        test::program_of(code + "  { dma.done.wait 2, 32 }\n  { vsyncadd 2, -32 }\n");
    for (std::uint32_t i = 0; i < words.size(); ++i) {
      made.initial_smem.push_back({512 + i, words[i]});
    }
    return made;
  };
  RunOptions with_values = test::on_core(0);
  with_values.values = true;
  std::vector<std::uint64_t> cycles;
  for (const std::uint32_t spread : {0U, 1U}) {
    cycles.push_back(test::run(program(spread)).cycles);
    EXPECT_EQ(cycles.back(), test::run(program(spread), with_values).cycles) << spread;
  }
  EXPECT_GT(cycles[0], cycles[1]);
  const RunResult apart = test::run(program(0), without_following());
  EXPECT_EQ(apart.cycles, test::run(program(1), without_following()).cycles);
  ASSERT_FALSE(apart.notes.empty());
  EXPECT_NE(apart.notes[0].find("32 DMAs go to or from addresses that are unknown"),
            std::string::npos)
      << apart.notes[0];
}

TEST(UnknownAddress, ThatIsNotFollowedCostsWhatAKnownOneCosts) {
  for (const std::uint32_t stride : {1U, 3U, 64U}) {
    const isa::Program program = rows_by_index(1000, stride);
    const RunResult off = test::run(program, without_following());
    EXPECT_EQ(off.cycles, cycles_on(program, 0)) << stride;
    // Banks make known addresses differ by a tenth.
    EXPECT_NEAR(static_cast<double>(off.cycles), static_cast<double>(cycles_on(program, 5)),
                0.1 * static_cast<double>(off.cycles))
        << stride;
    ASSERT_FALSE(off.notes.empty());
    EXPECT_NE(off.notes[0].find("48 DMAs go to or from addresses that are unknown"),
              std::string::npos);
  }
  EXPECT_NE(test::run(rows_by_index(1000, 1), without_following()).cycles,
            test::run(rows_by_index(1000, 64), without_following()).cycles);
}

/// Cores whose inputs are equal take the same cycles: one of them stands for all.
TEST(UnknownAddress, IsThatOfTheCoresOwnInput) {
  const isa::Program program = rows_by_index(1000, 3);
  using Indices = std::vector<std::uint32_t>;
  for (const Indices& indices : {Indices{5, 5, 5, 5, 5, 5, 5, 5},
                                 Indices{0, 0, 5, 5, 5, 5, 5, 5},
                                 {0, 1, 2, 3, 4, 5, 6, 7}}) {
    RunOptions options;
    options.inputs = [&](std::uint32_t core, const isa::Buffer&) { return Indices{indices[core]}; };
    const RunResult result = test::run(program, options);
    ASSERT_EQ(result.cores.size(), 8u);
    EXPECT_EQ(result.simulated_cores,
              std::set<std::uint32_t>(indices.begin(), indices.end()).size());
    for (std::uint32_t core = 0; core < 8; ++core) {
      EXPECT_EQ(result.cores[core].end_cycle, cycles_on(program, indices[core])) << core;
    }
  }
}

/// `known` makes an address in %s2; what the host sent, which nobody knows, becomes another one.
RunResult two_addresses(const std::string& known) {
  isa::Program program = test::program_of(R"(
kernel top
  { dma.infeed_to_hbm 1, 64, 1 }
  { dma.done.wait 1, 1 }
  { vsyncadd 1, -1 }
  { dma.hbm_to_vmem 64, 1, 0, 1 }
  { dma.done.wait 1, 1 }
  { vsyncadd 1, -1 }
  { inlined_call site = 0 }
kernel addresses
)" + known + R"(
  { dma.hbm_to_vmem %s2, 1, 8, 2 }
  { %v1 = vld [vmem:$0x0] ;; vdelay 3 }
  { %v1 = vadd.s32 %v1, %v1 ;; vdelay 1 }
  { vpush %v1 ;; vdelay 9 }
  { %s1 = spop ;; vdelay 1 }
  { dma.hbm_to_vmem %s1, 1, 16, 2 }
  { dma.done.wait 2, 2 }
)");
  program.infeed_bytes = isa::kHbmGranuleBytes;
  program.examples_per_core = 1;
  return test::run(program, RunOptions());
}

bool has_note(const RunResult& result, const std::string& text) {
  return std::any_of(result.notes.begin(), result.notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

/// The kernel that computes the address reads what the host sends: there is no use in following it,
/// nor in telling the cores apart.
TEST(UnknownAddress, OutOfTheInfeedIsNotFollowed) {
  const RunResult result = two_addresses("  { %s2 = smov 1000 }\n");
  EXPECT_EQ(result.simulated_cores, 1u);
  EXPECT_TRUE(has_note(result, "8 DMAs go to or from addresses that are unknown"));
  EXPECT_FALSE(has_note(result, "was followed"));
}

/// But where another address became known, by a push or over VMEM, it is.
TEST(UnknownAddress, BesideOneOutOfTheInfeedIsFollowed) {
  for (const char* known : {"  { %v2 = vmov 1000 }\n  { vpush %v2 ;; vdelay 9 }\n"
                            "  { %s2 = spop ;; vdelay 1 }\n",
                            "  { %v2 = vmov 1000 }\n  { vst [vmem:$0x100] %v2 ;; vdelay 9 }\n"
                            "  { dma.vmem_to_hbm 256, 1, 80, 1 }\n  { dma.done.wait 1, 1 }\n"
                            "  { vsyncadd 1, -1 }\n  { dma.hbm_to_smem 80, 1, 1024, 1 }\n"
                            "  { dma.done.wait 1, 1 }\n"
                            "  { vsyncadd 1, -1 }\n  { %s2 = sld [smem:$0x400] ;; vdelay 2 }\n"}) {
    const RunResult result = two_addresses(known);
    EXPECT_EQ(result.simulated_cores, 8u) << known;
    EXPECT_TRUE(has_note(result, "8 DMAs go to or from addresses that are unknown")) << known;
    EXPECT_TRUE(has_note(result, "was followed")) << known;
  }
}

TEST(UnknownAddress, StaysInTheMemory) {
  const MachineParams params;
  const auto granules =
      static_cast<std::uint32_t>((std::uint64_t{params.hbm.gib} << 20) / params.cores_per_chip);
  EXPECT_GT(test::run(rows_by_index(granules - 48, 1), without_following()).cycles, 0u);
  EXPECT_GT(test::run(rows_by_index(0xfffffff0U, 0), without_following()).cycles, 0u);
}

}  // namespace
}  // namespace tpu::unknown_address_test
