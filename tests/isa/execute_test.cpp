#include "isa/execute.h"

#include <gtest/gtest.h>

#include <bitset>
#include <cmath>
#include <limits>

#include "bundle_runner.h"
#include "isa/vector_arithmetic.h"
#include "sim/base/error.h"

namespace tpu::isa::execute_test {
namespace {

using test::BundleRunner;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The result of a scalar instruction on two immediates.
std::uint32_t scalar(const std::string& mnemonic, std::uint32_t a, std::uint32_t b) {
  BundleRunner core;
  core.state.scalar.s[1] = a;
  core.state.scalar.s[2] = b;
  core.run("{ %s3 = " + mnemonic + " %s1, %s2 }");
  return core.state.scalar.s[3];
}

/// The result of a vector instruction on two values in every element.
std::uint32_t vector(const std::string& mnemonic, std::uint32_t a, std::uint32_t b) {
  BundleRunner core;
  core.state.vector(1).word.fill(a);
  core.state.vector(2).word.fill(b);
  core.run("{ %v3 = " + mnemonic + " %v1, %v2 }");
  for (std::uint32_t word : core.state.vector(3).word) {
    EXPECT_EQ(word, core.element(3, 0, 0)) << mnemonic;
  }
  return core.element(3, 0, 0);
}

std::uint32_t vector(const std::string& mnemonic, std::uint32_t a) {
  BundleRunner core;
  core.state.vector(1).word.fill(a);
  core.run("{ %v3 = " + mnemonic + " %v1 }");
  return core.element(3, 5, 77);
}

TEST(Execute, AllInstructionsOfABundleReadBeforeOneWrites) {
  BundleRunner core;
  core.state.scalar.s[1] = 10;
  core.state.scalar.s[2] = 20;
  core.run("{ %s1 = smov %s2 ;; %s2 = smov %s1 }");
  EXPECT_EQ(core.state.scalar.s[1], 20u);
  EXPECT_EQ(core.state.scalar.s[2], 10u);
  core.state.vector(1).word.fill(1);
  core.state.vector(2).word.fill(2);
  core.state.scalar.s[3] = 16;
  core.run(
      "{ %v1 = vmov %v2 ;; %v2 = vmov %v1 ;; vst [vmem:%s3] %v1 ;; %v3 = vld [vmem:%s3] ;; "
      "%s3 = sadd.s32 %s3, 8 }");
  EXPECT_EQ(core.element(1, 0, 0), 2u);
  EXPECT_EQ(core.element(2, 7, 127), 1u);
  EXPECT_EQ(core.element(3, 0, 0), kUnwrittenWord);
  EXPECT_EQ(core.state.vmem.row(16)[5], 1u);
  EXPECT_EQ(core.state.scalar.s[3], 24u);
}

TEST(Execute, AGuardThatDoesNotHoldLeavesEverythingAsItWas) {
  BundleRunner core;
  core.state.scalar.p[3] = true;
  core.run("{ %s1 = smov (%p3), 1 ;; %s2 = smov (!%p3), 1 }");
  core.run("{ %v1 = vmov (%p3), 7 ;; %v2 = vmov (!%p3), 7 ;; vst [vmem:$0x0] (!%p3), 9 }");
  core.run("{ vpow2.f32 (!%p3), %v1 ;; vsyncadd (!%p3), 3, 1 }");
  EXPECT_EQ(core.state.scalar.s[1], 1u);
  EXPECT_EQ(core.state.scalar.s[2], 0u);
  EXPECT_EQ(core.element(1, 0, 0), 7u);
  EXPECT_EQ(core.element(2, 0, 0), 0u);
  EXPECT_EQ(core.state.vmem.row(0)[0], 0u);
  EXPECT_TRUE(core.state.eup.empty());
  EXPECT_TRUE(core.surroundings.flags.empty());
}

TEST(Execute, ScalarArithmeticIsModulo32Bits) {
  EXPECT_EQ(scalar("sadd.s32", 0xffffffff, 2), 1u);
  EXPECT_EQ(scalar("ssub.s32", 1, 2), 0xffffffffu);
  EXPECT_EQ(scalar("smul.u32", 0x10000, 0x10001), 0x10000u);
  EXPECT_EQ(scalar("smul.u24", 0xff000003, 0xff000005), 15u);
  EXPECT_EQ(scalar("sshll.u32", 1, 31), 0x80000000u);
  EXPECT_EQ(scalar("sshll.u32", 1, 32), 0u);
  EXPECT_EQ(scalar("sshrl.u32", 0x80000000, 31), 1u);
  EXPECT_EQ(scalar("sshrl.u32", 0x80000000, 0xffffffff), 0u);
  EXPECT_EQ(scalar("sshra.s32", 0x80000000, 40), 0xffffffffu);
  EXPECT_EQ(scalar("sand.u32", 12, 10), 8u);
  EXPECT_EQ(scalar("sor.u32", 12, 10), 14u);
  EXPECT_EQ(scalar("sxor.u32", 12, 10), 6u);
  EXPECT_EQ(scalar("scalar_lea.vmem", 12, 10), 22u);
  EXPECT_EQ(scalar("smul.f32", as_bits(1.5f), as_bits(-2.0f)), as_bits(-3.0f));
  EXPECT_EQ(scalar("smax.f32", as_bits(1.5f), as_bits(-2.0f)), as_bits(1.5f));
}

TEST(Execute, ScalarComparisonsAreSignedAndPredicatesLogical) {
  BundleRunner core;
  core.run("{ %p1 = scmp.lt.s32.totalorder -1, 0 ;; %p2 = scmp.ge.s32.totalorder -1, 0 }");
  EXPECT_TRUE(core.state.scalar.p[1]);
  EXPECT_FALSE(core.state.scalar.p[2]);
  core.run("{ %p3 = pnand %p1, !%p2 ;; %p4 = por %p2, 0 }");
  core.run("{ %p5 = pneg %p4 ;; %p6 = pmov !%p1 }");
  core.run("{ %s1 = scalar_select %p1, 5, 6 ;; %s2 = scalar_select !%p1, 5, 6 }");
  EXPECT_FALSE(core.state.scalar.p[3]);
  EXPECT_FALSE(core.state.scalar.p[4]);
  EXPECT_TRUE(core.state.scalar.p[5]);
  EXPECT_FALSE(core.state.scalar.p[6]);
  EXPECT_EQ(core.state.scalar.s[1], 5u);
  EXPECT_EQ(core.state.scalar.s[2], 6u);
}

TEST(Execute, ScalarMemoryIsAddressedInWordsAndBounded) {
  BundleRunner core;
  core.state.scalar.s[1] = 20;
  core.run("{ sst [smem:%s1 + $0x2] 7 }{ %s2 = sld [smem:$0x16] }");
  EXPECT_EQ(core.state.scalar.s[2], 7u);
  EXPECT_EQ(core.fault("{ %s2 = sld [smem:%s1 + $0x100] }"),
            "%s2 = sld [smem:%s1 + $0x100]: expected a word of SMEM below 256, found 276");
  EXPECT_EQ(core.fault("{ sst [smem:%s1 - $0x15] 1 }"),
            "sst [smem:%s1 - $0x15] 1: expected a word of SMEM below 256, found -1");
}

TEST(Execute, VectorIntegerArithmetic) {
  EXPECT_EQ(vector("vadd.s32", 0xffffffff, 2), 1u);
  EXPECT_EQ(vector("vsub.s32", 1, 2), 0xffffffffu);
  EXPECT_EQ(vector("vand.u32", 12, 10), 8u);
  EXPECT_EQ(vector("vor.u32", 12, 10), 14u);
  EXPECT_EQ(vector("vxor.u32", 12, 10), 6u);
  EXPECT_EQ(vector("vshll.u32", 3, 31), 0x80000000u);
  EXPECT_EQ(vector("vshll.u32", 3, 32), 0u);
  EXPECT_EQ(vector("vshrl.u32", 0x80000000, 31), 1u);
  EXPECT_EQ(vector("vshrl.u32", 0x80000000, 33), 0u);
  EXPECT_EQ(vector("vshra.s32", 0x80000000, 33), 0xffffffffu);
  EXPECT_EQ(vector("vclz", 0), 32u);
  EXPECT_EQ(vector("vclz", 1), 31u);
  EXPECT_EQ(vector("vclz", 0xffffffff), 0u);
}

TEST(Execute, VectorFloatArithmetic) {
  EXPECT_EQ(vector("vadd.f32", as_bits(1.5f), as_bits(2.25f)), as_bits(3.75f));
  EXPECT_EQ(vector("vsub.f32", as_bits(1.5f), as_bits(2.25f)), as_bits(-0.75f));
  EXPECT_EQ(vector("vmul.f32", as_bits(1e-30f), as_bits(1e-15f)), as_bits(1e-30f * 1e-15f));
  EXPECT_EQ(vector("vmax.f32", as_bits(1.5f), as_bits(-kInfinity)), as_bits(1.5f));
  EXPECT_EQ(vector("vmin.f32", as_bits(1.5f), as_bits(-kInfinity)), as_bits(-kInfinity));
  EXPECT_TRUE(std::isnan(as_float(vector("vmax.f32", as_bits(kNan), as_bits(1.0f)))));
  EXPECT_TRUE(std::isnan(as_float(vector("vmin.f32", as_bits(1.0f), as_bits(kNan)))));
}

TEST(Execute, Conversions) {
  EXPECT_EQ(vector("vcvt.s32.f32", 0xfffffffd), as_bits(-3.0f));
  EXPECT_EQ(vector("vf32.e.s32", as_bits(8.0f)), 3u);
  EXPECT_EQ(vector("vf32.e.s32", as_bits(0.25f)), 0xfffffffeu);
  EXPECT_EQ(vector("vf32.s.s32", as_bits(1.5f)), 0xc00000u);
  EXPECT_EQ(vector("vf32.f32", 0xc00000, 3), as_bits(12.0f));
  EXPECT_EQ(vector("vf32.f32", 0xffffffff, 23), as_bits(-1.0f));
  EXPECT_EQ(vector("vf32.f32", 1, 0x7fffffff), as_bits(kInfinity));
  BundleRunner core;
  const std::pair<float, std::int32_t> truncated[] = {
      {2.9f, 2}, {-2.9f, -2}, {3e9f, 0x7fffffff}, {-3e9f, INT32_MIN}, {kNan, 0}};
  for (const auto& [value, expected] : truncated) {
    core.state.vector(1).word.fill(as_bits(value));
    core.run("{ %v3 = vcvt.pr.f32.s32 %v1, -1 }");
    EXPECT_EQ(static_cast<std::int32_t>(core.element(3, 0, 0)), expected);
  }
  for (const char* other :
       {"{ %v3 = vcvt.pr.f32.s32 %v1, 0 }", "{ %s3 = scvt.pr.f32.s32 %s1, 7 }"}) {
    EXPECT_NE(core.fault(other).find("rounding mode -1"), std::string::npos) << other;
  }
}

TEST(Execute, RoundingGoesAwayFromZeroAboveTheThresholdOnBothUnits) {
  const std::pair<float, std::int32_t> nearest[] = {{0.5f, 1},         {-0.5f, -1},
                                                    {1.5f, 2},         {2.5f, 3},
                                                    {-2.5f, -3},       {0.49999997f, 0},
                                                    {-0.0f, 0},        {4194304.5f, 4194305},
                                                    {3e9f, INT32_MAX}, {-2147483648.0f, INT32_MIN},
                                                    {kNan, 0},         {kInfinity, INT32_MAX}};
  BundleRunner core;
  for (const auto& [value, expected] : nearest) {
    core.state.vector(1).word.fill(as_bits(value));
    core.state.scalar.s[1] = as_bits(value);
    core.run("{ %v3 = vcvt.pr.f32.s32 %v1, 2147483647 ;; %s3 = scvt.pr.f32.s32 %s1, 2147483647 }");
    EXPECT_EQ(static_cast<std::int32_t>(core.element(3, 7, 127)), expected) << value;
    EXPECT_EQ(static_cast<std::int32_t>(core.state.scalar.s[3]), expected) << value;
  }
  core.run("{ %s3 = scvt.pr.f32.s32 -2.9, -1 ;; %s4 = scvt.pr.f32.s32 2.9, -1 }");
  EXPECT_EQ(core.state.scalar.s[3], 0xfffffffeu);
  EXPECT_EQ(core.state.scalar.s[4], 2u);
}

TEST(Execute, ScalarsConvertCompareAndCountAsVectorsDo) {
  BundleRunner core;
  core.state.scalar.s[1] = 16777219;
  core.run("{ %s2 = scvt.s32.f32 %s1 ;; %s3 = sclz %s1 }{ %s4 = sclz 0 ;; %s5 = scvt.s32.f32 -3 }");
  EXPECT_EQ(as_float(core.state.scalar.s[2]), 16777220.0f);
  EXPECT_EQ(core.state.scalar.s[3], 7u);
  EXPECT_EQ(core.state.scalar.s[4], 32u);
  EXPECT_EQ(as_float(core.state.scalar.s[5]), -3.0f);
  const float numbers[] = {kNan, -kInfinity, -1.0f, -0.0f, 0.0f, 1e-40f, 2.0f, kInfinity};
  for (const char* order : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    for (const float a : numbers) {
      for (const float b : numbers) {
        core.state.scalar.s[1] = as_bits(a);
        core.state.scalar.s[2] = as_bits(b);
        core.run("{ %v1 = vstv %s1 ;; %v2 = vstv %s2 }");
        const std::string text = std::string("cmp.") + order + ".f32.partialorder ";
        core.run("{ %p1 = s" + text + "%s1, %s2 ;; %vm1 = v" + text + "%v1, %v2 }");
        EXPECT_EQ(core.state.scalar.p[1], (core.state.masks[1].bits[0] & 1) != 0)
            << a << " " << order << " " << b;
      }
    }
  }
  for (const float a : numbers) {
    core.state.scalar.s[1] = as_bits(a);
    core.run("{ %p1 = sweird.f32 %s1 }");
    EXPECT_EQ(core.state.scalar.p[1], !std::isfinite(a)) << a;
  }
}

TEST(Execute, CarriesAndCountsOfBits) {
  BundleRunner core;
  core.fill_random(1, 1, false);
  core.fill_random(2, 2, false);
  core.element(1, 0, 0) = 0xffffffff;
  core.element(2, 0, 0) = 0;
  core.element(1, 0, 1) = 0xffffffff;
  core.element(2, 0, 1) = 1;
  core.run("{ %vm1 = vc.u32 %v1, %v2 ;; %v3 = vpcnt %v1 }");
  for (int i = 0; i < 1024; ++i) {
    const std::uint32_t x = core.state.vector(1).word[i];
    const std::uint32_t y = core.state.vector(2).word[i];
    const bool carries = (std::uint64_t{x} + y) >> 32 != 0;
    ASSERT_EQ((core.state.masks[1].bits[i / 64] >> i % 64 & 1) != 0, carries) << i;
    ASSERT_EQ(core.state.vector(3).word[i], std::bitset<32>(x).count()) << i;
    core.state.scalar.s[1] = x;
    core.state.scalar.s[2] = y;
    core.run("{ %p1 = sc.u32 %s1, %s2 }");
    ASSERT_EQ(core.state.scalar.p[1], carries) << i;
  }
}

TEST(Execute, ATypeBehindTheNameDoesNotChangeTheMeaning) {
  for (const char* type : {".pred", ".u4", ".u8", ".u16"}) {
    EXPECT_EQ(vector("vand.u32" + std::string(type), 0xfff0, 0x18f0), 0x18f0u) << type;
  }
  for (const char* type : {".s4", ".s8", ".s16"}) {
    EXPECT_EQ(vector("vshra.s32" + std::string(type), 0x90000000, 28), 0xfffffff9u) << type;
  }
  EXPECT_EQ(vector("vclamp-gez-f32", as_bits(-1.0f), as_bits(255.0f)), as_bits(0.0f));
  EXPECT_EQ(vector("vclamp-gez-f32", as_bits(kInfinity), as_bits(255.0f)), as_bits(255.0f));
  EXPECT_EQ(vector("vclamp-gez-f32", as_bits(7.5f), as_bits(255.0f)), as_bits(7.5f));
}

TEST(Execute, PackRoundsToNearestEvenAndPutsTheFirstInTheHighHalf) {
  EXPECT_EQ(vector("vpack.i.bf16", 0x3f808000, 0x3f818000), 0x3f803f82u);
  EXPECT_EQ(vector("vpack.i.bf16", 0x3f808001, 0x7f7fffff), 0x3f817f80u);
  EXPECT_EQ(vector("vpack.i.bf16", 0x7f800001, 0xff800000), 0x7fc0ff80u);
}

TEST(Execute, LaneSequenceBroadcastAndSublaneRotation) {
  BundleRunner core;
  core.state.scalar.s[1] = 9;
  core.run("{ %v1 = vmov 77 }{ %v1 = vlaneseq ;; %v2 = vstv %s1 }{ %v3 = vrot.slane.down %v1 }");
  EXPECT_EQ(core.element(1, 0, 0), 0u);
  EXPECT_EQ(core.element(1, 3, 5), 3u * 128 + 5);
  EXPECT_EQ(core.element(2, 7, 0), 9u);
  EXPECT_EQ(core.element(3, 2, 5), 3u * 128 + 5);
  EXPECT_EQ(core.element(3, 7, 5), 5u);
}

/// Broadcast immediates are kept from bundle to bundle, but not forever.
TEST(Execute, ManyVectorImmediatesKeepTheirValues) {
  BundleRunner core;
  for (int round = 0; round < 2; ++round) {
    for (int value = 1; value <= 40; ++value) {
      core.run("{ %v1 = vadd.s32 %v0, " + std::to_string(value) + " }{ %v0 = vadd.s32 0, 0 }");
      core.run("{ %v1 = vadd.s32 %v0, " + std::to_string(value) + " }");
      EXPECT_EQ(core.element(1, 3, 5), static_cast<std::uint32_t>(value));
    }
  }
}

TEST(Execute, ComparisonsGiveAMaskBitPerElement) {
  const char* orders[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  BundleRunner core;
  core.fill_random(1, 1, true);
  core.fill_random(2, 2, true);
  for (int i = 0; i < 1024; i += 7) core.state.vector(2).word[i] = core.state.vector(1).word[i];
  for (int i = 0; i < 1024; i += 11) core.state.vector(2).word[i] = as_bits(kNan);
  const auto holds = [](int order, auto x, auto y) {
    const bool results[] = {x == y, x != y, x<y, x <= y, x> y, x >= y};
    return results[order];
  };
  for (int order = 0; order < 6; ++order) {
    const std::string name = std::string("vcmp.") + orders[order];
    core.run("{ %vm1 = " + name + ".f32.partialorder %v1, %v2 ;; %vm2 = " + name +
             ".s32.totalorder %v1, %v2 }");
    for (int i = 0; i < 1024; ++i) {
      const std::uint32_t x = core.state.vector(1).word[i];
      const std::uint32_t y = core.state.vector(2).word[i];
      const auto bit = [&](int mask) {
        return (core.state.masks[mask].bits[i / 64] >> i % 64 & 1) != 0;
      };
      ASSERT_EQ(bit(1), holds(order, as_float(x), as_float(y))) << name << " " << i;
      ASSERT_EQ(bit(2), holds(order, static_cast<std::int32_t>(x), static_cast<std::int32_t>(y)));
    }
  }
}

TEST(Execute, WeirdNumbersAreInfiniteOrNone) {
  BundleRunner core;
  const float values[] = {kInfinity, kNan, -kInfinity, 0.0f, 1e-40f, 1.0f, 3e38f};
  for (int i = 0; i < 7; ++i) core.element(1, 0, i) = as_bits(values[i]);
  core.run("{ %vm3 = vweird.f32 %v1 }");
  EXPECT_EQ(core.state.masks[3].bits[0] & 0x7f, 0x7u);
}

TEST(Execute, MasksSelectAndCombine) {
  BundleRunner core;
  core.run(
      "{ %v1 = vlaneseq }{ %vm1 = vcmp.lt.s32.totalorder %v1, 300 ;; %vm2 = "
      "vcmp.ge.s32.totalorder %v1, 100 }");
  core.run(
      "{ %vm3 = vmand %vm1, %vm2 ;; %vm4 = vmneg %vm1 }{ %vm5 = vmor %vm4, 0 ;; %vm6 = vmmov 1 }");
  core.run("{ %vm7 = vmxor %vm1, %vm2 }");
  core.run("{ %v2 = vsel %vm3, %v1, 7 ;; %v3 = vsel %vm5, 1, 2 }{ %v4 = vsel %vm6, 3, %v1 }");
  for (int i = 0; i < 1024; ++i) {
    EXPECT_EQ(core.state.vector(2).word[i], i >= 100 && i < 300 ? i : 7u);
    EXPECT_EQ(core.state.vector(3).word[i], i >= 300 ? 1u : 2u);
    EXPECT_EQ(core.state.vector(4).word[i], 3u);
    EXPECT_EQ(core.state.masks[7].bits[i / 64] >> i % 64 & 1, i < 100 || i >= 300 ? 1u : 0u);
  }
}

TEST(Execute, LoadsAndStoresFollowStrideAndSublaneMask) {
  BundleRunner core;
  for (std::uint32_t row = 0; row < 64; ++row) {
    for (std::uint32_t lane = 0; lane < 128; ++lane)
      core.state.vmem.row(row)[lane] = 1000 * row + lane;
  }
  core.state.vmem.mark_written(0, 64);
  core.state.scalar.s[1] = 20;
  core.state.scalar.s[2] = 0x105;
  core.run(
      "{ %v1 = vld [vmem:%s1] }{ %v2 = vld [vmem:%s1 ss:$-2] }{ %v3 = vld [vmem:%s1 + $0x1 ss:$0] }"
      "{ %v4 = vld [vmem:%s1 sm:$0x6] }{ %v5 = vld [vmem:%s1 sm:%s2] }");
  for (int i = 0; i < 8; ++i) {
    const auto lane9 = [&](int row) { return static_cast<std::uint32_t>(1000 * row + 9); };
    EXPECT_EQ(core.element(1, i, 9), lane9(20 + i));
    EXPECT_EQ(core.element(2, i, 9), lane9(20 - 2 * i));
    EXPECT_EQ(core.element(3, i, 9), lane9(21));
    EXPECT_EQ(core.element(4, i, 9), i == 1 || i == 2 ? lane9(20 + i) : 0);
    EXPECT_EQ(core.element(5, i, 9), i == 0 || i == 2 ? lane9(20 + i) : 0);
  }
  core.run("{ vst [vmem:$0x64 ss:$2 sm:$0x81] %v1 }");
  EXPECT_EQ(core.state.vmem.row(100)[9], 20009u);
  EXPECT_EQ(core.state.vmem.row(102)[9], 0u);
  EXPECT_EQ(core.state.vmem.row(114)[9], 27009u);
  EXPECT_TRUE(core.state.vmem.is_written(114));
  EXPECT_FALSE(core.state.vmem.is_written(102));
}

/// Of each 64 lanes, which a store takes at once where all are selected.
TEST(Execute, AMaskedStoreLeavesTheOneLaneThatIsOutside) {
  for (const int outside : {0, 1, 63, 64, 127}) {
    BundleRunner core;
    core.run("{ %v1 = vlaneseq }{ %v2 = vand.u32 %v1, 127 }{ %vm1 = vcmp.ne.s32.totalorder %v2, " +
             std::to_string(outside) + " }{ vst [vmem:$0] -7 }{ vst.msk [vmem:$0] %vm1, %v2 }" +
             "{ %v3 = vld [vmem:$0] }");
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto expected = static_cast<std::uint32_t>(lane == outside ? -7 : lane);
      EXPECT_EQ(core.element(3, 0, lane), expected) << lane << ", " << outside;
      EXPECT_EQ(core.element(3, 7, lane), expected) << lane << ", " << outside;
    }
  }
}

TEST(Execute, MaskedStoresTouchSelectedElementsOnly) {
  BundleRunner core;
  core.run(
      "{ %v1 = vlaneseq }{ %vm1 = vcmp.lt.s32.totalorder %v1, 130 }"
      "{ vst.msk [vmem:$0x8] %vm1, %v1 }{ %vm2 = vcmp.lt.s32.totalorder %v1, 100 }{ vst.msk "
      "[vmem:$0x3ff] %vm2, 77 }");
  EXPECT_EQ(core.state.vmem.row(8)[127], 127u);
  EXPECT_EQ(core.state.vmem.row(9)[1], 129u);
  EXPECT_EQ(core.state.vmem.row(9)[2], 0u);
}

/// A sublane without a selected lane has no row: it is not written, and may lie beyond VMEM.
TEST(Execute, MaskedStoresUseRowsOfSelectedLanesOnly) {
  for (int sublane = 0; sublane < kSublanes; ++sublane) {
    for (const int lane : {0, 63, 64, 127}) {
      BundleRunner core;
      const int element = kLanes * sublane + lane;
      core.run("{ %v1 = vlaneseq }{ %vm1 = vcmp.eq.s32.totalorder %v1, " + std::to_string(element) +
               " }{ vst.msk [vmem:$0x10] %vm1, %v1 }");
      for (int i = 0; i < kSublanes; ++i) {
        EXPECT_EQ(core.state.vmem.is_written(static_cast<std::uint32_t>(16 + i)), i == sublane)
            << "element " << element << ", row " << i;
      }
      const std::string last = std::to_string(1023 - sublane);
      EXPECT_EQ(core.fault("{ %s1 = smov " + last + " }{ vst.msk [vmem:%s1] %vm1, %v1 }"), "none");
      EXPECT_EQ(core.state.vmem.row(1023)[lane], static_cast<std::uint32_t>(element));
    }
  }
}

TEST(Execute, AddressesBeyondVmemAreFaultsOnlyWhereASublaneIsUsed) {
  BundleRunner core;
  EXPECT_EQ(
      core.fault("{ %v1 = vld [vmem:$0x3fc] }"),
      "%v1 = vld [vmem:$0x3fc]: expected rows of VMEM below 1024, found row 1024 for sublane 4");
  EXPECT_EQ(core.fault("{ %v1 = vld [vmem:$0x3fc sm:$0xf] }"), "none");
  EXPECT_EQ(
      core.fault("{ vst [vmem:-$0x1 sm:$0x1] %v1 }"),
      "vst [vmem:-$0x1 sm:$0x1] %v1: expected rows of VMEM below 1024, found row -1 for sublane 0");
}

TEST(Execute, RowsThatNothingWroteLoadAsNan) {
  BundleRunner core;
  core.run("{ vst [vmem:$0x10 sm:$0x3f] 1 }{ %v1 = vld [vmem:$0x10] }{ %v2 = vadd.f32 %v1, 1.0 }");
  EXPECT_EQ(core.element(1, 5, 0), 1u);
  EXPECT_EQ(core.element(1, 6, 0), kUnwrittenWord);
  EXPECT_TRUE(std::isnan(as_float(core.element(2, 6, 0))));
}

TEST(Execute, ShuffledAndInterleavedAccess) {
  BundleRunner core;
  for (std::uint32_t row = 0; row < 64; ++row) core.state.vmem.row(row)[3] = row;
  core.state.vmem.mark_written(0, 64);
  core.run(
      "{ %v1 = vld.sshfl [vmem:$0x8 pattern:$0xf59d10] }"
      "{ %v5 = vlaneseq }{ %v5 = vshrl.u32 %v5, 7 }{ %v6 = vshrl.u32 %v5, 1 }"
      "{ %v6 = vsub.s32 %v6, %v5 }{ vsetiar.raw.iar1 %v6 ;; vsetiar.raw.iar0 %v5 }"
      "{ %v2 = vld.even.odd.slanes1 [vmem:$0x8] }"
      "{ vst.even.odd.slanes0 [vmem:$0x40] 1, %v1 }");
  const std::uint32_t pattern = 075316420;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(core.element(1, i, 3), 8 + (pattern >> 3 * i & 7));
    EXPECT_EQ(core.element(2, i, 3), 8u + static_cast<std::uint32_t>(i) / 2);
    EXPECT_EQ(core.state.vmem.row(64u + 2u * static_cast<std::uint32_t>(i))[3],
              core.element(1, i, 3));
  }
}

TEST(Execute, ADamagedIndexRegisterIsAFault) {
  BundleRunner core;
  Instruction in;
  in.opcode = Opcode::kVldEvenOdd;
  in.unit = 4;
  EXPECT_THROW(vmem_rows(in, core.state, 0xff), ProgramFault);
}

TEST(Execute, TranscendentalResultsWaitInOrder) {
  BundleRunner core;
  core.state.vector(1).word.fill(as_bits(4.0f));
  core.run(
      "{ vpow2.f32 %v1 }{ vlog2.f32 %v1 }{ vrcp.f32 %v1 }{ vrsqrt.f32 %v1 }{ vtanh.f32 %v1 }"
      "{ %v2 = vpop.eup }{ %v3 = vpop.eup }{ %v4 = vpop.eup }{ %v5 = vpop.eup }{ %v6 = vpop.eup }");
  EXPECT_EQ(core.number(2, 0, 0), 16.0f);
  EXPECT_EQ(core.number(3, 0, 0), 2.0f);
  EXPECT_EQ(core.number(4, 0, 0), 0.25f);
  EXPECT_EQ(core.number(5, 0, 0), 0.5f);
  EXPECT_FLOAT_EQ(core.number(6, 0, 0), std::tanh(4.0f));
  EXPECT_EQ(
      core.fault("{ %v2 = vpop.eup }"),
      "%v2 = vpop.eup: expected a result in the queue of EUP results, found it empty: nothing "
      "was pushed that this could pop");
  EXPECT_NE(core.fault("{ %v2 = vpop.eup ;; vpow2.f32 %v1 }"), "none");
}

TEST(Execute, LaneReductionsRotationsAndPermutations) {
  BundleRunner core;
  core.run(
      "{ %v1 = vlaneseq }{ %v2 = vcvt.s32.f32 %v1 ;; %v8 = vxor.u32 %v1, 1 }"
      "{ vadd.xlane.f32.xlu0 %v2 }{ vmax.xlane.f32.xlu0 %v2 }{ vmin.xlane.f32.xlu0 %v2 }"
      "{ vrot.lane.b32.xlu0 %v1, 130 }{ vset.pattern.permute.xlu0 %v8 }{ vperm.xlu0 %v1 }"
      "{ %v3 = vpop.xlane.xlu0 }{ %v4 = vpop.xlane.xlu0 }{ %v5 = vpop.xlane.xlu0 }"
      "{ %v6 = vpop.permute.xlu0 }{ %v7 = vpop.permute.xlu0 }");
  for (int s = 0; s < 8; ++s) {
    const int first = 128 * s;
    EXPECT_EQ(core.number(3, s, 77), static_cast<float>(128 * first + 127 * 64));
    EXPECT_EQ(core.number(4, s, 0), static_cast<float>(first + 127));
    EXPECT_EQ(core.number(5, s, 127), static_cast<float>(first));
    EXPECT_EQ(core.element(6, s, 2), static_cast<std::uint32_t>(first));
    EXPECT_EQ(core.element(6, s, 0), static_cast<std::uint32_t>(first + 126));
    EXPECT_EQ(core.element(7, s, 6), static_cast<std::uint32_t>(first + 7));
  }
}

TEST(Execute, LanesAreAddedByHalves) {
  // 2^24 + 1 is no fp32 number. By halves lane 0 meets lane 64 first and cancels; in sequence the
  // ones of lanes 1 to 63 are lost one by one.
  BundleRunner core;
  for (int lane = 0; lane < 128; ++lane) {
    const float value = lane == 0    ? 16777216.0F
                        : lane == 64 ? -16777216.0F
                        : lane < 64  ? 1.0F
                                     : 0.0F;
    for (int s = 0; s < 8; ++s) core.element(1, s, lane) = as_bits(value);
  }
  core.run("{ vadd.xlane.f32.xlu0 %v1 }{ %v2 = vpop.xlane.xlu0 }");
  EXPECT_EQ(core.number(2, 0, 0), 63.0F);
  EXPECT_EQ(core.number(2, 7, 127), 63.0F);
}

TEST(Execute, LanesBesideANarrowTransposeAreZero) {
  // Results take the places of what earlier registers held: none of that shows.
  BundleRunner core;
  core.run("{ %v1 = vlaneseq }{ %v2 = vadd.s32 %v1, 1024 }");
  for (std::uint32_t round = 0; round < 4; ++round) {
    core.fill_random(3, 2 * round, false);
    core.fill_random(4, 2 * round + 1, false);
    core.run(
        "{ vxpose.xlu0.b32.start [1/2] %v1, 16 }{ vxpose.xlu0.b32.end [2/2] %v2, 16 }"
        "{ %v3 = vpop.trf.xlu0 }{ %v4 = vpop.trf.xlu0 }");
    for (const int reg : {3, 4}) {
      for (int s = 0; s < 8; ++s) {
        for (int lane = 16; lane < 128; ++lane) ASSERT_EQ(core.element(reg, s, lane), 0u) << round;
      }
    }
  }
}

TEST(Execute, LanesBesideANarrowPackedTransposeAreZero) {
  BundleRunner core;
  core.fill_random(1, 7, false);
  for (std::uint32_t round = 0; round < 4; ++round) {
    core.fill_random(3, 2 * round, false);
    core.fill_random(4, 2 * round + 1, false);
    core.run(
        "{ vxpose.xlu0.c.b16.start.end [1/1] %v1, 32 }"
        "{ %v3 = vpop.trf.xlu0 }{ %v4 = vpop.trf.xlu0 }");
    for (const int reg : {3, 4}) {
      for (int s = 0; s < 8; ++s) {
        for (int lane = 16; lane < 128; ++lane) ASSERT_EQ(core.element(reg, s, lane), 0u) << round;
      }
    }
  }
}

TEST(Execute, TransposesReturnTheBlockWithLanesAndRowsExchanged) {
  BundleRunner core;
  core.run(
      "{ %v1 = vlaneseq }{ %v2 = vadd.s32 %v1, 1024 }"
      "{ vxpose.xlu0.b32.start [1/2] %v1, 16 }{ vxpose.xlu0.b32.end [2/2] %v2, 16 }"
      "{ %v3 = vpop.trf.xlu0 }{ %v4 = vpop.trf.xlu0 }");
  for (int s = 0; s < 8; ++s) {
    for (int l = 0; l < 128; ++l) {
      EXPECT_EQ(core.element(3, s, l), l < 16 ? static_cast<std::uint32_t>(128 * l + s) : 0u);
      EXPECT_EQ(core.element(4, s, l), l < 16 ? static_cast<std::uint32_t>(128 * l + s + 8) : 0u);
    }
  }
  EXPECT_NE(core.fault("{ %v3 = vpop.trf.xlu0 }"), "none");
  EXPECT_NE(core.fault("{ vxpose.xlu0.b32.cont [3/4] %v1, 128 }")
                .find("expected push 1 of the transpose, found push 3"),
            std::string::npos);
  EXPECT_NE(core.fault("{ vxpose.xlu0.b32.start [1/17] %v1, 128 }").find("up to 16 pushes"),
            std::string::npos);
  for (const std::string width : {"0", "129"}) {
    EXPECT_NE(
        core.fault("{ vxpose.xlu0.b32.start [1/2] %v1, " + width + " }").find("of width " + width),
        std::string::npos);
  }
}

TEST(Execute, ScalarsComeOutOfVectorsAndFlagsThroughOneQueue) {
  BundleRunner core;
  core.run(
      "{ %v1 = vlaneseq }{ %v1 = vadd.s32 %v1, 5 }{ vpush %v1 }{ vsyncadd 9, 4 }{ vsyncmov 9 }"
      "{ %s1 = spop }{ %s2 = spop }");
  EXPECT_EQ(core.state.scalar.s[1], 5u);
  EXPECT_EQ(core.state.scalar.s[2], 4u);
  EXPECT_EQ(core.fault("{ %s1 = spop }")
                .rfind("%s1 = spop: expected a result in the queue of vector "
                       "to scalar",
                       0),
            0u);
}

TEST(Execute, SyncAndDmaGoToTheSurroundings) {
  BundleRunner core;
  core.state.scalar.chip = 2;
  core.state.scalar.core = 1;
  core.state.scalar.s[1] = 100;
  core.run(
      "{ vsyncadd 3, -2 }{ vsyncadd.remote 0x40005, 1 }"
      "{ dma.hbm_to_vmem %s1, 8, 64, 34 }{ dma.vmem_to_hbm 64, 8, %s1, 34 }"
      "{ dma.hbm_to_smem %s1, 1, 32, 35 }{ dma.infeed_to_hbm 16, %s1, 36 }"
      "{ dma.hbm_to_outfeed %s1, 2, 37 }{ dma.smem_to_hbm 32, 1, %s1, 35 }");
  EXPECT_EQ(core.surroundings.flags[3], 0xfffffffeu);
  EXPECT_EQ(core.surroundings.remote.at(0), (std::pair<std::uint32_t, std::uint32_t>{0x40005, 1}));
  ASSERT_EQ(core.surroundings.dmas.size(), 6u);
  const DmaDescriptor& load = core.surroundings.dmas[0];
  EXPECT_EQ(load.source, (DmaEndpoint{2, 1, MemorySpace::kHbm, 100, 0, 0}));
  EXPECT_EQ(load.destination, (DmaEndpoint{2, 1, MemorySpace::kVmem, 64, 0, 0}));
  EXPECT_EQ(load.granules, 8u);
  EXPECT_EQ(load.destination_flag, 34u);
  EXPECT_FALSE(load.remote);
  EXPECT_EQ(core.surroundings.dmas[1].source.space, MemorySpace::kVmem);
  EXPECT_EQ(core.surroundings.dmas[2].destination.space, MemorySpace::kSmem);
  EXPECT_EQ(core.surroundings.dmas[3].source.space, MemorySpace::kInfeed);
  EXPECT_EQ(core.surroundings.dmas[3].granules, 16u);
  EXPECT_EQ(core.surroundings.dmas[3].destination.address, 100u);
  EXPECT_EQ(core.surroundings.dmas[4].destination.space, MemorySpace::kOutfeed);
  EXPECT_EQ(core.surroundings.dmas[4].destination_flag, 37u);
  EXPECT_EQ(core.surroundings.dmas[5].source, (DmaEndpoint{2, 1, MemorySpace::kSmem, 32, 0, 0}));
  EXPECT_EQ(core.surroundings.dmas[5].destination.space, MemorySpace::kHbm);
  EXPECT_EQ(core.surroundings.dmas[5].destination.address, 100u);
}

TEST(Execute, DescriptorsAreReadOutOfScalarMemory) {
  BundleRunner core;
  DmaDescriptor descriptor;
  descriptor.destination.space = MemorySpace::kVmem;
  descriptor.destination.address = 40;
  descriptor.granules = 3;
  descriptor.destination_flag = 33;
  const DmaWords words = encode(descriptor);
  for (std::size_t i = 0; i < words.size(); ++i) core.state.scalar.smem[32 + i] = words[i];
  core.run("{ dma 32 }");
  EXPECT_EQ(core.surroundings.dmas.at(0), descriptor);
  EXPECT_EQ(core.fault("{ dma 64 }").rfind("dma 64: DMA descriptor: expected ", 0), 0u);
  EXPECT_EQ(core.fault("{ dma 250 }"), "dma 250: expected a word of SMEM below 256, found 250");
}

TEST(Execute, TrapsStopWhenTheirGuardHolds) {
  BundleRunner core;
  EXPECT_EQ(core.fault("{ shalt.err (%p1) }"), "none");
  EXPECT_EQ(core.fault("{ shalt.err (!%p1) }"),
            "shalt.err (!%p1): the program's own bounds check stops the core");
}

TEST(Execute, UnitsThatTheCoreDoesNotHaveAreFaults) {
  CoreShape shape = BundleRunner::small_shape();
  shape.mxus = 1;
  BundleRunner core(shape);
  EXPECT_EQ(core.fault("{ vmatpush.msra.mxu1 %v1 }"),
            "vmatpush.msra.mxu1 %v1: expected a unit of this core (1 MXU), found number 1");
  EXPECT_NE(core.fault("{ %v1 = vpop.trf.xlu1 }"), "none");
}

TEST(Execute, ParametersHaveTheirAddresses) {
  BundleRunner core;
  core.state.scalar.parameter_addresses = {{0, 7}, {1, 9}, {0x80000000, 11}};
  core.run("{ %s1 = scalar_parameter_address 1 }");
  EXPECT_EQ(core.state.scalar.s[1], 9u);
  EXPECT_EQ(
      core.fault("{ %s1 = scalar_parameter_address 2 }"),
      "%s1 = scalar_parameter_address 2: expected the number of one of 3 parameters, found 2");
}

TEST(Execute, ControlIsReportedOnTheStateBeforeTheBundle) {
  BundleRunner core;
  const Kernel kernel =
      assemble(
          "kernel k\n{ sbr.rel (%p1) target = 2 ;; %p1 = pmov 0 }{ dma.done.wait %s1, 8 }"
          "{ inlined_call (!%p1) site = 4 }",
          "t")
          .at(0);
  core.state.scalar.p[1] = true;
  core.state.scalar.s[1] = 34;
  ControlRequest request = control_of(kernel, kernel.bundles[0], core.state.scalar);
  EXPECT_TRUE(request.branches);
  EXPECT_EQ(request.target, 2u);
  execute_bundle(kernel, 0, core.state, core.surroundings);
  EXPECT_FALSE(control_of(kernel, kernel.bundles[0], core.state.scalar).branches);
  request = control_of(kernel, kernel.bundles[1], core.state.scalar);
  EXPECT_TRUE(request.waits);
  EXPECT_EQ(request.flag, 34u);
  EXPECT_EQ(request.value, 8u);
  request = control_of(kernel, kernel.bundles[2], core.state.scalar);
  EXPECT_TRUE(request.calls);
  EXPECT_EQ(request.call_site, 4u);
}

TEST(Execute, RandomBitsDependOnTheSeedAlone) {
  BundleRunner a;
  BundleRunner b;
  for (BundleRunner* core : {&a, &b}) {
    core->run("{ %v3 = vlaneseq }{ set.rngseed %v3 }{ %v1 = vrng }{ %v2 = vrng }");
  }
  EXPECT_EQ(a.state.vector(1).word, b.state.vector(1).word);
  EXPECT_NE(a.state.vector(1).word, a.state.vector(2).word);
  EXPECT_NE(a.element(1, 0, 0), a.element(1, 1, 0)) << "a draw for each sublane";
  EXPECT_NE(a.element(1, 0, 0), a.element(1, 0, 2)) << "a generator for each pair of lanes";
  EXPECT_NE(a.element(1, 0, 0), a.element(1, 0, 1));
}

TEST(Execute, TheStateOfTheGeneratorComesBackAsItWasSet) {
  BundleRunner core;
  core.fill_random(1, 5, false);
  core.run("{ set.rngseed %v1 }{ %v2 = getrngseed }");
  for (int lane = 0; lane < kLanes; ++lane) {
    ASSERT_EQ(core.element(2, 0, lane), core.element(1, 0, lane));
    ASSERT_EQ(core.element(2, 1, lane), core.element(1, 1, lane));
  }
  core.run("{ %v3 = vrng }{ %v4 = vrng }{ set.rngseed %v2 }{ %v5 = vrng }{ %v6 = vrng }");
  EXPECT_EQ(core.state.vector(3).word, core.state.vector(5).word);
  EXPECT_EQ(core.state.vector(4).word, core.state.vector(6).word);
}

TEST(Execute, RandomBitsAreEven) {
  BundleRunner core;
  std::array<int, 32> ones{};
  constexpr int kDraws = 64;
  for (int draw = 0; draw < kDraws; ++draw) {
    core.run("{ %v1 = vrng }");
    for (const std::uint32_t word : core.state.vector(1).word) {
      for (int bit = 0; bit < 32; ++bit) ones[bit] += static_cast<int>(word >> bit & 1);
    }
  }
  // Six standard deviations of 65,536 draws are 768.
  for (int bit = 0; bit < 32; ++bit) EXPECT_NEAR(ones[bit], 512 * kDraws, 768) << bit;
}

TEST(Execute, EveryInstructionOfTheTableExecutesOrFaultsAsTheProgramsMistake) {
  for (std::size_t i = 0; i < kOpcodeCount; ++i) {
    const OpcodeInfo& row = info(static_cast<Opcode>(i));
    Instruction in;
    in.opcode = row.opcode;
    if (row.dest_file != 0) in.dest = 1;
    for (std::size_t j = 0; j < row.operand_count; ++j) in.operands[j] = Operand::immediate_(1);
    Kernel kernel;
    kernel.instructions = {in};
    kernel.bundles = {{0, 1, 0}};
    BundleRunner core;
    try {
      execute_bundle(kernel, 0, core.state, core.surroundings);
    } catch (const ProgramFault&) {
    }
  }
}

/// Without a case of its own an instruction would do what the last one of its kind does: smov,
/// scmp.ge.s32, vmin.xlane.
TEST(Execute, EveryInstructionOfTheTableHasAMeaningOfItsOwn) {
  constexpr std::uint32_t kValues[] = {0, 1, 5, 40, 0x80000000, 0x3f800000, 0xbfc00000, 0x7f800000};
  const auto differs = [&](const auto& of, const auto& other) {
    for (const std::uint32_t a : kValues) {
      for (const std::uint32_t b : kValues) {
        if (of(a, b) != other(a, b)) return true;
      }
    }
    return false;
  };
  for (std::size_t i = 0; i < kOpcodeCount; ++i) {
    const OpcodeInfo& row = info(static_cast<Opcode>(i));
    SCOPED_TRACE(row.text);
    if (row.unit == UnitKind::kScalar && row.signature.substr(0, 3) == "s=s") {
      EXPECT_EQ(differs([&](auto a, auto b) { return scalar_result(row.opcode, a, b); },
                        [](auto a, auto) { return a; }),
                row.opcode != Opcode::kSmov);
    }
    if (compares_scalars(row.opcode)) {
      EXPECT_EQ(differs([&](auto a, auto b) { return scalar_comparison(row.opcode, a, b); },
                        [](auto a, auto b) { return scalar_comparison(Opcode::kScmpGeS32, a, b); }),
                row.opcode != Opcode::kScmpGeS32);
    }
    if (row.unit == UnitKind::kXlu && row.queue == Queue::kXlu && row.signature == "=v") {
      BundleRunner core;
      core.run("{ %v1 = vlaneseq }{ %v1 = vcvt.s32.f32 %v1 }{ %v1 = vsub.f32 1.0, %v1 }{ " +
               opcode_text(row.opcode, 0) + " %v1 }{ %v2 = vpop.xlane.xlu0 }");
      EXPECT_EQ(core.number(2, 0, 0) != -126, row.opcode != Opcode::kVminXlane);
    }
  }
}

TEST(Execute, RandomBitsAreThoseOfXorshift128Plus) {
  // A generator with the state 1, 2: the sum is drawn, then x = 1 ^ 1 << 23 gives the next state
  // 2, x ^ 2 ^ x >> 18 = 2^23 + 1 + 2 + 32.
  VectorRegister state;
  state.word.fill(0);
  state.word[0] = 1;
  state.word[1] = 2;
  RandomGenerator generator;
  generator.set_state(state);
  VectorRegister bits;
  generator.draw(bits);
  EXPECT_EQ(bits.word[0], 3u);
  EXPECT_EQ(bits.word[1], 0u);
  constexpr std::uint32_t kSecond = (1u << 23) + 35;
  EXPECT_EQ(bits.word[128], 2 + kSecond);
  // Then x = 2 ^ 2 << 23, whose shift by 18 is 64, and kSecond >> 5.
  constexpr std::uint32_t kThird = (2u ^ 2u << 23) ^ kSecond ^ 64u ^ kSecond >> 5;
  EXPECT_EQ(bits.word[256], kSecond + kThird);
}

}  // namespace
}  // namespace tpu::isa::execute_test
