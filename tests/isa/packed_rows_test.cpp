#include "isa/packed_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "isa/opcode_table.h"
#include "sim/base/error.h"
#include "tests/isa/bundle_runner.h"

namespace tpu::isa::test::packed_rows_test {
namespace {

/// A core of v4 as XLA's code sees it: row r of a register is sublane r.
CoreShape shape_of_v4() {
  CoreShape shape = BundleRunner::small_shape();
  shape.mxus = 4;
  shape.cmem_rows = 64;
  shape.weights_in_order = true;
  return shape;
}

/// Small integers, which bf16 holds exactly, different in every element.
float value(int row, int lane) { return static_cast<float>((row * 37 + lane * 11) % 128 - 64); }

void fill(BundleRunner& core, int reg, int first_row) {
  for (int s = 0; s < kSublanes; ++s) {
    for (int l = 0; l < kLanes; ++l) core.element(reg, s, l) = as_bits(value(first_row + s, l));
  }
}

TEST(PackedRows, APackHoldsTheRowsOfItsSecondOperandFirstTheEvenOnesLow) {
  BundleRunner core(shape_of_v4());
  fill(core, 1, 8);
  fill(core, 2, 0);
  core.run(
      "{ %v3 = vpack.c.bf16 %v1, %v2 }{ %v4 = vunpack.c.l.bf16 %v3 }"
      "{ %v5 = vunpack.c.h.bf16 %v3 }");
  EXPECT_EQ(core.element(3, 1, 5), as_bits(value(2, 5)) >> 16 | as_bits(value(3, 5)));
  EXPECT_EQ(core.element(3, 6, 5), as_bits(value(12, 5)) >> 16 | as_bits(value(13, 5)));
  for (int s = 0; s < kSublanes; ++s) {
    EXPECT_EQ(core.number(4, s, 77), value(s, 77));
    EXPECT_EQ(core.number(5, s, 77), value(8 + s, 77));
  }
}

TEST(PackedRows, APackRoundsToNearestEven) {
  BundleRunner core(shape_of_v4());
  core.run("{ %v1 = vpack.c.bf16 1.00390625, 1.01171875 }");  // Ties: 1 + 1/256, 1 + 3/256.
  EXPECT_EQ(core.element(1, 7, 0), 0x3f803f80u);
  EXPECT_EQ(core.element(1, 0, 0), 0x3f823f82u);
}

TEST(PackedRows, AMaskHoldsBothRowsOfASublane) {
  BundleRunner core(shape_of_v4());
  core.run(
      "{ %v1 = vlaneseq }{ %vm1 = vcmp.lt.s32.totalorder %v1, 128 }"
      "{ %v2 = vsel %vm1, -1, 0 }{ %vm2 = vsmask.f32 %v2 ;; %vm3 = vsmask.f32 262148 }"
      "{ %v3 = vsel %vm2, 1, 2 ;; %v4 = vsel %vm3, 1, 2 }");
  EXPECT_EQ(core.element(3, 0, 127), 1u);
  EXPECT_EQ(core.element(3, 1, 0), 2u);
  EXPECT_EQ(core.element(4, 1, 127), 1u);  // 4 << 16 | 4: rows 0 to 3.
  EXPECT_EQ(core.element(4, 2, 0), 2u);
  EXPECT_NE(core.fault("{ %vm2 = vsmask.f32 65538 }").find("expected n | n << 16"),
            std::string::npos);
  EXPECT_NE(core.fault("{ %vm2 = vsmask.f32 1114129 }").find("expected n | n << 16"),
            std::string::npos);
}

/// 5 << 16 | 5: rows 0 to 4, of which the last shares its sublane with row 5.
TEST(PackedRows, AMaskOfSingleRowsSelectsHalvesOfWords) {
  BundleRunner core(shape_of_v4());
  core.run(
      "{ %v1 = vmov 0x11112222 ;; %vm1 = vsmask.f32 327685 }{ %v2 = vsel %vm1, %v1, 0x33334444 }"
      "{ %v3 = vmov 65535 }{ %vm2 = vsmask.f32 %v3 }{ %v4 = vsel %vm2, %v1, 0 }"
      "{ %vm3 = vmand %vm1, %vm2 }{ %v5 = vsel %vm3, %v1, 0 }{ %vm4 = vmmov %vm1 }"
      "{ %v6 = vsel %vm4, %v1, 0 }{ %vm5 = vmor %vm2, %vm1 }{ %v7 = vsel %vm5, %v1, 0 }");
  EXPECT_EQ(core.element(2, 1, 127), 0x11112222u);
  EXPECT_EQ(core.element(2, 2, 127), 0x33332222u);
  EXPECT_EQ(core.element(2, 3, 0), 0x33334444u);
  EXPECT_EQ(core.element(4, 7, 5), 0x2222u);
  EXPECT_EQ(core.element(5, 2, 9), 0x2222u);
  EXPECT_EQ(core.element(5, 3, 9), 0u);
  EXPECT_EQ(core.element(6, 2, 9), 0x2222u);
  EXPECT_EQ(core.element(7, 1, 9), 0x11112222u);
  EXPECT_EQ(core.element(7, 2, 9), 0x2222u);
  EXPECT_NE(core.fault("{ vst.msk [vmem:$0] %vm1, %v1 }").find("one of single rows"),
            std::string::npos);
  // A mask of words takes its place.
  core.run("{ %vm1 = vcmp.eq.s32.totalorder %v1, %v1 }{ %v2 = vsel %vm1, %v1, 0 }");
  EXPECT_EQ(core.element(2, 7, 0), 0x11112222u);
}

/// Rows 0 to 4 of sixteen rows of weights.
TEST(PackedRows, AMaskOfSingleRowsKeepsThemInAPush) {
  BundleRunner core(shape_of_v4());
  fill(core, 1, 0);
  fill(core, 2, 8);
  core.run(
      "{ %v3 = vpack.c.bf16 %v2, %v1 ;; %vm1 = vsmask.f32 327685 }"
      "{ vdwg.mxu1 }{ vmatpush.bf16.msk.msra.mxu1 %vm1, %v3 }{ vmatmul.f32.gmra.mxu1 %v1 }"
      "{ %v5 = vpop.f32.mrf.mxu1 }");
  float sum = 0;
  for (int k = 0; k < 5; ++k) sum += value(2, k) * value(k, 13);
  EXPECT_EQ(core.number(5, 2, 13), sum);
  EXPECT_NE(core.fault("{ vmatpush.msk.msra.mxu1 %vm1, %v1 }").find("one of single rows"),
            std::string::npos);
}

/// 16 rows of weights in two plain pushes or a packed one, 16 rows of operands as two plain matmuls
/// or a packed one: the same results, which are right.
TEST(PackedRows, AnArrayMultipliesSixteenRowsAsTwiceEight) {
  BundleRunner core(shape_of_v4());
  fill(core, 1, 8);  // Upper rows of the weights.
  fill(core, 2, 0);
  fill(core, 3, 20);  // Lower rows of the operand.
  fill(core, 4, 28);
  core.run(
      "{ %v5 = vpack.c.bf16 %v1, %v2 }{ %v6 = vpack.c.bf16 %v4, %v3 }"
      "{ vdwg.mxu0 }{ vmatpush.msra.mxu0 %v1 }{ vmatpush.msra.mxu0 %v2 }"
      "{ vmatmul.f32.gmra.mxu0 %v3 }{ vmatmul.f32.gmra.mxu0 %v4 }"
      "{ %v10 = vpop.f32.mrf.mxu0 }{ %v11 = vpop.f32.mrf.mxu0 }"
      "{ vdwg.mxu3 }{ vmatpush.bf16.msra.mxu3 %v5 }{ vmatmul.bf16.gmra.mxu3 %v6 }"
      "{ %v12 = vpop.f32.mrf.mxu3 }{ %v13 = vpop.f32.mrf.mxu3 }");
  EXPECT_EQ(core.state.vector(10).word, core.state.vector(12).word);
  EXPECT_EQ(core.state.vector(11).word, core.state.vector(13).word);
  float sum = 0;
  for (int k = 0; k < 16; ++k) sum += value(31, k) * value(k, 9);
  EXPECT_EQ(core.number(13, 3, 9), sum);
}

/// With .dwg a matmul of sixteen rows takes the weights of before and hands the staged ones to the
/// next, masked or not.
TEST(PackedRows, AMatmulOfSixteenRowsSwapsTheWeightsOfTheNext) {
  BundleRunner core(shape_of_v4());
  fill(core, 1, 0);
  fill(core, 2, 8);
  core.run(
      "{ %v3 = vpack.c.bf16 %v2, %v1 ;; %vm1 = vsmask.f32 1048592 }"
      "{ vdwg.mxu0 }{ vmatpush.bf16.msra.mxu0 %v3 }{ vmatmul.f32.gmra.mxu0 %v1 }"
      "{ vmatpush.msra.mxu0 %v2 }{ vmatmul.bf16.dwg.msra.gmra.mxu0 %v3 }"
      "{ vmatmul.f32.gmra.mxu0 %v1 }"
      "{ vmatpush.msra.mxu0 %v1 }{ vmatmul.msk.bf16.dwg.msra.gmra.mxu0 %vm1, %v3 }"
      "{ vmatmul.f32.gmra.mxu0 %v1 }"
      "{ %v10 = vpop.f32.mrf.mxu0 }{ %v11 = vpop.f32.mrf.mxu0 }{ %v12 = vpop.f32.mrf.mxu0 }"
      "{ %v13 = vpop.f32.mrf.mxu0 }{ %v14 = vpop.f32.mrf.mxu0 }{ %v15 = vpop.f32.mrf.mxu0 }"
      "{ %v16 = vpop.f32.mrf.mxu0 }");
  const auto product = [](int row, int first, int rows) {
    float sum = 0;
    for (int k = 0; k < rows; ++k) sum += value(row, k) * value(first + k, 9);
    return sum;
  };
  EXPECT_EQ(core.number(10, 3, 9), product(3, 0, 16));
  EXPECT_EQ(core.number(11, 3, 9), product(3, 0, 16));   // Rows 0 to 7 of sixteen.
  EXPECT_EQ(core.number(12, 3, 9), product(11, 0, 16));  // Rows 8 to 15.
  EXPECT_EQ(core.number(13, 3, 9), product(3, 8, 8));    // The staged weights.
  EXPECT_EQ(core.number(14, 3, 9), product(3, 8, 8));
  EXPECT_EQ(core.number(15, 3, 9), product(11, 8, 8));
  EXPECT_EQ(core.number(16, 3, 9), product(3, 0, 8));
}

TEST(PackedRows, AMaskedPushAndMatmulTakeZerosOutsideTheMask) {
  BundleRunner core(shape_of_v4());
  fill(core, 1, 0);
  fill(core, 2, 8);
  core.run(
      "{ %v3 = vpack.c.bf16 %v2, %v1 ;; %v4 = vlaneseq }{ %v4 = vand.u32 127, %v4 }"
      "{ %vm1 = vcmp.lt.s32.totalorder %v4, 96 }"
      "{ vdwg.mxu1 }{ vmatpush.bf16.xpose.msk.msra.mxu1 %vm1, %v3 }"
      "{ vmatmul.f32.gmra.mxu1 %v1 }{ %v5 = vpop.f32.mrf.mxu1 }"
      "{ vdwg.mxu2 }{ vmatpush.bf16.xpose.msra.mxu2 %v3 }"
      "{ vmatmul.msk.f32.gmra.mxu2 %vm1, %v1 }{ %v6 = vpop.f32.mrf.mxu2 }");
  float sum = 0;
  for (int k = 0; k < 96; ++k) sum += value(2, k) * value(13, k);
  EXPECT_EQ(core.number(5, 2, 13), sum);
  EXPECT_EQ(core.state.vector(5).word, core.state.vector(6).word);
}

/// Rows 0 to 2 of a push of eight rows of f32.
TEST(PackedRows, AMaskedPushOfEightRowsTakesZerosOutsideTheMask) {
  BundleRunner core(shape_of_v4());
  fill(core, 1, 0);
  fill(core, 2, 8);
  core.run(
      "{ %v4 = vlaneseq }{ %vm1 = vcmp.lt.s32.totalorder %v4, 384 }{ %v3 = vsel %vm1, %v1, 0 }"
      "{ vdwg.mxu1 }{ vmatpush.msk.msra.mxu1 %vm1, %v1 }"
      "{ vmatmul.f32.gmra.mxu1 %v2 }{ %v5 = vpop.f32.mrf.mxu1 }"
      "{ vdwg.mxu2 }{ vmatpush.msra.mxu2 %v3 }{ vmatmul.f32.gmra.mxu2 %v2 }"
      "{ %v6 = vpop.f32.mrf.mxu2 }");
  float sum = 0;
  for (int k = 0; k < 3; ++k) sum += value(10, k) * value(k, 13);
  EXPECT_EQ(core.number(6, 2, 13), sum);
  EXPECT_EQ(core.state.vector(5).word, core.state.vector(6).word);
}

TEST(PackedRows, ATransposeDeliversSixteenRowsAPop) {
  BundleRunner core(shape_of_v4());
  fill(core, 1, 0);
  fill(core, 2, 8);
  core.run(
      "{ %v3 = vpack.c.bf16 %v2, %v1 }"
      "{ vxpose.xlu0.c.b16.start.end [1/1] %v3, 32 }{ %v4 = vpop.trf.xlu0 }"
      "{ %v5 = vpop.trf.xlu0 }{ %v6 = vunpack.c.h.bf16 %v5 }");
  EXPECT_EQ(core.number(6, 3, 14), value(14, 16 + 8 + 3));
  for (int row = 0; row < 16; ++row) EXPECT_EQ(core.number(6, 0, row), value(row, 16 + 8)) << row;
  EXPECT_EQ(core.element(6, 3, 16), 0u);
}

/// Runs of 8 granules, 16 from one to the next in the source, 24 in the destination.
TEST(Cmem, DmasHaveRunsOfConstantsOrOfWordsInSmem) {
  BundleRunner core(shape_of_v4());
  core.run("{ dma.vmem_to_cmem.strided [strides:16, 24, 8] 3, 64, 5, 7 }");
  // Rows of 3 runs of 8 granules: 48 from row to row in the source, 24 in the destination.
  for (int i = 0; i < 6; ++i) {
    const int words[] = {48, 24, 3, 8, 8, 8};
    core.run("{ sst [smem:$" + std::to_string(20 + i) + "] " + std::to_string(words[i]) + " }");
  }
  core.run("{ %s3 = smov 20 }{ dma.general.cmem_to_vmem [smem:%s3] 3, 192, 5, 7 }");
  core.run("{ dma.general.hbm_to_vmem [smem:$20] 3, 192, 5, 7 }");
  ASSERT_EQ(core.surroundings.dmas.size(), 3u);
  const DmaDescriptor strided = core.surroundings.dmas[0];
  EXPECT_TRUE((strided.source == DmaEndpoint{0, 0, MemorySpace::kVmem, 3, 16, 8}));
  EXPECT_TRUE((strided.destination == DmaEndpoint{0, 0, MemorySpace::kCmem, 5, 24, 8}));
  EXPECT_EQ(strided.granules, 64u);
  EXPECT_EQ(strided.destination_flag, 7u);
  const DmaDescriptor general = core.surroundings.dmas[1];
  EXPECT_TRUE((general.source == DmaEndpoint{0, 0, MemorySpace::kCmem, 3, 48, 24}));
  EXPECT_TRUE((general.destination == DmaEndpoint{0, 0, MemorySpace::kVmem, 5, 24, 24}));
  EXPECT_EQ(core.surroundings.dmas[2].source.space, MemorySpace::kHbm);
  // Runs with gaps in the source, whose rows go on with their stride.
  core.run("{ sst [smem:$23] 16 }{ dma.general.cmem_to_vmem [smem:$20] 3, 192, 5, 7 }");
  EXPECT_TRUE(
      (core.surroundings.dmas[3].source == DmaEndpoint{0, 0, MemorySpace::kCmem, 3, 16, 8}));
  EXPECT_TRUE(core.surroundings.dmas[3].destination == general.destination);
  core.run("{ sst [smem:$20] 56 }");
  EXPECT_NE(core.fault("{ dma.general.cmem_to_vmem [smem:$20] 3, 192, 5, 7 }")
                .find("expected runs without gaps in a row, or rows that go on with their stride, "
                      "found both (strides 56, 24, 3, 16, 8, 8)"),
            std::string::npos);
  // One row, or a run in each row: one of the two strides does not matter.
  core.run("{ dma.general.cmem_to_vmem [smem:$20] 3, 24, 5, 7 }{ sst [smem:$22] 1 }");
  core.run("{ dma.general.cmem_to_vmem [smem:$20] 3, 24, 5, 7 }");
  EXPECT_EQ(core.surroundings.dmas[4].source.stride, 16u);
  EXPECT_EQ(core.surroundings.dmas[5].source.stride, 56u);
  core.run("{ dma.hbm_to_cmem.strided [strides:16, 24, 8] 3, 64, 5, 7 }");
  core.run("{ dma.cmem_to_hbm.strided [strides:16, 24, 8] 3, 64, 5, 7 }");
  EXPECT_TRUE((core.surroundings.dmas[6].source == DmaEndpoint{0, 0, MemorySpace::kHbm, 3, 16, 8}));
  EXPECT_TRUE(
      (core.surroundings.dmas[6].destination == DmaEndpoint{0, 0, MemorySpace::kCmem, 5, 24, 8}));
  EXPECT_TRUE(
      (core.surroundings.dmas[7].source == DmaEndpoint{0, 0, MemorySpace::kCmem, 3, 16, 8}));
  EXPECT_TRUE(
      (core.surroundings.dmas[7].destination == DmaEndpoint{0, 0, MemorySpace::kHbm, 5, 24, 8}));
  core.run("{ dma.general.hbm_to_cmem [smem:$20] 3, 24, 5, 7 }");
  core.run("{ dma.general.cmem_to_hbm [smem:$20] 3, 24, 5, 7 }");
  EXPECT_EQ(core.surroundings.dmas[8].destination.space, MemorySpace::kCmem);
  EXPECT_EQ(core.surroundings.dmas[9].source.space, MemorySpace::kCmem);
  const std::string beyond = std::to_string(core.state.scalar.smem.size() - 5);
  EXPECT_NE(core.fault("{ dma.general.cmem_to_vmem [smem:$" + beyond + "] 3, 192, 5, 7 }"), "none");
}

/// To core 1 of chip 5, from row 3 to row 9: flag 12 here, 6 there.
TEST(Cmem, AGeneralDmaFromVmemToVmemGoesToAnotherCore) {
  BundleRunner core(shape_of_v4());
  const std::uint32_t other = 0x80008000U | 3U << 26 | 5U;
  core.state.scalar.s[10] = 12;
  const auto start = [&](std::uint32_t word, std::uint32_t flag) {
    core.state.scalar.s[11] = word;
    core.state.scalar.s[12] = flag;
    return core.fault("{ dma.general.vmem_to_vmem [far:%s10, %s11] 3, 16, 9, %s12 }");
  };
  EXPECT_EQ(start(other, 3U << 13 | 6U), "none");
  ASSERT_EQ(core.surroundings.dmas.size(), 1u);
  DmaDescriptor expected;
  expected.source = {0, 0, MemorySpace::kVmem, 3, 0, 0};
  expected.destination = {5, 1, MemorySpace::kVmem, 9, 0, 0};
  expected.granules = 16;
  expected.source_flag = 12;
  expected.destination_flag = 6;
  expected.remote = true;
  EXPECT_TRUE(core.surroundings.dmas[0] == expected);
  const std::string refusal = "expected another core as 0x80008000 | core + 2 << 26 | chip";
  const std::string found = "found 0xc008005 and 0x6006";
  EXPECT_NE(start(3U << 26 | 0x8005U, 3U << 13 | 6U).find(refusal), std::string::npos);
  EXPECT_NE(start(3U << 26 | 0x8005U, 3U << 13 | 6U).find(found), std::string::npos);
  EXPECT_NE(start(0x80008000U | 1U << 26 | 5U, 1U << 13 | 6U).find(refusal), std::string::npos);
  EXPECT_NE(start(other, 2U << 13 | 6U).find(refusal), std::string::npos);  // Of core 0.
  EXPECT_NE(start(other | 0x10000U, 3U << 13 | 6U).find(refusal), std::string::npos);
  EXPECT_EQ(core.surroundings.dmas.size(), 1u);
}

/// The fifteen words of the launch: word 100 of SMEM to word 61 of core 1 of chip 5, flag 50 there.
TEST(Cmem, ADmaOfFifteenWordsBringsAWordToAnotherCore) {
  BundleRunner core(shape_of_v4());
  std::vector<std::uint32_t> words(15, 1);
  words[0] = 0x81018000U | 3U << 26 | 5U;
  words[1] = 0;
  words[2] = 3U << 13 | 50U;
  words[3] = 0x80000001U;
  words[4] = 100;
  words[5] = 61;
  const auto start = [&](std::size_t changed, std::uint32_t value) {
    std::vector<std::uint32_t> stored = words;
    stored.at(changed) = value;
    std::copy(stored.begin(), stored.end(), core.state.scalar.smem.begin() + 20);
    return core.fault("{ dma 20 }");
  };
  EXPECT_EQ(start(0, words[0]), "none");
  EXPECT_EQ(start(0, 0x81010000U | 3U << 26), "none");  // To core 1 of chip 0.
  ASSERT_EQ(core.surroundings.dmas.size(), 2u);
  DmaDescriptor expected;
  expected.source = {0, 0, MemorySpace::kSmem, 100, 0, 0};
  expected.destination = {5, 1, MemorySpace::kSmem, 61, 0, 0};
  expected.granules = 1;
  expected.source_flag = 0;
  expected.destination_flag = 50;
  expected.remote = true;
  EXPECT_TRUE(core.surroundings.dmas[0] == expected);
  EXPECT_EQ(core.surroundings.dmas[1].destination.chip, 0u);
  for (const std::size_t changed : {0U, 2U, 6U, 14U}) {
    EXPECT_NE(start(changed, 7).find("expected a word of SMEM for another core"), std::string::npos)
        << changed;
  }
  // Without the mark it is v3's descriptor, whose word 4 has other fields.
  EXPECT_NE(start(3, 1).find("in word 4, found 0x64"), std::string::npos);
}

TEST(Cmem, LoadsComeOutOfTheirQueueInOrder) {
  BundleRunner core(shape_of_v4());
  fill(core, 1, 0);
  fill(core, 2, 8);
  core.run(
      "{ cst [cmem:$0x8] %v1 }{ cst [cmem:$0x10 sm:$0xf] %v2 }"
      "{ cld [cmem:$0x10 sm:$0x7] }{ cld [cmem:$0x8] }"
      "{ %v3 = vpop.crf }{ %v4 = vpop.crf }");
  EXPECT_EQ(core.number(3, 2, 5), value(10, 5));
  EXPECT_EQ(core.element(3, 3, 5), 0u);  // Not selected.
  EXPECT_EQ(core.state.vector(4).word, core.state.vector(1).word);
  EXPECT_NE(core.fault("{ %v3 = vpop.crf }").find("CMEM loads"), std::string::npos);
  EXPECT_NE(core.fault("{ cld [cmem:$0x3c] }").find("rows of CMEM below 64"), std::string::npos);
}

TEST(Cmem, OlderGenerationsHaveNeither) {
  for (const Opcode opcode : {Opcode::kCld, Opcode::kVmatmulBf16, Opcode::kVpackCBf16}) {
    EXPECT_FALSE(generation_has("v3", opcode)) << opcode_text(opcode);
    EXPECT_TRUE(generation_has("v4", opcode)) << opcode_text(opcode);
  }
  EXPECT_TRUE(generation_has("v3", Opcode::kVshraS32S4));
}

}  // namespace
}  // namespace tpu::isa::test::packed_rows_test
