#include "isa/mxu_state.h"

#include <gtest/gtest.h>

#include "bundle_runner.h"
#include "isa/vector_arithmetic.h"
#include "sim/base/error.h"

namespace tpu::isa::mxu_state_test {
namespace {

using test::BundleRunner;

/// Pushes a weight matrix w(k, n) so that row k of it becomes weight row k.
template <class Weights>
void push_weights(BundleRunner& core, const std::string& mnemonic, int rows, Weights w) {
  for (int block = rows / 8 - 1; block >= 0; --block) {
    for (int i = 0; i < 8; ++i) {
      for (int n = 0; n < 128; ++n) core.element(1, i, n) = as_bits(w(8 * block + 7 - i, n));
    }
    core.run("{ " + mnemonic + " %v1 }");
  }
}

float weight(int k, int n) { return static_cast<float>((k * 37 + n * 11) % 64 - 32); }
float operand(int row, int k) { return static_cast<float>((row * 13 + k * 5) % 32 - 16); }

float rounded(float value) { return as_float(round_to_bf16(as_bits(value))); }

void fill_operand(BundleRunner& core) {
  for (int row = 0; row < 8; ++row) {
    for (int k = 0; k < 128; ++k) core.element(2, row, k) = as_bits(operand(row, k));
  }
}

TEST(MxuState, TheLastPushedRowIsWeightRow0) {
  BundleRunner core;
  push_weights(core, "vmatpush.msra.mxu0", 128, weight);
  fill_operand(core);
  core.run("{ vmatmul.f32.gmra.mxu0 %v2 }{ %v3 = vpop.f32.mrf.mxu0 }");
  for (int row = 0; row < 8; ++row) {
    for (int n = 0; n < 128; ++n) {
      float sum = 0;
      for (int k = 0; k < 128; ++k) sum += operand(row, k) * weight(k, n);
      ASSERT_EQ(core.number(3, row, n), sum) << row << " " << n;
    }
  }
}

TEST(MxuState, TransposedPushesBecomeColumns) {
  BundleRunner core;
  push_weights(core, "vmatpush.xpose.msra.mxu0", 128, [](int k, int n) { return weight(n, k); });
  fill_operand(core);
  core.run("{ vmatmul.f32.gmra.mxu0 %v2 }{ %v3 = vpop.f32.mrf.mxu0 }");
  for (int n = 0; n < 128; ++n) {
    float sum = 0;
    for (int k = 0; k < 128; ++k) sum += operand(5, k) * weight(k, n);
    ASSERT_EQ(core.number(3, 5, n), sum);
  }
}

TEST(MxuState, PartsOfTransposedPushesAreThoseOfPlainOnes) {
  const auto fraction = [](int k, int n) { return weight(k, n) * 1.0013f + 0.37f; };
  for (const std::string part : {"hi", "low"}) {
    BundleRunner plain;
    BundleRunner transposed;
    push_weights(plain, "vmatpush." + part + ".msra.mxu0", 128, fraction);
    push_weights(transposed, "vmatpush." + part + ".xpose.msra.mxu0", 128,
                 [&](int k, int n) { return fraction(n, k); });
    for (BundleRunner* core : {&plain, &transposed}) {
      fill_operand(*core);
      core->run("{ vmatmul.hi.f32.gmra.mxu0 %v2 }{ %v3 = vpop.f32.mrf.mxu0 }");
    }
    EXPECT_EQ(plain.state.vector(3).word, transposed.state.vector(3).word) << part;
    float sum = 0;
    for (int k = 0; k < 128; ++k) {
      const float high = as_float(as_bits(fraction(k, 9)) & 0xffff0000);
      const float low = as_float(as_bits(fraction(k, 9) - high) & 0xffff0000);
      sum += operand(5, k) * (part == "hi" ? high : low);
    }
    EXPECT_EQ(transposed.number(3, 5, 9), sum) << part;
  }
}

TEST(MxuState, RowsThatWereNotPushedAreZeroAndTooManyFallOut) {
  BundleRunner core;
  core.state.vector(1).word.fill(as_bits(1.0f));
  core.state.vector(2).word.fill(as_bits(1.0f));
  core.run(
      "{ vmatpush.msra.mxu0 %v1 }{ vmatpush.msra.mxu0 %v1 }{ vmatmul.f32.gmra.mxu0 %v2 }"
      "{ %v3 = vpop.f32.mrf.mxu0 }");
  EXPECT_EQ(core.number(3, 0, 0), 16.0f);
  core.state.vector(4).word.fill(as_bits(100.0f));
  core.run("{ vmatpush.msra.mxu0 %v4 }");
  for (int i = 0; i < 16; ++i) core.run("{ vmatpush.msra.mxu0 %v1 }");
  core.run("{ vdwg.mxu0 }{ vmatmul.f32.gmra.mxu0 %v2 }{ %v3 = vpop.f32.mrf.mxu0 }");
  EXPECT_EQ(core.number(3, 0, 0), 128.0f);
}

TEST(MxuState, WeightsSwapAtTheMatmulAfterTheRequestWithAllPushesUntilThen) {
  BundleRunner core;
  core.state.vector(1).word.fill(as_bits(1.0f));
  core.state.vector(2).word.fill(as_bits(1.0f));
  core.run(
      "{ vmatpush.msra.mxu0 %v1 }{ vmatmul.f32.gmra.mxu0 %v2 }{ vmatpush.msra.mxu0 %v1 }"
      "{ vmatmul.f32.dwg.msra.gmra.mxu0 %v2 }{ vmatpush.msra.mxu0 %v1 }"
      "{ vmatmul.f32.gmra.mxu0 %v2 }{ vmatmul.f32.gmra.mxu0 %v2 }"
      "{ %v3 = vpop.f32.mrf.mxu0 }{ %v4 = vpop.f32.mrf.mxu0 }{ %v5 = vpop.f32.mrf.mxu0 }"
      "{ %v6 = vpop.f32.mrf.mxu0 }");
  EXPECT_EQ(core.number(3, 0, 0), 8.0f);
  EXPECT_EQ(core.number(4, 0, 0), 8.0f);
  EXPECT_EQ(core.number(5, 0, 0), 16.0f);
  EXPECT_EQ(core.number(6, 0, 0), 16.0f);
}

TEST(MxuState, OperandsAreRoundedToBf16AndSumsKeptInFp32) {
  BundleRunner core;
  core.state.vector(1).word.fill(0x3f808000);
  core.state.vector(2).word.fill(0x3f818000);
  core.run("{ vmatpush.msra.mxu0 %v1 }{ vmatmul.f32.gmra.mxu0 %v2 }{ %v3 = vpop.f32.mrf.mxu0 }");
  EXPECT_EQ(core.number(3, 0, 0), 8.0f * 1.0f * as_float(0x3f820000));
}

TEST(MxuState, HighAndLowPartsAreCutOffAndAddUp) {
  BundleRunner core;
  core.state.vector(1).word.fill(as_bits(1.0f));
  core.state.vector(2).word.fill(0x3f8181ff);
  core.run(
      "{ vmatpush.hi.msra.mxu0 %v1 }{ vmatmul.hi.f32.gmra.mxu0 %v2 }"
      "{ vmatmul.low.f32.gmra.mxu0 %v2 }{ %v3 = vpop.f32.mrf.mxu0 }{ %v4 = vpop.f32.mrf.mxu0 }");
  const float high = as_float(0x3f810000);
  EXPECT_EQ(core.number(3, 0, 0), 8.0f * high);
  const float low = as_float(as_bits(as_float(0x3f8181ff) - high) & 0xffff0000);
  EXPECT_EQ(core.number(4, 0, 0), 8.0f * low);
}

TEST(MxuState, TheTwoArraysOfACoreAreIndependent) {
  BundleRunner core;
  core.state.vector(1).word.fill(as_bits(1.0f));
  core.state.vector(2).word.fill(as_bits(2.0f));
  core.run(
      "{ vmatpush.msra.mxu0 %v1 }{ vmatpush.msra.mxu1 %v2 }{ vmatmul.f32.gmra.mxu1 %v1 }"
      "{ vmatmul.f32.gmra.mxu0 %v1 }{ %v3 = vpop.f32.mrf.mxu0 }{ %v4 = vpop.f32.mrf.mxu1 }");
  EXPECT_EQ(core.number(3, 0, 0), 8.0f);
  EXPECT_EQ(core.number(4, 0, 0), 16.0f);
}

TEST(MxuState, MistakesOfTheProgramAreFaults) {
  BundleRunner core;
  EXPECT_NE(core.fault("{ vmatmul.f32.gmra.mxu0 %v2 }").find("expected weights pushed"),
            std::string::npos);
  core.run("{ vmatpush.msra.mxu0 %v1 }");
  EXPECT_NE(core.fault("{ vmatpush.xpose.msra.mxu0 %v1 }").find("a transposed push among plain"),
            std::string::npos);
  EXPECT_NE(BundleRunner().fault("{ %v3 = vpop.f32.mrf.mxu0 }").find("queue of MXU results"),
            std::string::npos);
}

TEST(MxuState, SmallerArraysIgnoreLanesAndLeaveColumnsZero) {
  CoreShape shape = BundleRunner::small_shape();
  shape.mxu_rows = 64;
  shape.mxu_columns = 32;
  BundleRunner core(shape);
  push_weights(core, "vmatpush.msra.mxu0", 64, weight);
  fill_operand(core);
  core.run("{ vmatmul.f32.gmra.mxu0 %v2 }{ %v3 = vpop.f32.mrf.mxu0 }");
  for (int n = 0; n < 128; ++n) {
    float sum = 0;
    for (int k = 0; k < 64; ++k) sum += operand(3, k) * weight(k, n);
    ASSERT_EQ(core.number(3, 3, n), n < 32 ? sum : 0.0f);
  }
  EXPECT_THROW(MxuState(192, 128), ConfigurationError);
  EXPECT_THROW(MxuState(128, 640), ConfigurationError);
  EXPECT_THROW(MxuState(128, 12), ConfigurationError);
}

/// A core with one array of 2x3 blocks.
BundleRunner large_core() {
  CoreShape shape = BundleRunner::small_shape();
  shape.mxu_rows = 256;
  shape.mxu_columns = 384;
  return BundleRunner(shape);
}

TEST(MxuState, ALargeArrayAddsItsRowPartsAndGivesAResultPerColumnPart) {
  BundleRunner core = large_core();
  const auto block = [](int r, int c) {
    return [=](int k, int n) { return weight(128 * r + k, 128 * c + n) / (1 + r + c); };
  };
  push_weights(core, "vmatpush.msra.mxu0", 128, block(0, 0));
  for (int r = 0; r < 2; ++r) {
    for (int c = 0; c < 3; ++c) {
      if (r + c == 0) continue;
      for (int tile = 15; tile >= 0; --tile) {
        for (int i = 0; i < 8; ++i) {
          for (int n = 0; n < 128; ++n) {
            const int k = 8 * tile + 7 - i;
            // Column part 2 comes transposed: what is pushed as row n becomes column n.
            core.element(1, i, n) = as_bits(c == 2 ? block(r, c)(n, k) : block(r, c)(k, n));
          }
        }
        const std::string form = c == 2 ? "vmatpush.xpose.block" : "vmatpush.block";
        core.run("{ " + form + ".msra.mxu0 %v1, " + std::to_string(r) + ", " + std::to_string(c) +
                 " }");
      }
    }
  }
  for (int row = 0; row < 8; ++row) {
    for (int k = 0; k < 128; ++k) {
      core.element(2, row, k) = as_bits(operand(row, k));
      core.element(4, row, k) = as_bits(operand(row, 128 + k));
    }
  }
  core.run(
      "{ vmatlatch.part.gmra.mxu0 %v4, 1 }{ vmatmul.parts.f32.gmra.mxu0 %v2, 2, 3 }"
      "{ %v5 = vpop.f32.mrf.mxu0 }{ %v6 = vpop.part.f32.mrf.mxu0 1 }"
      "{ %v7 = vpop.part.f32.mrf.mxu0 2 }");
  for (int c = 0; c < 3; ++c) {
    for (int row = 0; row < 8; ++row) {
      for (int n = 0; n < 128; ++n) {
        float sum = 0;
        for (int k = 0; k < 256; ++k) {
          sum += operand(row, k) * rounded(block(k / 128, c)(k % 128, n));
        }
        ASSERT_EQ(core.number(5 + c, row, n), sum) << c << " " << row << " " << n;
      }
    }
  }
  // One row part, one column part: what every array has.
  core.run("{ vmatmul.f32.gmra.mxu0 %v2 }{ %v5 = vpop.f32.mrf.mxu0 }");
  float sum = 0;
  for (int k = 0; k < 128; ++k) sum += operand(3, k) * weight(k, 9);
  EXPECT_EQ(core.number(5, 3, 9), sum);
  EXPECT_NE(core.fault("{ %v6 = vpop.part.f32.mrf.mxu0 1 }").find("found it empty"),
            std::string::npos);
}

TEST(MxuState, BlocksThatWereNotPushedAreZeroAfterASwap) {
  BundleRunner core = large_core();
  fill_operand(core);
  core.run("{ vmatpush.block.msra.mxu0 %v2, 1, 1 }");
  core.run(
      "{ vmatlatch.part.gmra.mxu0 %v2, 1 }{ vmatmul.parts.f32.dwg.msra.gmra.mxu0 %v2, 2, 2 }"
      "{ %v5 = vpop.f32.mrf.mxu0 }{ %v6 = vpop.part.f32.mrf.mxu0 1 }");
  EXPECT_EQ(core.number(5, 0, 1), 0.0f);
  EXPECT_NE(core.number(6, 0, 1), 0.0f);
  EXPECT_NE(core.fault("{ vmatmul.f32.gmra.mxu0 %v2 }").find("expected weights pushed"),
            std::string::npos);
}

TEST(MxuState, PartsThatAreNotThereAreFaults) {
  const auto expect_fault = [](const std::string& code, const std::string& text) {
    BundleRunner core = large_core();
    core.run("{ vmatpush.msra.mxu0 %v1 }");
    EXPECT_NE(core.fault(code).find(text), std::string::npos) << code;
  };
  expect_fault("{ vmatmul.parts.f32.gmra.mxu0 %v1, 2, 1 }", "row part 1 latched");
  expect_fault("{ vmatmul.parts.f32.gmra.mxu0 %v1, 3, 1 }", "2x3 blocks of 128x128");
  expect_fault("{ vmatmul.parts.f32.gmra.mxu0 %v1, 1, 0 }", "2x3 blocks of 128x128");
  expect_fault("{ vmatlatch.part.gmra.mxu0 %v1, 0 }", "expected row part 1 or above");
  expect_fault("{ vmatlatch.part.gmra.mxu0 %v1, 2 }", "found 3x1");
  expect_fault("{ vmatpush.block.msra.mxu0 %v1, -1, 0 }", "2x3 blocks of 128x128");
  expect_fault("{ %v1 = vpop.part.f32.mrf.mxu0 3 }", "found 1x4");
}

TEST(MxuState, SumsAreAddedInTheOrderOfK) {
  BundleRunner core;
  for (int n = 0; n < 128; ++n) core.element(2, 0, n) = as_bits(1.0f);
  const auto w = [](int k, int) { return k == 0 ? 16777216.0f : k == 127 ? -16777216.0f : 1.0f; };
  push_weights(core, "vmatpush.msra.mxu0", 128, w);
  core.run("{ vmatmul.f32.gmra.mxu0 %v2 }{ %v3 = vpop.f32.mrf.mxu0 }");
  EXPECT_EQ(core.number(3, 0, 0), 0.0f);
}

/// An array that counts what it is asked and gives a result of its own.
class CountingArray : public MatrixUnit {
 public:
  void push(const Instruction& /*in*/, const VectorRegister& /*operand*/) override { ++pushes; }
  void pop(const Instruction& /*in*/, VectorRegister& result) override {
    ++pops;
    result.word.fill(42);
  }
  int pushes = 0, pops = 0;
};

class WithArray : public test::RecordingSurroundings {
 public:
  MatrixUnit* matrix_unit(std::uint8_t unit) override { return unit == 0 ? &array : nullptr; }
  CountingArray array;
};

/// Where arrays are simulated cell by cell, results of matmuls are theirs, and of matmuls alone.
TEST(MxuState, PopsOfAMatmulTakeTheResultOfTheArray) {
  BundleRunner core;
  WithArray surroundings;
  const Kernel kernel = assemble(
                            "kernel k\n{ vpow2.f32 1.0 }{ vmatmul.f32.gmra.mxu0 %v1 }"
                            "{ %v2 = vpop.eup }{ %v3 = vpop.f32.mrf.mxu0 }",
                            "t")
                            .at(0);
  for (std::uint32_t i = 0; i < kernel.bundles.size(); ++i) {
    execute_bundle(kernel, i, core.state, surroundings);
  }
  EXPECT_EQ(surroundings.array.pushes, 1);
  EXPECT_EQ(surroundings.array.pops, 1);
  EXPECT_EQ(core.number(2, 0, 0), 2.0F);
  EXPECT_EQ(core.element(3, 7, 127), 42u);
}

}  // namespace
}  // namespace tpu::isa::mxu_state_test
