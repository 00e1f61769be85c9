#include "workloads/compiler/passes/layout/padded_images.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "workloads/compiler/passes/layout/convolution_layouts.h"
#include "workloads/compiler/passes/layout/convolution_sides.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::padded_images_test {
namespace {

std::string images(const std::string& type, int batch, int features) {
  return type + "[" + std::to_string(batch) + ",64,64," + std::to_string(features) + "]";
}

/// A convolution of what an expression makes of images. `expression` is HLO text that ends with %e.
std::string before_convolution(int batch, int features, const std::string& expression,
                               int results = 64) {
  return "HloModule test\nENTRY main {\n  x = " + images("f32", batch, features) +
         " parameter(0)\n  w = f32[3,3," + std::to_string(features) + "," +
         std::to_string(results) + "] parameter(1)\n" + expression +
         "  ROOT y = " + images("f32", batch, results) +
         " convolution(e, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n}\n";
}

/// So many operations one behind the other, a cycle of the vector unit each.
std::string operations(int count, const std::string& type) {
  std::string text, last = "x";
  for (int i = 0; i < count; ++i) {
    const std::string name = i + 1 == count ? "e" : "v" + std::to_string(i);
    text += "  " + name + " = " + type + " add(" + last + ", x)\n";
    last = name;
  }
  return text;
}

std::vector<hlo::InstructionId> parted(hlo::Module& module) {
  return compiler::part_padded_images(module.computations[static_cast<std::size_t>(module.entry)],
                                      {}, compiler::Target{});
}

std::size_t reshapes(const std::string& text) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  return parted(module).size();
}

std::string chain(int batch, int features, int count) {
  return before_convolution(batch, features, operations(count, images("f32", batch, features)));
}

/// The same of 32 images that are a scalar spread out: no parameter's bytes, which alone are worth
/// an order.
std::string of_scalar(const std::string& expression) {
  const std::string type = images("f32", 32, 3);
  std::string text = before_convolution(32, 3, expression);
  const std::string parameter = "  x = " + type + " parameter(0)\n";
  return text.replace(text.find(parameter), parameter.size(),
                      "  s = f32[] parameter(0)\n  x = " + type + " broadcast(s), dimensions={}\n");
}

/// Random numbers are made by a hundred short operations, none of which is long by itself. The
/// convolution hides a few.
TEST(PaddedImages, ManyShortOperationsOverFewFeaturesHaveAnOrderOfTheirOwn) {
  const auto made = [](int count) { return of_scalar(operations(count, images("f32", 32, 3))); };
  EXPECT_EQ(reshapes(made(100)), 1U);
  EXPECT_EQ(reshapes(made(24)), 0U);
}

TEST(PaddedImages, ManyFeaturesOrExamplesFillTheTiles) {
  EXPECT_EQ(reshapes(chain(32, 3, 100)), 1U);
  EXPECT_EQ(reshapes(chain(32, 128, 100)), 0U);
  EXPECT_EQ(reshapes(chain(128, 8, 100)), 0U);
}

/// Images that are turned round at random: what is reversed is written and read in its order.
TEST(PaddedImages, WhatIsReversedHasAnOrderOfItsOwn) {
  const std::string type = images("f32", 32, 3);
  const std::string pair = "  r = " + type + " reverse(x), dimensions={2}\n  e = " + type;
  EXPECT_EQ(reshapes(of_scalar(pair + " add(r, x)\n")), 1U);
  EXPECT_EQ(reshapes(of_scalar("  r = " + type + " negate(x)\n  e = " + type + " add(r, x)\n")),
            0U);
}

