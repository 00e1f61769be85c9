#include "workloads/compiler/passes/convolution_layouts.h"

#include <gtest/gtest.h>

#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::convolution_layouts_test {
namespace {

/// Two convolutions, of 112x112 pixels with few features and of 7x7 with many.
std::string network(int batch, int few, int many) {
  const auto images = [&](int extent, int features) {
    return "bf16[" + std::to_string(batch) + "," + std::to_string(extent) + "," +
           std::to_string(extent) + "," + std::to_string(features) + "]";
  };
  const auto kernel = [](int in, int out) {
    return "bf16[3,3," + std::to_string(in) + "," + std::to_string(out) + "]";
  };
  const std::string window = ", window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n";
  return "HloModule network\nENTRY main {\n  x = " + images(112, few) + " parameter(0)\n" +
         "  v = " + kernel(few, few) + " parameter(1)\n  s = " + images(7, many) +
         " parameter(2)\n  w = " + kernel(many, many) +
         " parameter(3)\n  early = " + images(112, few) + " convolution(x, v)" + window +
         "  late = " + images(7, many) + " convolution(s, w)" + window + "  ROOT t = (" +
         images(112, few) + ", " + images(7, many) + ") tuple(early, late)\n}\n";
}

/// Whether the early and the late convolution have their batch in the lanes.
std::string sides(const std::string& text) {
  const hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  const hlo::Computation& entry = module.entry_computation();
  const compiler::ConvolutionSides sides(entry, {});
  std::string all;
  for (const hlo::HloInstruction& instruction : entry.instructions) {
    if (instruction.opcode != hlo::HloOpcode::kConvolution) continue;
    all += sides.in_lanes(entry, instruction) ? "lanes " : "rows ";
  }
  return all;
}

TEST(ConvolutionSides, ManyPixelsOfFewFeaturesAreInTheLanesAndFewOfManyInTheRows) {
  EXPECT_EQ(sides(network(128, 32, 512)), "lanes lanes ");
  EXPECT_EQ(sides(network(64, 32, 512)), "lanes rows ");
  EXPECT_EQ(sides(network(8, 128, 512)), "rows rows ");
  // The same, but turning the late images would take longer than they gain.
  EXPECT_EQ(sides(network(64, 32, 128)), "lanes lanes ");
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

}  // namespace
}  // namespace tpu::test::convolution_layouts_test
