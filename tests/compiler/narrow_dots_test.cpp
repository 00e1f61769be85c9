#include "workloads/compiler/passes/simplify/narrow_dots.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/pass_check.h"

namespace tpu::test::narrow_dots_test {
namespace {

using hlo::HloOpcode;

/// Three dots of one array of so many rows with eight features each; the third one's weights are
/// `weights` (HLO text that names them w2).
std::string heads(int rows, const std::string& weights) {
  const std::string n = std::to_string(rows);
  const auto dot = [&n](const std::string& name, const std::string& w) {
    return "  " + name + " = f32[" + n + ",8] dot(x, " + w +
           "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
  };
  return "HloModule heads\nENTRY main {\n  x = f32[" + n +
         ",256] parameter(0)\n  w0 = f32[256,8] parameter(1)\n  w1 = f32[256,8] parameter(2)\n" +
         dot("a", "w0") + dot("b", "w1") + weights + dot("c", "w2") + "  ROOT r = (f32[" + n +
         ",8], f32[" + n + ",8], f32[" + n + ",8]) tuple(a, b, c)\n}\n";
}

std::size_t dots(const std::string& text) {
  return count(simplified_around(hlo::read_hlo_text("test.hlo", text), compiler::join_narrow_dots),
               HloOpcode::kDot);
}

const std::string kThird = "  w2 = f32[256,8] parameter(3)\n";

TEST(NarrowDots, OfOneLargeArrayAreOne) {
  EXPECT_EQ(dots(heads(2048, kThird)), 1U);
  EXPECT_EQ(dots(heads(256, kThird)), 3U);  // An array that is read at once.
}

/// Two dots with 64 features each of an array of so many columns.
std::string halves(int columns) {
  const std::string c = std::to_string(columns);
  std::string text = "HloModule halves\nENTRY main {\n  x = f32[4096," + c + "] parameter(0)\n";
  for (const std::string n : {"1", "2"}) {
    text += "  w" + n + " = f32[" + c + ",64] parameter(" + n + ")\n  d" + n +
            " = f32[4096,64] dot(x, w" + n +
            "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
  }
  return text + "  ROOT r = (f32[4096,64], f32[4096,64]) tuple(d1, d2)\n}\n";
}

/// Of one no larger than a result as much is read of the slices.
TEST(NarrowDots, OfAnArrayNoLargerThanTheResultsAreLeft) {
  EXPECT_EQ(dots(halves(256)), 1U);
  EXPECT_EQ(dots(halves(128)), 2U);
}

/// Weights that are made of what another dot makes: a dot of all of them would be one of its own
/// operands.
TEST(NarrowDots, WhatNeedsAnotherDotIsOneByItself) {
  EXPECT_EQ(dots(heads(2048,
                       "  s = f32[256,8] slice(b), slice={[0:256], [0:8]}\n"
                       "  w2 = f32[256,8] add(s, w1)\n")),
            2U);
}

/// Parts of a product at a higher precision: their sum would add slices of other lanes.
TEST(NarrowDots, WhatIsAddedToAnotherIsOneByItself) {
  std::string text = heads(2048, kThird);
  const std::string root = "  ROOT r = ";
  text = text.substr(0, text.find(root)) +
         "  s = f32[2048,8] add(a, b)\n  ROOT t = f32[2048,8] add(s, c)\n}\n";
  EXPECT_EQ(dots(text), 3U);
}

/// What nothing but a sum reads: the sum of products of eight features each is one of 24. The
/// second one's left side may be another one, and have another type.
std::string sum_of_dots(const std::string& root, int features = 8, const std::string& second = "x1",
                        const std::string& type = "f32") {
  const std::string f = std::to_string(features);
  std::string text = "HloModule sums\nENTRY main {\n";
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i), of = i == 1 ? type : "f32";
    text += "  x" + n + " = " + of + "[2048," + f + "] parameter(" + std::to_string(2 * i) +
            ")\n  w" + n + " = " + of + "[256," + f + "] parameter(" + std::to_string(2 * i + 1) +
            ")\n  d" + n + " = f32[2048,256] dot(" + (i == 1 ? second : "x" + n) + ", w" + n +
            "), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n";
  }
  return text + "  s = f32[2048,256] add(d0, d1)\n  t = f32[2048,256] add(s, d2)\n" + root + "}\n";
}

TEST(NarrowDots, InASumContractAllFeaturesAtOnce) {
  const std::string sum = "  ROOT r = f32[2048,256] negate(t)\n";
  EXPECT_EQ(dots(sum_of_dots(sum)), 1U);
  // Of one that something else reads the others are left.
  const std::string more = "  ROOT r = (f32[2048,256], f32[2048,256]) tuple(t, d0)\n";
  EXPECT_EQ(dots(sum_of_dots(more)), 2U);
}

/// As many as fill the lanes, of one type; those that share an array, as parts of a product at a
/// higher precision do, have their forms.
TEST(NarrowDots, InASumThatDoNotGoTogetherAreLeft) {
  const std::string sum = "  ROOT r = f32[2048,256] negate(t)\n";
  EXPECT_EQ(dots(sum_of_dots(sum, 42)), 1U);
  EXPECT_EQ(dots(sum_of_dots(sum, 43)), 2U);
  EXPECT_EQ(dots(sum_of_dots(sum, 8, "x0")), 2U);
  EXPECT_EQ(dots(sum_of_dots(sum, 8, "x1", "bf16")), 2U);
}

TEST(NarrowDots, TogetherHaveTheValuesOfEach) {
  for (const std::string& text :
       {heads(2048, kThird), sum_of_dots("  ROOT r = f32[2048,256] negate(t)\n")}) {
    const Verdict verdict = check_graph(case_of(hlo::read_hlo_text("test.hlo", text), 5));
    EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message;
  }
}

}  // namespace
}  // namespace tpu::test::narrow_dots_test