/// What a convolution makes for a pad that wraps is cut before anything is computed of it.
TEST(PaddedImages, WhatIsCutFromAResultHasAnOrderOfItsOwn) {
  const auto cut = [](int features) {
    const std::string type = images("f32", 8, features);
    return "HloModule test\nENTRY main {\n  x = f32[8,66,66,64] parameter(0)\n  w = f32[3,3,64," +
           std::to_string(features) + "] parameter(1)\n  c = f32[8,66,66," +
           std::to_string(features) +
           "] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n"
           "  s = " +
           type + " slice(c), slice={[0:8], [1:65], [1:65], [0:" + std::to_string(features) +
           "]}\n  t = " + type +
           " slice(c), slice={[0:8], [2:66], [1:65], [0:" + std::to_string(features) +
           "]}\n  p = " + type + " add(s, t)\n  r = " + type +
           " reverse(p), dimensions={2}\n  ROOT q = " + type + " add(p, r)\n}\n";
  };
  EXPECT_EQ(reshapes(cut(2)), 1U);
  EXPECT_EQ(reshapes(cut(64)), 0U);
}

/// The reshape stands between the expression and the convolution, and becomes a copy where both
/// lie otherwise.
TEST(PaddedImages, TheConvolutionReadsACopy) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", chain(32, 3, 100));
  hlo::Computation& entry = module.computations[static_cast<std::size_t>(module.entry)];
  const std::vector<hlo::InstructionId> reshapes = parted(module);
  ASSERT_EQ(reshapes.size(), 1U);
  const hlo::InstructionId before = entry.at(reshapes[0]).operands[0];
  EXPECT_EQ(entry.at(before).name, "e");
  EXPECT_EQ(entry.at(entry.root).operands[0], reshapes[0]);
  entry.at(before).shape.layout.minor_to_major = {2, 1, 3, 0};
  entry.at(reshapes[0]).shape.layout.minor_to_major = {0, 3, 2, 1};
  compiler::join_parted_images(entry, reshapes);
  EXPECT_EQ(entry.at(reshapes[0]).opcode, hlo::HloOpcode::kCopy);
}

TEST(PaddedImages, NothingIsCopiedWhereBothLieAlike) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", chain(32, 3, 100));
  hlo::Computation& entry = module.computations[static_cast<std::size_t>(module.entry)];
  const std::vector<hlo::InstructionId> reshapes = parted(module);
  ASSERT_EQ(reshapes.size(), 1U);
  const hlo::InstructionId before = entry.at(reshapes[0]).operands[0];
  entry.at(before).shape.layout = entry.at(reshapes[0]).shape.layout;
  compiler::join_parted_images(entry, reshapes);
  EXPECT_EQ(entry.at(entry.root).operands[0], before);
}

/// Of two convolutions that take about as long on both sides the side counts to which the dense
/// image is copied sooner: three features in the lanes are turned one by one.
TEST(PaddedImages, TheCopyCountsForTheSide) {
  const std::string expression = operations(100, images("f32", 32, 3));
  hlo::Module module = hlo::read_hlo_text("test.hlo", before_convolution(32, 3, expression, 80));
  hlo::Computation& entry = module.computations[static_cast<std::size_t>(module.entry)];
  const compiler::Target target;
  compiler::ConvolutionKernels kernels(target);
  const auto in_lanes = [&] {
    return compiler::ConvolutionSides(entry, kernels).in_lanes(entry.at(entry.root));
  };
  EXPECT_FALSE(in_lanes());
  ASSERT_EQ(parted(module).size(), 1U);
  EXPECT_TRUE(in_lanes());
}

TEST(PaddedImages, TheDensestOrderFillsLanesAndRows) {
  const auto densest = [](const std::string& shape) {
    const hlo::Module module = hlo::read_hlo_text(
        "test.hlo", "HloModule test\nENTRY main {\n  ROOT x = " + shape + " parameter(0)\n}\n");
    const hlo::Computation& entry = module.entry_computation();
    return compiler::densest_order(entry.at(entry.root).shape);
  };
  EXPECT_EQ(densest("f32[3,8,128]"), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(densest("f32[128,3,8]"), (std::vector<std::int64_t>{1, 2, 0}));
  EXPECT_EQ(densest("f32[3,128,8]"), (std::vector<std::int64_t>{0, 2, 1}));
}

}  // namespace
}  // namespace tpu::test::padded_images_test
