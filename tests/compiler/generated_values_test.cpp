#include "workloads/compiler/passes/layout/generated_values.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/hlo_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::generated_values_test {
namespace {

std::string image(const std::string& type, int batch, int features, const std::string& layout) {
  return type + "[" + std::to_string(batch) + ",64,64," + std::to_string(features) + "]" + layout;
}

/// A mask of the number of each element, which so many multiplications mix, behind an image in the
/// order of a convolution.
std::string masked(int batch, int features, int mixed, const std::string& layout = {},
                   bool is_read_twice = false) {
  const std::string numbers = image("u32", batch, features, layout);
  const std::string f32 = image("f32", batch, features, layout);
  std::string text = "HloModule test\nENTRY main {\n  x = " + f32 +
                     " parameter(0)\n  seed = u32[] parameter(1)\n  seeds = " + numbers +
                     " broadcast(seed), dimensions={}\n  i1 = " + numbers +
                     " iota(), iota_dimension=1\n  i3 = " + numbers +
                     " iota(), iota_dimension=3\n  m0 = " + numbers + " xor(i1, seeds)\n";
  for (int i = 0; i < mixed; ++i) {
    const std::string number = std::to_string(i), next = std::to_string(i + 1);
    text += "  p" + number + " = " + numbers + " multiply(m" + number + ", seeds)\n  m" + next +
            " = " + numbers + " xor(p" + number + ", i3)\n";
  }
  const std::string last = "m" + std::to_string(mixed);
  text += "  f = " + f32 + " bitcast-convert(" + last +
          ")\n  zero = f32[] constant(0)\n  zeros = " + f32 +
          " broadcast(zero), dimensions={}\n  k = " + image("pred", batch, features, layout) +
          " compare(f, zeros), direction=GT\n  y = " + f32 + " select(k, x, zeros)\n";
  if (!is_read_twice) return text + "  ROOT t = (" + f32 + ") tuple(y)\n}\n";
  return text + "  n = " + numbers + " add(" + last + ", " + last + ")\n  ROOT t = (" + f32 + ", " +
         numbers + ") tuple(y, n)\n}\n";
}

hlo::Module generated(const std::string& text) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::generate_in_dense_orders(module.computations[static_cast<std::size_t>(module.entry)],
                                     compiler::Target{});
  hlo::verify(module);
  return module;
}

/// Operations over whole images whose lanes are the features; all.
std::pair<int, int> on_features(const hlo::Module& module) {
  std::pair<int, int> found;
  for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
    if (!hlo::is_elementwise(each.opcode) || each.shape.rank() != 4) continue;
    ++found.second;
    if (each.shape.layout.minor_to_major[0] == 3) ++found.first;
  }
  return found;
}

constexpr const char* kOfConvolution = "{3,0,2,1:T(8,128)}";

TEST(GeneratedValues, AMaskOfFewFeaturesIsMadeInTheDensestOrder) {
  const hlo::Module module = generated(masked(4, 16, 20, kOfConvolution));
  // What selects by the mask stays.
  EXPECT_EQ(on_features(module).first, 1);
  EXPECT_GT(on_features(module).second, 40);
}

TEST(GeneratedValues, LittleWorkAndFullTilesStay) {
  for (const std::string& text :
       {masked(4, 16, 2, kOfConvolution), masked(8, 128, 20, kOfConvolution)}) {
    const hlo::Module module = generated(text);
    EXPECT_EQ(on_features(module).first, on_features(module).second);
  }
}

/// What others read is made in both orders: that has to pay.
TEST(GeneratedValues, WhatOthersReadIsMadeInTheirOrder) {
  const hlo::Module module = generated(masked(4, 16, 20, kOfConvolution, true));
  EXPECT_EQ(on_features(module).first, on_features(module).second);
}

TEST(GeneratedValues, ValuesStayTheSame) {
  const std::string text = masked(4, 16, 20);
  const std::string returned = "  ROOT t = (" + image("f32", 4, 16, "") + ") tuple(y)\n}\n";
  // A convolution wants its order.
  const std::string convolved =
      "  w = f32[3,3,16,16] parameter(2)\n  c = " + image("f32", 4, 16, "") +
      " convolution(y, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n" +
      "  ROOT t = (" + image("f32", 4, 16, "") + ") tuple(c)\n}\n";
  HloCheck check;
  check.tolerance = 1e-2;
  check.least = 1;
  check.most = 1e9;
  check_hlo(text.substr(0, text.size() - returned.size()) + convolved, check);
}

}  // namespace
}  // namespace tpu::test::generated_values_test
