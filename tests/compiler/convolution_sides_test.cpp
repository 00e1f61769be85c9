#include "workloads/compiler/passes/layout/convolution_sides.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "workloads/compiler/passes/layout/window_features.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::convolution_sides_test {
namespace {

/// The type of images.
std::string images(int batch, int extent, int features) {
  return "bf16[" + std::to_string(batch) + "," + std::to_string(extent) + "," +
         std::to_string(extent) + "," + std::to_string(features) + "]";
}

std::string kernel(int window, int in, int out) {
  const std::string w = std::to_string(window);
  return "bf16[" + w + "," + w + "," + std::to_string(in) + "," + std::to_string(out) + "]";
}

const std::string kSame = ", window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n";

/// Three convolutions, of 112x112 pixels with few features, of 7x7 with few and with many; between
/// the first two the images are pooled.
std::string network(int batch, int few, int many) {
  return "HloModule network\nmost {\n  a = bf16[] parameter(0)\n  b = bf16[] parameter(1)\n  ROOT "
         "m = bf16[] maximum(a, b)\n}\nENTRY main {\n  x = " +
         images(batch, 112, few) + " parameter(0)\n  v = " + kernel(3, few, few) +
         " parameter(1)\n  u = " + kernel(3, few, many) +
         " parameter(2)\n  w = " + kernel(3, many, many) +
         " parameter(3)\n  early = " + images(batch, 112, few) + " convolution(x, v)" + kSame +
         "  low = bf16[] constant(0)\n  pooled = " + images(batch, 7, few) +
         " reduce-window(early, low), window={size=1x16x16x1 stride=1x16x16x1}, to_apply=most\n"
         "  more = " +
         images(batch, 7, many) + " convolution(pooled, u)" + kSame +
         "  ROOT late = " + images(batch, 7, many) + " convolution(more, w)" + kSame + "}\n";
}

/// Where the convolutions have their batch, one after the other.
std::string sides(const std::string& text) {
  const hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  const hlo::Computation& entry = module.entry_computation();
  const compiler::Target target;
  compiler::ConvolutionKernels kernels(target);
  const compiler::ConvolutionSides sides(entry, kernels);
  std::string all;
  for (const hlo::HloInstruction& instruction : entry.instructions) {
    if (instruction.opcode != hlo::HloOpcode::kConvolution) continue;
    all += sides.in_lanes(instruction) ? "lanes " : "rows ";
  }
  return all;
}

TEST(ConvolutionSides, ManyPixelsOfFewFeaturesAreInTheLanesAndFewOfManyInTheRows) {
  EXPECT_EQ(sides(network(128, 32, 128)), "lanes lanes lanes ");
  EXPECT_EQ(sides(network(64, 32, 512)), "lanes rows rows ");
  EXPECT_EQ(sides(network(8, 64, 512)), "rows rows rows ");
  // Images are turned where they are small: before the features become many, or behind that.
  EXPECT_EQ(sides(network(64, 8, 128)), "lanes lanes rows ");
  EXPECT_EQ(sides(network(64, 32, 128)), "lanes rows rows ");
}

/// Where images lie, by their names.
std::string lying(const std::string& text, const std::vector<std::string>& names) {
  const hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  const hlo::Computation& entry = module.entry_computation();
  const compiler::Target target;
  compiler::ConvolutionKernels kernels(target);
  std::map<std::string, std::string> found;
  compiler::ConvolutionSides(entry, kernels)
      .for_each_image([&](const compiler::ConvolutionImage& image, compiler::ImageSide side) {
        found[entry.at(image.id).name] = side == compiler::ImageSide::kLanes ? "lanes " : "rows ";
      });
  std::string all;
  for (const std::string& name : names) all += found.count(name) != 0 ? found[name] : "none ";
  return all;
}

/// The pooled image lies like the large one, without a cost between them. What an operation makes
/// of it may lie elsewhere: two convolutions read it from the rows, and turning it once costs as
/// much as the turn before each of them, of which one is spared. That is more than what its passes
/// take longer: 64 examples of 32 features are 64 x 128 in the rows and 32 x 128 in the lanes; the
/// turn takes their sum twice, the passes of both readers the difference four times.
TEST(ConvolutionSides, PooledImagesLieLikeTheLargeOneAndWhatFollowsAsItIsRead) {
  std::string text = network(64, 32, 512);
  const std::string read = " convolution(pooled, u)", made = "  more = ";
  text.replace(text.find(read), read.size(), " convolution(active, u)");
  text.insert(text.find(made), "  active = " + images(64, 7, 32) + " negate(pooled)\n  other = " +
                                   images(64, 7, 512) + " convolution(active, u)" + kSame);
  EXPECT_EQ(sides(text), "lanes rows rows rows ");
  EXPECT_EQ(lying(text, {"early", "pooled", "active", "other", "more"}),
            "lanes lanes rows rows rows ");
}

/// Two nets with images of as many pixels: an encoder of few examples with many features, and a
/// decoder of many examples with few.
TEST(ConvolutionSides, NetsThatShareNoImageChooseByThemselves) {
  EXPECT_EQ(
      sides("HloModule nets\nENTRY main {\n  x = " + images(16, 32, 64) + " parameter(0)\n  v = " +
            kernel(3, 64, 64) + " parameter(1)\n  y = " + images(112, 32, 8) +
            " parameter(2)\n  w = " + kernel(3, 8, 8) +
            " parameter(3)\n  encoded = " + images(16, 32, 64) + " convolution(x, v)" + kSame +
            "  decoded = " + images(112, 32, 8) + " convolution(y, w)" + kSame + "  ROOT t = (" +
            images(16, 32, 64) + ", " + images(112, 32, 8) + ") tuple(encoded, decoded)\n}\n"),
      "rows lanes ");
}

/// As a normalisation by groups parts them: features in the lanes are copied each time. The image
/// is turned once instead, behind a convolution that is faster with the batch in the rows.
TEST(ConvolutionSides, ReshapesThatPartTheLanesCount) {
  const auto side_of_result = [](const std::string& text) {
    const hlo::Module module = hlo::read_hlo_text("test.hlo", text);
    const hlo::Computation& entry = module.entry_computation();
    const compiler::Target target;
    compiler::ConvolutionKernels kernels(target);
    std::string side;
    compiler::ConvolutionSides(entry, kernels)
        .for_each_image([&](const compiler::ConvolutionImage& image, compiler::ImageSide lies) {
          if (image.id == entry.root) side = lies == compiler::ImageSide::kLanes ? "lanes" : "rows";
        });
    return side;
  };
  const auto net = [](int parted) {
    const std::string image = images(64, 56, 128);
    std::string text = "HloModule parted\nENTRY main {\n  x = " + image +
                       " parameter(0)\n  w = " + kernel(3, 128, 128) +
                       " parameter(1)\n  y = " + image + " convolution(x, w)" + kSame;
    for (int i = 0; i < parted; ++i) {
      text += "  g" + std::to_string(i) + " = bf16[64,56,56,8,16] reshape(y)\n";
    }
    return text + "  ROOT r = " + image + " negate(y)\n}\n";
  };
  EXPECT_EQ(sides(net(0)) + side_of_result(net(0)), "rows rows");
  EXPECT_EQ(sides(net(4)) + side_of_result(net(4)), "rows lanes");
}

TEST(ConvolutionSides, SmallNetworksHaveTheSideWithFewerPaddedBytes) {
  const auto small = [](int batch, int features) {
    const std::string images =
        "f32[" + std::to_string(batch) + ",8,8," + std::to_string(features) + "]";
    const std::string kernel =
        "f32[3,3," + std::to_string(features) + "," + std::to_string(features) + "]";
    return "HloModule small\nENTRY main {\n  x = " + images + " parameter(0)\n  w = " + kernel +
           " parameter(1)\n  ROOT y = " + images +
           " convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n}\n";
  };
  EXPECT_EQ(sides(small(64, 64)), "lanes ");
  EXPECT_EQ(sides(small(56, 64)), "rows ");
  EXPECT_EQ(sides(small(8, 8)), "lanes ");
}

/// Results with the features in front of the batch have a kernel in the lanes alone. While passes
/// may still state such a convolution otherwise it counts as one side of two; then it has to lie
/// there, however many fewer bytes the rows have.
TEST(ConvolutionSides, WhatNoPassRewritesLiesWhereItHasAKernel) {
  const hlo::Module module = hlo::read_hlo_text(
      "test.hlo",
      "HloModule one\nENTRY main {\n  x = bf16[8,8,8,128] parameter(0)\n  w = "
      "bf16[3,3,128,128] parameter(1)\n  ROOT y = bf16[128,8,8,8] convolution(x, w), "
      "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->fb01\n}\n");
  const hlo::Computation& entry = module.entry_computation();
  const hlo::HloInstruction& convolution = entry.at(entry.root);
  const compiler::Target target;
  compiler::ConvolutionKernels kernels(target);
  ASSERT_FALSE(kernels.cycles(convolution, entry.at(0).shape, entry.at(1).shape, false));
  ASSERT_TRUE(kernels.cycles(convolution, entry.at(0).shape, entry.at(1).shape, true));
  using compiler::Rewriting;
  EXPECT_FALSE(
      compiler::ConvolutionSides(entry, kernels, Rewriting::kToCome).in_lanes(convolution));
  EXPECT_TRUE(compiler::ConvolutionSides(entry, kernels, Rewriting::kDone).in_lanes(convolution));
}

/// The first layer of an image network: a stride of two over three features, of `batch` images;
/// with `made`, of an image that an operation has made.
hlo::Module stem(int batch, int window, int results, bool made) {
  const std::string n = std::to_string(batch), w = std::to_string(window),
                    r = std::to_string(results), pad = std::to_string(window / 2);
  const std::string image = "bf16[" + n + ",224,224,3]";
  return hlo::read_hlo_text(
      "stem.hlo", "HloModule stem\nENTRY main {\n  p = " + image + " parameter(0)\n  x = " + image +
                      (made ? " negate(p)\n" : " copy(p)\n") + "  w = bf16[" + w + "," + w + ",3," +
                      r + "] parameter(1)\n  ROOT y = bf16[" + n + ",112,112," + r +
                      "] convolution(x, w), window={size=" + w + "x" + w +
                      " stride=2x2 pad=" + pad + "_" + pad + "x" + pad + "_" + pad +
                      "}, dim_labels=b01f_01io->b01f\n}\n");
}

compiler::RowsForm form_of(const hlo::Module& module) {
  const hlo::Computation& entry = module.entry_computation();
  const compiler::Target target;
  compiler::ConvolutionKernels kernels(target);
  return compiler::form_in_rows(entry, entry.at(entry.root), kernels).value();
}

std::string side_of(const hlo::Module& module) {
  const hlo::Computation& entry = module.entry_computation();
  const compiler::Target target;
  compiler::ConvolutionKernels kernels(target);
  const compiler::ConvolutionSides sides(entry, kernels);
  return sides.in_lanes(entry.at(entry.root)) ? "lanes" : "rows";
}

/// Where the image is moved for it alone, the four pixels of a stride become features; where an
/// operation has made it, the move costs more than it spares with a window of 3x3, not of 7x7.
TEST(RowsForm, TheMoveOfTheImageDecides) {
  EXPECT_EQ(form_of(stem(16, 3, 32, false)).joined.size(), 2U);
  EXPECT_EQ(form_of(stem(16, 3, 32, true)).joined.size(), 0U);
  // 224x224 pixels of 16 examples, three features in 128 lanes, two bytes each: read once more, for
  // twice as long as its bytes take, and not spared.
  const double bytes = 224.0 * 224 * 16 * 128 * 2, rate = compiler::Target().hbm_bytes_per_cycle;
  EXPECT_NEAR(form_of(stem(16, 7, 64, true)).cycles - form_of(stem(16, 7, 64, false)).cycles,
              3 * bytes / rate, 1);
}

/// A window of one pixel meets one of four phases, and so does its gradient: they are joined for it
/// where they are few features. 128 features fill the rows of the matrix unit by themselves.
TEST(RowsForm, PhasesAreJoinedToFillTheMatrixUnit) {
  const auto joined = [](int window, int features) {
    const std::string w = std::to_string(window), low = std::to_string(window / 2),
                      f = std::to_string(features),
                      pad = low + "_" + std::to_string(window / 2 - 1),
                      image = "bf16[24,96,96," + f + "]";
    const hlo::Module module = hlo::read_hlo_text(
        "gradient.hlo",
        "HloModule gradient\nENTRY main {\n  p = " + image + " parameter(0)\n  x = " + image +
            " copy(p)\n  d = bf16[24,48,48,16] parameter(1)\n  ROOT y = bf16[" + w + "," + w + "," +
            f + ",16] convolution(x, d), window={size=48x48 pad=" + pad + "x" + pad +
            " rhs_dilate=2x2}, dim_labels=f01b_i01o->01bf\n}\n");
    return form_of(module).joined.size();
  };
  EXPECT_EQ(joined(1, 16), 2U);
  EXPECT_EQ(joined(1, 64), 0U);
  EXPECT_EQ(joined(3, 16), 2U);
  EXPECT_EQ(joined(3, 128), 0U);
}

/// The gradient of an 11x11 kernel with a stride of four has no kernel with the batch in the lanes.
/// Joined images in the rows are so much smaller than others there that the form takes less than
/// nothing, and twice as little is no reason for the lanes.
TEST(RowsForm, WhatIsSparedIsNoGainWithoutAKernel) {
  const hlo::Module module = hlo::read_hlo_text(
      "gradient.hlo",
      "HloModule gradient\nENTRY main {\n  p = f32[64,160,160,3] parameter(0)\n  x = "
      "f32[64,160,160,3] copy(p)\n  d = f32[64,40,40,64] parameter(1)\n  ROOT y = f32[11,11,3,64] "
      "convolution(x, d), window={size=40x40 pad=3_4x3_4 rhs_dilate=4x4}, "
      "dim_labels=f01b_i01o->01bf\n}\n");
  const compiler::RowsForm form = form_of(module);
  EXPECT_LT(form.cycles, 0);
  EXPECT_GT(form.cycles + form.spared, 0);
  EXPECT_EQ(side_of(module), "rows");
}

TEST(RowsForm, TheSideOfTheImagesIsChosenByIt) {
  EXPECT_EQ(side_of(stem(16, 3, 32, false)), "rows");
  EXPECT_EQ(side_of(stem(16, 3, 32, true)), "lanes");
}

/// What is known of one convolution is no answer for one that differs in anything a kernel sees.
TEST(ConvolutionKernels, TellConvolutionsApartByWhatTheirKernelsSee) {
  const auto module = [](const std::string& input, const std::string& output,
                         const std::string& window, const std::string& labels = "b01f_01io->b01f") {
    return hlo::read_hlo_text("test.hlo", "HloModule one\nENTRY main {\n  x = " + input +
                                              " parameter(0)\n  w = bf16[3,3,64,64] "
                                              "parameter(1)\n  ROOT y = " +
                                              output + " convolution(x, w), window={size=3x3 " +
                                              window + "}, dim_labels=" + labels + "\n}\n");
  };
  const std::string image = "bf16[128,28,28,64]", same = "pad=1_1x1_1";
  const std::vector<hlo::Module> modules{
      module(image, image, same),
      module("f32[128,28,28,64]", image, same),
      module(image, "f32[128,28,28,64]", same),
      module("bf16[64,28,28,64]", "bf16[64,28,28,64]", same),
      module(image, "bf16[128,26,26,64]", "pad=0_0x0_0"),
      module(image, "bf16[128,14,14,64]", same + " stride=2x2"),
      module(image, "bf16[128,26,26,64]", same + " rhs_dilate=2x2"),
      module(image, image, same + " rhs_reversal=1x1"),
      module(image, image, same, "b01f_01oi->b01f"),
  };
  const compiler::Target target;
  compiler::ConvolutionKernels known(target);
  std::set<double> expected;
  for (const hlo::Module& each : modules) {
    const hlo::Computation& entry = each.entry_computation();
    const hlo::HloInstruction& convolution = entry.at(entry.root);
    const hlo::Shape& input = entry.at(0).shape;
    const hlo::Shape& window = entry.at(1).shape;
    for (const bool in_lanes : {false, true}) {
      compiler::ConvolutionKernels fresh(target);
      const std::optional<double> cycles = known.cycles(convolution, input, window, in_lanes);
      EXPECT_EQ(cycles, fresh.cycles(convolution, input, window, in_lanes));
      EXPECT_EQ(known.has_kernel(convolution, input, window, in_lanes),
                fresh.has_kernel(convolution, input, window, in_lanes));
      if (cycles) expected.insert(*cycles);
    }
  }
  EXPECT_GE(expected.size(), 10u);
}

}  // namespace
}  // namespace tpu::test::convolution_sides_test
