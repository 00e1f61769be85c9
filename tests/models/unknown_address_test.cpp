// With values off, DMAs whose addresses depend on data cost what they cost with values on.

#include <gtest/gtest.h>

#include "tests/models/test_program.h"

namespace tpu {
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
  load.hbm.push_back({1000, std::vector<std::uint32_t>(std::size_t{256} * 4096)});
  machine.load(0, load);
  RunOptions options = test::on_core(0);
  options.values = true;
  return machine.run(options).cycles;
}

TEST(UnknownAddress, CostsWhatAKnownOneCosts) {
  for (const std::uint32_t stride : {1U, 3U, 64U}) {
    const isa::Program program = rows_by_index(1000, stride);
    const RunResult off = test::run(program);
    EXPECT_EQ(off.cycles, cycles_on(program, 0)) << stride;
    // Banks make known addresses differ by a tenth.
    EXPECT_NEAR(static_cast<double>(off.cycles), static_cast<double>(cycles_on(program, 5)),
                0.1 * static_cast<double>(off.cycles))
        << stride;
    ASSERT_FALSE(off.notes.empty());
    EXPECT_NE(off.notes[0].find("48 DMAs go to or from addresses that are unknown"),
              std::string::npos);
  }
  EXPECT_NE(test::run(rows_by_index(1000, 1)).cycles, test::run(rows_by_index(1000, 64)).cycles);
}

TEST(UnknownAddress, StaysInTheMemory) {
  const MachineParams params;
  const auto granules =
      static_cast<std::uint32_t>((std::uint64_t{params.hbm.gib} << 20) / params.cores_per_chip);
  EXPECT_GT(test::run(rows_by_index(granules - 48, 1)).cycles, 0u);
  EXPECT_GT(test::run(rows_by_index(0xfffffff0U, 0)).cycles, 0u);
}

}  // namespace
}  // namespace tpu
