#include "isa/packed_rows.h"

#include <gtest/gtest.h>

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
  EXPECT_NE(core.fault("{ %vm2 = vsmask.f32 65537 }").find("even n up to 16"), std::string::npos);
  core.run("{ %v2 = vmov 65535 }");
  EXPECT_NE(core.fault("{ %vm2 = vsmask.f32 %v2 }").find("the same for the two rows"),
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
