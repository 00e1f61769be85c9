#include "workloads/compiler/passes/simplify/activation_masks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/passes/simplify/precision.h"
#include "workloads/compiler/passes/simplify/simplify.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::activation_masks_test {
namespace {

using hlo::HloInstruction;
using hlo::HloOpcode;

/// A rectified product in front of another one, with its gradient behind a mask.
struct Rectifier {
  std::string product = "dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  std::string result = "maximum(x, zeros)";
  std::string slope = "0.25";     ///< Of "scaled".
  std::string direction = "GT";   ///< Of the mask.
  std::string limit = "zeros";    ///< That the mask compares with.
  std::string source = "x";       ///< That it compares.
  std::string also = "gradient";  ///< One more result.
  std::string reader = "y";       ///< What the product behind it reads.
  std::string other = "g";        ///< What another one reads.
};

std::string text_of(const Rectifier& r) {
  return R"(HloModule rectifier
add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
ENTRY main {
  a = f32[64,96] parameter(0)
  w = f32[96,128] parameter(1)
  bias = f32[128] parameter(2)
  v = f32[128,32] parameter(3)
  g = f32[64,128] parameter(4)
  zero = f32[] constant(0)
  zeros = f32[64,128] broadcast(zero), dimensions={}
  one = f32[] constant(1)
  ones = f32[64,128] broadcast(one), dimensions={}
  product = f32[64,128] )" +
         r.product + R"(
  biases = f32[64,128] broadcast(bias), dimensions={1}
  x = f32[64,128] add(product, biases)
  slope = f32[] constant()" +
         r.slope + R"()
  slopes = f32[64,128] broadcast(slope), dimensions={}
  scaled = f32[64,128] multiply(x, slopes)
  upper = pred[64,128] compare(x, zeros), direction=GE
  y = f32[64,128] )" +
         r.result + R"(
  z = f32[64,32] dot()" +
         r.reader + R"(, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  other = f32[128,96] dot()" +
         r.other + R"(, a), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  doubled = f32[64,128] add(y, y)
  total = f32[128] reduce(y, zero), dimensions={0}, to_apply=add
  totals = f32[64,128] broadcast(total), dimensions={1}
  mask = pred[64,128] compare()" +
         r.source + ", " + r.limit + "), direction=" + r.direction + R"(
  gradient = f32[64,128] select(mask, g, zeros)
  ROOT t = (f32[64,32], f32[64,128], f32[128,96], f32[64,128]) tuple(z, gradient, other, )" +
         r.also + R"()
}
)";
}

/// A wrong mask is wrong by whole numbers; sums in another order may round to another bf16.
void check_values(const Rectifier& rectifier) {
  HloCheck check;
  check.tolerance = 1e-4;
  check_hlo(text_of(rectifier), check);
}

hlo::Module behind_pass(const Rectifier& rectifier) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", text_of(rectifier));
  compiler::simplify(module);
  compiler::narrow_dot_operands(module);
  compiler::read_masks_from_activations(module);
  EXPECT_NO_THROW(hlo::verify(module));
  return module;
}

/// What the gradient's mask compares: "bf16" where it is a bf16 in f32, else the name.
std::string compared(const Rectifier& rectifier) {
  const hlo::Module module = behind_pass(rectifier);
  const hlo::Computation& entry = module.entry_computation();
  for (const HloInstruction& instruction : entry.instructions) {
    if (instruction.opcode != HloOpcode::kSelect || entry.at(instruction.operands[1]).name != "g") {
      continue;
    }
    const HloInstruction& source = entry.at(entry.at(instruction.operands[0]).operands[0]);
    if (source.opcode != HloOpcode::kConvert) return source.name;
    return std::string(to_string(entry.at(source.operands[0]).shape.type));
  }
  return "no mask";
}

bool writes_result_as_bf16(const Rectifier& rectifier) {
  const hlo::Module module = behind_pass(rectifier);
  const auto& instructions = module.entry_computation().instructions;
  return std::any_of(instructions.begin(), instructions.end(),
                     [](const HloInstruction& each) { return each.name == "y.bf16"; });
}

Rectifier leaky(const std::string& direction) {
  Rectifier r;
  r.result = "select(upper, x, scaled)";
  r.direction = direction;
  return r;
}

TEST(ActivationMasks, ALeakyRectifierKnowsTheSignOfItsOperand) {
  for (const char* direction : {"GT", "GE", "LT", "LE"}) {
    EXPECT_EQ(compared(leaky(direction)), "bf16") << direction;
    check_values(leaky(direction));
  }
  EXPECT_EQ(compared(leaky("EQ")), "x");
  for (const char* slope : {"-0.25", "0"}) {
    Rectifier r = leaky("GT");
    r.slope = slope;
    EXPECT_EQ(compared(r), "x") << slope;
    check_values(r);
  }
}

/// Where it costs another array, x is read; where the result stands in f32, that is.
TEST(ActivationMasks, WhatStandsInMemoryAnywayIsRead) {
  Rectifier r = leaky("GT");
  r.also = "x";
  EXPECT_EQ(compared(r), "x");
  r.also = "y";
  EXPECT_EQ(compared(r), "y");
  check_values(r);
  r.also = "scaled";
  EXPECT_EQ(compared(r), "x");
  r = leaky("GT");
  r.reader = "g";
  r.also = "doubled";
  EXPECT_EQ(compared(r), "x");
  r.also = "y";
  EXPECT_EQ(compared(r), "y");
  r = leaky("GT");
  r.limit = "ones";
  EXPECT_EQ(compared(r), "x");
  r = leaky("GT");
  r.product = "add(g, g)";
  EXPECT_EQ(compared(r), "x");
}

/// Of the zeros of a plain rectifier nobody knows which were negative: simplify has comparisons
/// with > alone read the result.
TEST(ActivationMasks, TheNarrowFormOfAResultHasItsSign) {
  Rectifier plain;
  EXPECT_EQ(compared(plain), "bf16");
  check_values(plain);
  for (const char* direction : {"GT", "GE", "LT", "LE", "EQ", "NE"}) {
    plain.source = "y";
    plain.direction = direction;
    EXPECT_EQ(compared(plain), "bf16") << direction;
    check_values(plain);
    plain.source = "x";
    EXPECT_EQ(compared(plain), std::string(direction) == "GT" ? "bf16" : "x") << direction;
    check_values(plain);
  }
  plain.source = "y";
  EXPECT_TRUE(writes_result_as_bf16(plain));
  plain.limit = "ones";
  EXPECT_FALSE(writes_result_as_bf16(plain));
  plain.limit = "zeros";
  plain.other = "y";
  EXPECT_EQ(compared(plain), "bf16");
  plain.other = "g";
  plain.also = "totals";
  EXPECT_EQ(compared(plain), "bf16");
  check_values(plain);
  plain.other = "y";
  plain.also = "y";
  EXPECT_TRUE(writes_result_as_bf16(plain));
  EXPECT_EQ(compared(plain), "y");
}

}  // namespace
}  // namespace tpu::test::activation_masks_test
