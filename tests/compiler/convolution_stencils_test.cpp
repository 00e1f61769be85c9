#include "workloads/compiler/passes/expand/convolution_stencils.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/hlo_check.h"
#include "tests/compiler/pass_check.h"

namespace tpu::test::convolution_stencils_test {
namespace {

using hlo::HloOpcode;

/// Behind the pass.
hlo::Module written(const std::string& text) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  const compiler::Target target;
  compiler::ConvolutionKernels kernels(target);
  compiler::write_stencils(module, kernels);
  EXPECT_NO_THROW(hlo::verify(module));
  return module;
}

std::size_t convolutions_left(const std::string& text) {
  return count(written(text), HloOpcode::kConvolution);
}

std::string module_of(const std::string& entry) {
  return "HloModule stencil\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = "
         "f32[] add(a, b)\n}\nENTRY main {\n" +
         entry + "}\n";
}

/// Cycles of a module of stencils alone that has its values.
double cycles_of(const std::string& entry, bool rounds = true, double tolerance = 1e-5) {
  const std::string text = module_of(entry);
  EXPECT_EQ(convolutions_left(text), 0U) << text;
  HloCheck check;
  check.round_matmul_operands = rounds;
  check.tolerance = tolerance;
  return static_cast<double>(check_hlo(text, check).result.cycles);
}

/// A blur of one colour: no weight is an operand, and each array comes once. The matrix unit would
/// take two million cycles.
TEST(ConvolutionStencils, AFilterOfNumbersIsOneKernel) {
  EXPECT_LT(cycles_of(R"(  x = f32[8,1,128,512] parameter(0)
  w = f32[1,1,3,5] constant({ { { {1,2,5.03,2,1}, {0,4,9.1,4,2}, {1,2,5.03,2,1} } } })
  ROOT y = f32[8,1,128,512] convolution(x, w), window={size=3x5 pad=1_1x2_2}, dim_labels=bf01_oi01->bf01
)"),
            45e3);
  // Weights of 0 have no term, those of 1 no product.
  const hlo::Module plain = written(module_of(R"(  x = f32[4,1,300,300] parameter(0)
  w = f32[1,1,3,3] constant({ { { {0,1,0}, {1,-4,1}, {0,1,0} } } })
  ROOT y = f32[4,1,300,300] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
)"));
  EXPECT_EQ(count(plain, HloOpcode::kMultiply), 1U);
  EXPECT_EQ(count(plain, HloOpcode::kAdd), 4U);
}

/// What elementwise operations and sums make of planes are planes: nothing puts them together.
TEST(ConvolutionStencils, FeaturesArePlanes) {
  const std::string edges = R"(  x = f32[8,1,160,256] parameter(0)
  w = f32[2,1,3,3] constant({ { { {1,0,-1}, {2,0,-2}, {1,0,-1} } }, { { {1,2,1}, {0,0,0}, {-1,-2,-1} } } })
  y = f32[8,2,160,256] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
  s = f32[8,2,160,256] multiply(y, y)
  zero = f32[] constant(0)
  z = f32[8,160,256] reduce(s, zero), dimensions={1}, to_apply=add
  ROOT r = f32[8,160,256] sqrt(z)
)";
  hlo::Module module = written(module_of(edges));
  compiler::simplify(module);
  EXPECT_EQ(count(module, HloOpcode::kConcatenate), 0U);
  EXPECT_LT(cycles_of(edges), 45e3);
  for (const std::string order : {"bf01_oi01->bf01", "b01f_01io->b01f", "01bf_io01->fb01"}) {
    const bool first = order[1] == 'f', last = order[0] == '0';
    const std::string x = first ? "2,2,90,300" : last ? "90,300,2,2" : "2,90,300,2";
    const std::string w = first ? "3,2,3,3" : last ? "2,3,3,3" : "3,3,2,3";
    const std::string y = first ? "2,3,90,300" : last ? "3,2,90,300" : "2,90,300,3";
    const std::string along = first ? "1" : last ? "0" : "3";
    SCOPED_TRACE(order);
    cycles_of("  x = f32[" + x + "] parameter(0)\n  w = f32[" + w +
              "] parameter(1)\n  b = f32[3] " + "parameter(2)\n  y = f32[" + y +
              "] convolution(x, w), window={size=3x3 pad=1_1x1_1}" + ", dim_labels=" + order +
              "\n  c = f32[" + y + "] broadcast(b), dimensions={" + along + "}\n  d = f32[" + y +
              "] add(y, c)\n  ROOT r = f32[" + y + "] tanh(d)\n");
  }
}

TEST(ConvolutionStencils, WindowsOfAllKinds) {
  const auto check = [](const std::string& window, const std::string& result) {
    SCOPED_TRACE(window);
    cycles_of("  x = f32[2,1,130,300] parameter(0)\n  w = f32[2,1,3,4] parameter(1)\n  ROOT y = " +
              result + " convolution(x, w), window={size=3x4 " + window +
              "}, dim_labels=bf01_oi01->bf01\n");
  };
  check("pad=0_0x0_0", "f32[2,2,128,297]");
  check("pad=2_0x1_5", "f32[2,2,130,303]");
  check("pad=-3_1x0_-2", "f32[2,2,126,295]");
  check("pad=4_4x3_3 rhs_dilate=3x2", "f32[2,2,132,300]");
  check("pad=1_1x1_2 rhs_reversal=1x0", "f32[2,2,130,300]");
  check("pad=1_1x1_2 rhs_reversal=0x1", "f32[2,2,130,300]");
}

TEST(ConvolutionStencils, LinesAndVolumes) {
  cycles_of(R"(  x = f32[64,1,4000] parameter(0)
  w = f32[1,1,9] parameter(1)
  ROOT y = f32[64,1,4000] convolution(x, w), window={size=9 pad=8_0}, dim_labels=bf0_oi0->bf0
)");
  cycles_of(R"(  x = f32[1,1,20,40,200] parameter(0)
  w = f32[1,1,3,3,3] parameter(1)
  ROOT y = f32[1,1,20,40,200] convolution(x, w), window={size=3x3x3 pad=1_1x1_1x1_1}, dim_labels=bf012_oi012->bf012
)");
}

/// Each group reads its own features. Those of one feature are as exact as the vector unit, and so
/// is what asks for it.
TEST(ConvolutionStencils, GroupsAndPrecision) {
  cycles_of(R"(  x = f32[4,200,300,3] parameter(0)
  w = f32[3,3,1,3] parameter(1)
  ROOT y = f32[4,200,300,3] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=3
)",
            false);
  cycles_of(R"(  x = f32[4,4,200,300] parameter(0)
  w = f32[2,2,3,3] parameter(1)
  ROOT y = f32[4,2,200,300] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01, feature_group_count=2
)");
  cycles_of(R"(  x = f32[4,1,200,300] parameter(0)
  w = f32[1,1,3,3] parameter(1)
  ROOT y = f32[4,1,200,300] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01, operand_precision={highest,highest}
)",
            false);
}

