#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/pass_check.h"
#include "workloads/compiler/passes/expand/convolution_forms.h"

namespace tpu::test::convolution_planes_test {
namespace {

using hlo::HloOpcode;

/// Films by kernels of one feature each: a convolution of all frames for each position in time, and
/// for each result in time of the gradient of the kernel.
TEST(ConvolutionPlanes, DepthwiseFilmsAreDepthwiseImages) {
  const auto convolutions = [](const std::string& kernel, const std::string& convolution) {
    hlo::Module module = hlo::read_hlo_text(
        "test.hlo", "HloModule film\nENTRY main {\n  x = f32[8,13,40,40,54] parameter(0)\n  w = " +
                        kernel + " parameter(1)\n  ROOT r = " + convolution + "\n}\n");
    compiler::rewrite_convolutions(module, {});
    hlo::verify(module);
    EXPECT_EQ(count(module, HloOpcode::kMultiply), 0U);
    return count(module, HloOpcode::kConvolution);
  };
  EXPECT_EQ(convolutions("f32[3,3,3,1,54]",
                         "f32[8,13,20,20,54] convolution(x, w), window={size=3x3x3 stride=1x2x2 "
                         "pad=1_1x0_1x0_1}, dim_labels=b012f_012io->b012f, feature_group_count=54"),
            3U);
  EXPECT_EQ(convolutions("f32[8,13,40,40,54]",
                         "f32[3,3,3,1,54] convolution(x, w), window={size=13x40x40 "
                         "pad=1_1x1_1x1_1}, dim_labels=f012b_i012o->012bf, batch_group_count=54"),
            3U);
  EXPECT_EQ(convolutions("f32[5,1,1,1,54]",
                         "f32[8,13,40,40,54] convolution(x, w), window={size=5x1x1 pad=2_2x0_0x0_0"
                         "}, dim_labels=b012f_012io->b012f, feature_group_count=54"),
            1U);
}

}  // namespace
}  // namespace tpu::test::convolution_planes_test