/// A learnt kernel: the gradient of the image reads it backwards, its own is a sum for each
/// position.
TEST(ConvolutionStencils, Gradients) {
  const double cycles = cycles_of(R"(  x = f32[4,2,80,300] parameter(0)
  w = f32[3,2,3,5] parameter(1)
  g = f32[4,3,80,300] parameter(2)
  dw = f32[3,2,3,5] convolution(x, g), window={size=80x300 pad=1_1x2_2}, dim_labels=fb01_io01->fb01
  r = f32[3,2,3,5] reverse(w), dimensions={2,3}
  dx = f32[4,2,80,300] convolution(g, r), window={size=3x5 pad=1_1x2_2}, dim_labels=bf01_io01->bf01
  ROOT t = (f32[3,2,3,5], f32[4,2,80,300]) tuple(dw, dx)
)");
  EXPECT_LT(cycles, 400e3);
  cycles_of(R"(  x = f32[8,1,3000] parameter(0)
  g = f32[8,1,3000] parameter(1)
  ROOT dw = f32[1,1,6] convolution(x, g), window={size=3000 pad=5_0}, dim_labels=fb0_io0->fb0
)");
}

/// The matrix unit keeps what it does sooner, and images that lie as it wants them beside it.
TEST(ConvolutionStencils, WhereTheyTakeLongerConvolutionsStay) {
  EXPECT_EQ(convolutions_left(module_of(R"(  x = f32[8,8,256,256] parameter(0)
  w = f32[8,8,3,3] parameter(1)
  ROOT y = f32[8,8,256,256] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
)")),
            1U);
  EXPECT_EQ(convolutions_left(module_of(R"(  x = f32[256,1,28,28] parameter(0)
  w = f32[8,1,3,3] parameter(1)
  ROOT y = f32[256,8,28,28] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
)")),
            1U);
  const auto last = [](const std::string& made) {
    return convolutions_left(module_of(R"(  x = f32[8,4,256,256] parameter(0)
  u = f32[4,4,9,9] parameter(1)
  w = f32[1,4,3,3] parameter(2)
  h = f32[8,4,256,256] )" + made + R"(
  t = f32[8,4,256,256] tanh(h)
  ROOT y = f32[8,1,256,256] convolution(t, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
)"));
  };
  EXPECT_EQ(last("negate(x)"), 0U);
  EXPECT_EQ(last("convolution(x, u), window={size=9x9 pad=4_4x4_4}, dim_labels=bf01_oi01->bf01"),
            2U);
}

}  // namespace
}  // namespace tpu::test::convolution_stencils_test
