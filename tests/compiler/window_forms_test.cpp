#include "workloads/compiler/passes/expand/window_forms.h"

#include <gtest/gtest.h>

#include <functional>
#include <tuple>

#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/passes/simplify/simplify.h"
#include "workloads/compiler/passes/simplify/window_padding.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::window_forms_test {
namespace {

constexpr const char* kReducers = R"(HloModule windows
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
min { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] minimum(a, b) }
mul { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] multiply(a, b) }
le { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LE }
ge { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GE }
gt { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GT }
ENTRY main {
  zero = f32[] constant(0)
  one = f32[] constant(1)
  low = f32[] constant(-inf)
)";

std::string with_reducers(const std::string& body) { return kReducers + body + "}\n"; }

/// Values of the module after the pass, in the interpreter and on the machine.
hlo::Module check(
    const std::string& body, const std::function<void(hlo::Module&)>& pass = [](hlo::Module& m) {
      compiler::rewrite_windows(m, {});
    }) {
  const std::string text = with_reducers(body);
  const hlo::Module before = hlo::read_hlo_text("test.hlo", text);
  hlo::verify(before);
  hlo::Module after = before;
  pass(after);
  hlo::verify(after);
  std::mt19937 engine(5);
  std::vector<reference::Value> arguments;
  // Small whole numbers: equal elements in a window.
  HloCheck numbers;
  numbers.low = -4;
  numbers.high = 4;
  for (hlo::InstructionId id : before.entry_computation().parameters()) {
    arguments.push_back(random_value(before.entry_computation().at(id).shape, engine, numbers));
    for (float& number : arguments.back().numbers) number = std::floor(number);
  }
  const reference::Value wanted = reference::Interpreter(before).run(arguments);
  const reference::Value found = reference::Interpreter(after).run(arguments);
  EXPECT_LE(distance(numbers_of(found), numbers_of(wanted)), 1e-6) << text;
  check_hlo(text);
  return after;
}

std::size_t count(const hlo::Module& module, hlo::HloOpcode opcode) {
  const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [&](const auto& i) { return i.opcode == opcode; }));
}

constexpr hlo::HloOpcode kPooling = hlo::HloOpcode::kReduceWindow;
constexpr hlo::HloOpcode kScatter = hlo::HloOpcode::kSelectAndScatter;

TEST(WindowForms, AWindowOverTheFeaturesOfImagesIsASumOfShiftedArrays) {
  const hlo::Module after = check(R"(
  x = f32[4,6,6,20] parameter(0)
  w = f32[3,3,20,20] parameter(1)
  y = f32[4,6,6,20] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  ROOT s = f32[4,6,6,20] reduce-window(y, zero), window={size=1x1x1x5 pad=0_0x0_0x0_0x2_2}, to_apply=add
)");
  EXPECT_EQ(count(after, kPooling), 0U);
}

TEST(WindowForms, ThreeDimensionsAreReducedOneAfterTheOther) {
  const hlo::Module after = check(R"(
  x = f32[2,5,8,8,10] parameter(0)
  ROOT s = f32[2,3,4,4,10] reduce-window(x, low), window={size=1x3x3x2x1 stride=1x2x2x2x1 pad=0_0x1_1x0_1x0_0x0_0}, to_apply=max
)");
  EXPECT_EQ(count(after, kPooling), 2U);
}

TEST(WindowForms, OneSpatialDimensionBecomesAnImage) {
  const hlo::Module after = check(R"(
  x = f32[4,30,20] parameter(0)
  ROOT s = f32[4,15,20] reduce-window(x, zero), window={size=1x3x1 stride=1x2x1 pad=0_0x0_1x0_0}, to_apply=add
)");
  EXPECT_EQ(count(after, kPooling), 1U);
}

TEST(WindowForms, AnyReducerAndAnyInitialValue) {
  check(R"(
  x = f32[3,9,9,8] parameter(0)
  ROOT s = f32[3,4,4,8] reduce-window(x, one), window={size=1x3x3x1 stride=1x2x2x1}, to_apply=min
)");
  check(R"(
  x = f32[3,9,9,8] parameter(0)
  ROOT s = f32[3,4,4,8] reduce-window(x, one), window={size=1x2x3x1 stride=1x2x2x1}, to_apply=mul
)");
  check(R"(
  x = f32[3,6,6,8] parameter(0)
  ROOT s = f32[3,10,5,8] reduce-window(x, zero), window={size=1x2x2x1 stride=1x1x1x1 lhs_dilate=1x2x1x1}, to_apply=max
)");
}

TEST(WindowForms, TheGradientInMoreThanFourDimensionsHasAKernelWhereTwoHaveWindows) {
  const hlo::Module after = check(R"(
  x = f32[2,3,6,8,10] parameter(0)
  g = f32[2,3,3,4,10] parameter(1)
  ROOT s = f32[2,3,6,8,10] select-and-scatter(x, g, zero), window={size=1x1x3x3x1 stride=1x1x2x2x1 pad=0_0x0_0x0_1x0_1x0_0}, select=ge, scatter=add
)");
  EXPECT_EQ(count(after, kScatter), 1U);
}

constexpr const char* kImages = R"(
  x = f32[4,3,12,12] parameter(0)
  w = f32[5,3,3,3] parameter(1)
  c = f32[4,5,10,10] convolution(x, w), window={size=3x3}, dim_labels=bf01_oi01->bf01
  t = f32[4,10,10,5] transpose(c), dimensions={0,2,3,1}
  r = f32[4,1,10,10,5] reshape(t)
)";

const hlo::HloInstruction& only(const hlo::Module& module, hlo::HloOpcode opcode) {
  const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
  return *std::find_if(all.begin(), all.end(), [&](const auto& i) { return i.opcode == opcode; });
}

/// Rows of a window choose their greatest element, and the other dimensions among those.
TEST(WindowForms, TheGradientOfAWindowOverThreeDimensionsIsTwoKernels) {
  const hlo::Module after = check(R"(
  x = f32[2,5,6,6,10] parameter(0)
  g = f32[2,3,3,3,10] parameter(1)
  ROOT s = f32[2,5,6,6,10] select-and-scatter(x, g, zero), window={size=1x3x2x2x1 stride=1x2x2x2x1 pad=0_0x1_1x0_0x0_0x0_0}, select=ge, scatter=add
)");
  EXPECT_EQ(count(after, kScatter), 2U);
  EXPECT_EQ(count(after, kPooling), 1U);
}

TEST(WindowForms, OverThreeDimensionsTheLastOfEqualElementsIsTakenInSteps) {
  check(R"(
  x = f32[2,4,6,6,10] parameter(0)
  g = f32[2,2,3,3,10] parameter(1)
  ROOT s = f32[2,4,6,6,10] select-and-scatter(x, g, zero), window={size=1x2x3x2x1 stride=1x2x2x2x1 pad=0_0x0_0x1_0x0_0x0_0}, select=gt, scatter=add
)");
}

/// The gradient selects from what the windows have made of their rows.
TEST(WindowForms, WindowsOverThreeDimensionsAndTheirGradientShareTheirRows) {
  const auto pass = [](hlo::Module& m) {
    compiler::rewrite_windows(m, {});
    compiler::simplify(m);
  };
  // One image stands without its dimension.
  for (const std::string n : {"1", "2"}) {
    const std::string image = "f32[" + n + ",4,8,8,128]", pooled = "f32[" + n + ",2,4,4,128]";
    const std::string window = ", window={size=1x2x2x2x1 stride=1x2x2x2x1}, ";
    const hlo::Module after = check(
        "  x = " + image + " parameter(0)\n  p = " + pooled + " reduce-window(x, low)" + window +
            "to_apply=max\n  s = " + image + " select-and-scatter(x, p, zero)" + window +
            "select=ge, scatter=add\n  ROOT t = (" + pooled + ", " + image + ") tuple(p, s)\n",
        pass);
    EXPECT_EQ(count(after, kScatter), 2U) << n;
    EXPECT_EQ(count(after, kPooling), 2U) << n;
    EXPECT_EQ(count(after, hlo::HloOpcode::kSlice), 0U) << n;
  }
}

/// Dense slices of two take less than the copies around kernels; slices that are padding do not.
TEST(WindowForms, WindowsOverThreeDimensionsBeginWithSlicesWhereTheseTakeLess) {
  const hlo::Module dense = check(R"(
  x = f32[1,4,8,8,128] parameter(0)
  ROOT p = f32[1,2,4,4,128] reduce-window(x, low), window={size=1x2x2x2x1 stride=1x2x2x2x1}, to_apply=max
)");
  EXPECT_EQ(count(dense, kPooling), 1U);
  const hlo::Module padded = check(R"(
  x = f32[2,4,8,8,16] parameter(0)
  ROOT p = f32[2,2,4,4,16] reduce-window(x, low), window={size=1x2x2x2x1 stride=1x2x2x2x1}, to_apply=max
)");
  EXPECT_EQ(count(padded, kPooling), 2U);
}

/// Two images of 512 features are eight rows of lanes; beside a convolution they stay.
TEST(WindowForms, WindowsOverFewImagesHavePixelsOfRowsOfLanes) {
  const std::string windows = R"(
  ROOT p = f32[2,4,4,8,64] reduce-window(x, low), window={size=1x2x2x1x1 stride=1x2x2x1x1}, to_apply=max
)";
  const hlo::Module after = check("  x = f32[2,8,8,8,64] parameter(0)" + windows);
  ASSERT_EQ(count(after, kPooling), 1U);
  EXPECT_EQ(only(after, kPooling).shape.dimensions, (std::vector<std::int64_t>{4, 4, 8, 128}));
  const hlo::Module gradient = check(R"(
  x = f32[2,8,8,8,64] parameter(0)
  g = f32[2,4,4,8,64] parameter(1)
  ROOT s = f32[2,8,8,8,64] select-and-scatter(x, g, zero), window={size=1x3x3x1x1 stride=1x2x2x1x1 pad=0_0x0_1x1_0x0_0x0_0}, select=ge, scatter=add
)");
  ASSERT_EQ(count(gradient, kScatter), 1U);
  EXPECT_EQ(only(gradient, kScatter).shape.dimensions, (std::vector<std::int64_t>{8, 8, 8, 128}));
}

/// Equinox pools images of (channels, height, width) with the channels last and a dimension more,
/// between the batch and the image: the windows are in the convolution's image.
TEST(WindowForms, WindowsOfATransposedImageAreInTheImage) {
  const hlo::Module pooled = check(std::string(kImages) + R"(
  ROOT p = f32[4,1,5,5,5] reduce-window(r, low), window={size=1x1x2x2x1 stride=1x1x2x2x1}, to_apply=max
)");
  ASSERT_EQ(count(pooled, kPooling), 1U);
  EXPECT_EQ(only(pooled, kPooling).operands[0], only(pooled, hlo::HloOpcode::kConvolution).id);
  EXPECT_EQ(only(pooled, kPooling).window[2].size, 2);
  EXPECT_EQ(only(pooled, kPooling).window[3].size, 2);
  const hlo::Module gradient = check(std::string(kImages) + R"(
  g = f32[4,1,5,5,5] parameter(2)
  ROOT s = f32[4,1,10,10,5] select-and-scatter(r, g, zero), window={size=1x1x2x2x1 stride=1x1x2x2x1}, select=ge, scatter=add
)");
  ASSERT_EQ(count(gradient, kScatter), 1U);
  EXPECT_EQ(only(gradient, kScatter).operands[0], only(gradient, hlo::HloOpcode::kConvolution).id);
  EXPECT_EQ(only(gradient, kScatter).shape.dimensions, (std::vector<std::int64_t>{4, 5, 10, 10}));
}

/// Channels and rows, where a convolution has rows and columns outermost: the channels are shifted
/// arrays, the rows a kernel's. Rows and batch are not merged, which would move every image.
TEST(WindowForms, OfWindowsOverOtherDimensionsThanTheImagesTheRestHasAKernel) {
  const hlo::Module after = check(std::string(kImages) + R"(
  ROOT p = f32[4,4,9,10] reduce-window(c, low), window={size=1x2x2x1}, to_apply=max
)");
  ASSERT_EQ(count(after, kPooling), 1U);
  EXPECT_EQ(only(after, kPooling).shape.dimensions, (std::vector<std::int64_t>{4, 4, 9, 10}));
  EXPECT_EQ(only(after, kPooling).window[1].size, 1);
  EXPECT_EQ(only(after, kPooling).window[2].size, 2);
}

TEST(WindowForms, SelectionByGreaterThanTakesTheLastOfEqualElements) {
  check(R"(
  x = f32[2,6,6,10] parameter(0)
  g = f32[2,3,3,10] parameter(1)
  ROOT s = f32[2,6,6,10] select-and-scatter(x, g, zero), window={size=1x3x2x1 stride=1x2x2x1 pad=0_0x1_0x0_0x0_0}, select=gt, scatter=add
)");
}

/// A window that has all elements of both dimensions, some of its padding too.
TEST(WindowForms, AWindowOfOneElementMovesNothing) {
  const hlo::Module after = check(R"(
  x = f32[1,12,1,10,4] parameter(0)
  ROOT s = f32[1,12,1,10,4] reduce-window(x, zero), window={size=1x1x1x1x1}, to_apply=add
)");
  EXPECT_EQ(count(after, kPooling), 0U);
}

/// The kernel has one image of 12 features in each tile: 768 x 31 tiles of 4 KiB, there, in and
/// back. The array by itself fills 31 x 2 x 6 tiles; each of two parts is read and written, then
/// read once more. Where the tiles are full the kernel has the window.
TEST(WindowForms, WindowsThatLeaveTilesNearlyEmptyAreCombinedFromParts) {
  const std::string few = R"(
  x = f32[31,768,12,1] parameter(0)
  ROOT s = f32[31,767,12,1] reduce-window(x, zero), window={size=1x2x1x1}, to_apply=add
)";
  EXPECT_EQ(count(check(few), kPooling), 0U);
  const std::uint64_t cycles = check_hlo(with_reducers(few)).result.cycles;
  constexpr std::uint64_t kTile = 4096, kBytesPerCycle = 490;
  EXPECT_LT(cycles, 31 * 2 * 6 * kTile * (3 * 2 + 1) / kBytesPerCycle + 8000);
  EXPECT_GT(cycles, 31 * 768 * 12 * 4 * 2 / kBytesPerCycle);
  EXPECT_EQ(count(check(R"(
  x = f32[60,100,6] parameter(0)
  ROOT s = f32[57,99,6] reduce-window(x, low), window={size=4x2x1}, to_apply=max
)"),
                  kPooling),
            0U);
  EXPECT_EQ(count(check(R"(
  x = f32[16,20,20,128] parameter(0)
  ROOT s = f32[16,19,18,128] reduce-window(x, zero), window={size=1x2x3x1}, to_apply=add
)"),
                  kPooling),
            1U);
}

/// More positions than are compared one by one, and rows that the kernel has no room for: along the
/// rows first, then among them. Equal elements are many; the first of them has the value, or the
/// last.
TEST(WindowForms, TheGradientOfALargeWindowChoosesInTwoSteps) {
  for (const std::string select : {"ge", "gt"}) {
    check(R"(
  x = f32[1,40,30,3] parameter(0)
  g = f32[1,11,4,3] parameter(1)
  ROOT s = f32[1,40,30,3] select-and-scatter(x, g, zero), window={size=1x30x20x1 stride=1x1x4x1 pad=0_0x0_0x0_2x0_0}, select=)" +
          select + ", scatter=add\n");
    check(R"(
  x = f32[2,12,12,12,3] parameter(0)
  g = f32[2,3,2,2,3] parameter(1)
  ROOT s = f32[2,12,12,12,3] select-and-scatter(x, g, zero), window={size=1x10x8x9x1 stride=1x1x4x3x1}, select=)" +
          select + ", scatter=add\n");
  }
}

/// Rows of 20 columns and 13 around them on each side, 28 of them, are more than VMEM has; columns
/// would fit. The first of equal elements stands in the first row nevertheless.
TEST(WindowForms, TheGradientOfAWindowWithLongRowsTakesTheFirstRow) {
  check_hlo(with_reducers(R"(
  x = f32[2,14,20,16] parameter(0)
  y = f32[2,1,10,16] parameter(1)
  n = s32[2,14,20,16] convert(x)
  e = f32[2,14,20,16] convert(n)
  ROOT s = f32[2,14,20,16] select-and-scatter(e, y, zero), window={size=1x14x13x1 stride=1x14x2x1 pad=0_0x0_0x5_6x0_0}, select=ge, scatter=add
)"));
}

/// Beside a convolution windows of a transposed image are in the image, but for those whose columns
/// would become rows.
TEST(WindowForms, TheGradientOfAWindowOfATurnedImageTakesTheFirstRow) {
  check_hlo(with_reducers(R"(
  x = f32[4,12,12,8] parameter(0)
  w = f32[1,1,8,8] parameter(1)
  y = f32[4,8,4,4] parameter(2)
  c = f32[4,12,12,8] convolution(x, w), window={size=1x1}, dim_labels=b01f_01io->b01f
  n = s32[4,12,12,8] convert(x)
  e = f32[4,12,12,8] convert(n)
  t = f32[4,8,12,12] transpose(e), dimensions={0,3,2,1}
  s = f32[4,8,12,12] select-and-scatter(t, y, zero), window={size=1x1x3x3 stride=1x1x3x3}, select=ge, scatter=add
  ROOT r = (f32[4,12,12,8], f32[4,8,12,12]) tuple(c, s)
)"));
}

/// Rows of windows of 32 rows, and those of the next ones, are more than VMEM has.
TEST(WindowForms, ALargeWindowIsReducedInTwoSteps) {
  EXPECT_EQ(count(check(R"(
  x = f32[8,66,66,128] parameter(0)
  ROOT s = f32[8,2,2,128] reduce-window(x, low), window={size=1x32x32x1 stride=1x33x33x1}, to_apply=max
)"),
                  kPooling),
            2U);
  EXPECT_EQ(count(check(R"(
  x = bf16[8,63,70,128] parameter(0)
  y = f32[8,63,70,128] convert(x)
  ROOT s = f32[8,3,13,128] reduce-window(y, zero), window={size=1x36x30x1 stride=1x32x4x1 pad=0_0x20_20x0_10x0_0}, to_apply=add
)"),
                  kPooling),
            2U);
}

/// Windows of a long line and their gradient, which holds more of it in VMEM, lie as the gradient
/// does where kernels take both; of few features both are made of parts of the image.
TEST(WindowForms, WindowsOfLongLinesAndTheirGradientLieAlike) {
  for (const bool has_kernels : {true, false}) {
    const std::string shape = has_kernels ? "8,1024,64" : "2,1024,20";
    const std::string pooled = has_kernels ? "8,512,64" : "2,512,20";
    const std::string window = "window={size=1x3x1 stride=1x2x1 pad=0_0x0_1x0_0}, ";
    const hlo::Module after = check(
        "  x = f32[" + shape + "] parameter(0)\n  p = f32[" + pooled + "] reduce-window(x, low), " +
        window + "to_apply=max\n  s = f32[" + shape + "] select-and-scatter(x, p, zero), " +
        window + "select=ge, scatter=add\n  ROOT t = (f32[" + pooled + "], f32[" + shape +
        "]) tuple(p, s)\n");
    EXPECT_EQ(count(after, kScatter), has_kernels ? 1U : 0U);
    EXPECT_EQ(count(after, kPooling), has_kernels ? 1U : 0U);
  }
}

/// Strides along any dimensions, padding, dilation, elements that no window has; equal elements.
TEST(WindowForms, WindowsOfFewFeaturesAreMadeOfPartsOfTheImage) {
  std::mt19937 engine(7);
  const auto below = [&engine](int n) { return static_cast<int>(engine() % unsigned(n)); };
  std::size_t in_parts = 0;
  for (int trial = 0; trial < 40; ++trial) {
    std::string image = std::to_string(1 + below(2)), windows = image;
    std::string size = "1", stride = "1", dilation = "1", padding = "0_0";
    for (int d = 0; d < 2; ++d) {
      const int extent = 20 + below(30), elements = 1 + below(4), step = 1 + below(4);
      const int apart = 1 + (below(4) == 0 ? 1 : 0), reach = (elements - 1) * apart + 1;
      const int low = below(elements), high = below(elements);
      image += "," + std::to_string(extent);
      windows += "," + std::to_string((extent + low + high - reach) / step + 1);
      size += "x" + std::to_string(elements);
      stride += "x" + std::to_string(step);
      dilation += "x" + std::to_string(apart);
      padding += "x" + std::to_string(low) + "_" + std::to_string(high);
    }
    const std::string features = "," + std::to_string(1 + below(4));
    const std::string window = "window={size=" + size + "x1 stride=" + stride +
                               "x1 pad=" + padding + "x0_0 rhs_dilate=" + dilation + "x1}, ";
    const hlo::Module after = check(
        "  x = f32[" + image + features + "] parameter(0)\n  g = f32[" + windows + features +
        "] parameter(1)\n  p = f32[" + windows + features + "] reduce-window(x, low), " + window +
        "to_apply=max\n  s = f32[" + image + features + "] select-and-scatter(x, g, zero), " +
        window + "select=" + (below(2) == 0 ? "ge" : "gt") + ", scatter=add\n  ROOT t = (f32[" +
        windows + features + "], f32[" + image + features + "]) tuple(p, s)\n");
    in_parts += count(after, kScatter) == 0 ? 1 : 0;
  }
  EXPECT_GE(in_parts, 30U);
}

/// A position of the window that all windows have outside of the image gets nothing.
TEST(WindowForms, PositionsOutsideOfTheImageGetNothing) {
  const hlo::Module after = check(R"(
  x = f32[1,2,4000,1] parameter(0)
  g = f32[1,2,4000,1] parameter(1)
  ROOT s = f32[1,2,4000,1] select-and-scatter(x, g, zero), window={size=1x5x3x1 pad=0_0x4_0x1_1x0_0}, select=ge, scatter=add
)");
  EXPECT_EQ(count(after, kScatter), 0U);
  // Two of five rows of positions meet the image: six parts are added.
  EXPECT_EQ(count(after, hlo::HloOpcode::kAdd), 5U);
}

/// However many places they have; along the lanes they are turned first.
TEST(WindowForms, WindowsSideBySideAreReductionsOfParts) {
  for (const std::string window : {"size=1x50x1 stride=1x50x1", "size=1x100x1 stride=1x100x1",
                                   "size=1x52x1 stride=1x52x1 pad=0_0x3_37x0_0"}) {
    const std::int64_t results = window.find("100") != std::string::npos ? 10 : 20;
    for (const std::string reducer : {"zero), window={", "low), window={"}) {
      const hlo::Module after =
          check("  x = f32[3,1000,40] parameter(0)\n  ROOT s = f32[3," + std::to_string(results) +
                ",40] reduce-window(x, " + reducer + window +
                "}, to_apply=" + (reducer[0] == 'z' ? "add\n" : "max\n"));
      EXPECT_EQ(count(after, kPooling), 0U) << window;
      EXPECT_EQ(count(after, hlo::HloOpcode::kReduce), 1U) << window;
    }
  }
}

TEST(WindowForms, AWindowOverEverythingIsAReduction) {
  for (const std::string window : {"size=1x9x9x1", "size=1x12x9x1 pad=0_0x2_1x0_0x0_0"}) {
    for (const std::string reducer : {"zero), window={", "low), window={"}) {
      const hlo::Module after =
          check("  x = f32[3,9,9,8] parameter(0)\n  ROOT s = f32[3,1,1,8] reduce-window(x, " +
                reducer + window + "}, to_apply=" + (reducer[0] == 'z' ? "add\n" : "max\n"));
      EXPECT_EQ(count(after, kPooling), 0U) << window;
      EXPECT_EQ(count(after, hlo::HloOpcode::kReduce), 1U) << window;
    }
  }
  // Ten positions of eleven, and one that ends before the last element.
  for (const std::string window : {"size=1x2x9x1", "size=1x8x9x1 stride=1x2x1x1"}) {
    const bool one = window.find("stride") != std::string::npos;
    const hlo::Module after = check(
        "  x = f32[8,9,9,128] parameter(0)\n  ROOT s = f32[8," + std::string(one ? "1" : "8") +
        ",1,128] reduce-window(x, zero), window={" + window + "}, to_apply=add\n");
    EXPECT_EQ(count(after, kPooling) + (one ? 0 : count(after, hlo::HloOpcode::kAdd)), 1U)
        << window;
    EXPECT_EQ(count(after, hlo::HloOpcode::kReduce), 1U) << window;
  }
}

/// Reductions multiply nothing: the positions of the window do.
TEST(WindowForms, AProductOfEverythingIsOneOfItsPositions) {
  const hlo::Module after = check(R"(
  x = f32[128,1,3] parameter(0)
  ROOT s = f32[128,1,1] reduce-window(x, one), window={size=1x1x3}, to_apply=mul
)");
  EXPECT_EQ(count(after, kPooling), 0U);
  EXPECT_EQ(count(after, hlo::HloOpcode::kReduce), 0U);
}

/// The gradient of a mean over everything: zeros around one pixel, each window with the pixel.
TEST(WindowForms, WindowsOverOneElementRepeatIt) {
  const auto text = [](int low, int windows) {
    const std::string n = std::to_string(windows), padded = std::to_string(windows + 6);
    return "  x = f32[8,1,1,128] parameter(0)\n  p = f32[8," + padded + "," + padded +
           ",128] pad(x, zero), padding=0_0x" + std::to_string(low) + "_" +
           std::to_string(windows + 5 - low) + "_6x6_" + std::to_string(windows - 1) +
           "_6x0_0\n  ROOT s = f32[8," + n + "," + n +
           ",128] reduce-window(p, zero), window={size=1x7x7x1}, to_apply=add\n";
  };
  const auto sums = [](const hlo::Module& m) {
    return count(m, kPooling) + count(m, hlo::HloOpcode::kAdd);
  };
  EXPECT_EQ(sums(check(text(6, 7))), 0U);
  EXPECT_EQ(sums(check(text(6, 6))), 0U);
  EXPECT_EQ(sums(check(text(6, 8))), 0U);  // The last of eight does not have it.
  // The first of seven does not.
  EXPECT_EQ(sums(check(text(7, 7))), 6U);
}

/// The gradient of a mean over windows side by side, as JAX writes it.
TEST(WindowForms, SumsThatReachOneElementRepeatIt) {
  const auto body = [](const std::string& array, const std::string& padded,
                       const std::string& padding, const std::string& window,
                       const std::string& result) {
    return "x = f32[" + array + "] parameter(0)\n  p = f32[" + padded +
           "] pad(x, zero), padding=" + padding + "\n  ROOT w = f32[" + result +
           "] reduce-window(p, zero), window={" + window + "}, to_apply=add\n";
  };
  const auto left = [](const std::string& text) {
    return count(check(text), hlo::HloOpcode::kReduceWindow);
  };
  EXPECT_EQ(
      left(body("8,5,6,128", "8,11,13,128", "0_0x1_1_1x1_1_1x0_0", "size=1x2x2x1", "8,10,12,128")),
      0U);
  // Three by two; elements behind the last window are 0.
  EXPECT_EQ(
      left(body("8,5,6,128", "8,18,13,128", "0_0x2_3_2x1_1_1x0_0", "size=1x3x2x1", "8,16,12,128")),
      0U);
  // Windows that overlap, or leave gaps, or begin elsewhere, reach other elements.
  EXPECT_EQ(
      left(body("8,5,6,128", "8,11,13,128", "0_0x1_1_1x1_1_1x0_0", "size=1x3x2x1", "8,9,12,128")),
      1U);
  EXPECT_EQ(
      left(body("8,5,6,128", "8,12,13,128", "0_0x2_1_1x1_1_1x0_0", "size=1x2x2x1", "8,11,12,128")),
      1U);
}

/// Of a pad's elements that are the reducer's neutral one; other ones stay.
/// As means over padded windows divide by; of any number, dilated or with gaps, and of both along
/// one dimension only.
TEST(WindowForms, SumsOfOneNumberAreCounts) {
  for (const char* window : {
           "f32[2,5,5,9] reduce-window(x, zero), window={size=1x3x4x1 pad=0_0x1_0x1_1x0_0}",
           "f32[2,3,1,9] reduce-window(x, zero), window={size=1x3x3x1 stride=1x2x2x1 "
           "pad=0_0x1_1x0_0x0_0 rhs_dilate=1x1x2x1}",
           "f32[2,10,4,9] reduce-window(x, zero), window={size=1x2x3x1 pad=0_0x0_0x0_0x0_0 "
           "lhs_dilate=1x2x1x1}",
           "f32[2,6,6,10] reduce-window(x, zero), window={size=1x1x1x2 pad=0_0x0_0x0_0x1_1}",
       }) {
    const std::string text = window;
    const std::string shape = text.substr(0, text.find(' '));
    const hlo::Module after =
        check("  y = " + shape +
              " parameter(0)\n  n = f32[] constant(1.5)\n  x = f32[2,6,6,9] "
              "broadcast(n), dimensions={}\n  c = " +
              text + ", to_apply=add\n  ROOT r = " + shape + " divide(y, c)\n");
    EXPECT_EQ(count(after, kPooling), 0U) << window;
    EXPECT_EQ(count(after, hlo::HloOpcode::kPad), 0U) << window;
  }
  // An infinite one comes no time where a window has no element.
  check(
      "  y = f32[2,8,6,9] parameter(0)\n  x = f32[2,6,6,9] broadcast(low), dimensions={}\n  c = "
      "f32[2,8,6,9] reduce-window(x, zero), window={size=1x2x1x1 pad=0_0x2_1x0_0x0_0}, "
      "to_apply=add\n  ROOT r = f32[2,8,6,9] maximum(y, c)\n");
  // Windows of two rows reach one of them or two.
  const hlo::Module after = check(R"(
  y = f32[2,11,6,9] parameter(0)
  x = f32[2,6,6,9] broadcast(one), dimensions={}
  c = f32[2,11,6,9] reduce-window(x, zero), window={size=1x3x1x1 lhs_dilate=1x2x1x1 pad=0_0x1_1x0_0x0_0}, to_apply=add
  ROOT r = f32[2,11,6,9] multiply(y, c)
)");
  EXPECT_EQ(count(after, kPooling), 0U);
}

TEST(WindowForms, CountsOfAVeryLargeImageAreNoConstant) {
  for (const std::int64_t columns : {255, 256}) {
    const std::string windows = std::to_string(columns + 1);
    hlo::Module module = hlo::read_hlo_text(
        "test.hlo", with_reducers("  x = f32[1,255," + std::to_string(columns) +
                                  ",8] broadcast(one), dimensions={}\n  ROOT c = f32[1,256," +
                                  windows + ",8] reduce-window(x, zero), window={size=1x2x2x1 " +
                                  "pad=0_0x1_1x1_1x0_0}, to_apply=add\n"));
    compiler::rewrite_windows(module, {});
    std::int64_t largest = 0;
    for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
      if (each.opcode != hlo::HloOpcode::kConstant) continue;
      largest = std::max(largest, each.shape.element_count());
    }
    EXPECT_EQ(largest, columns == 255 ? 256 * 256 : 1);
  }
}

/// The gradient of a mean over windows that overlap: a kernel knows the gaps.
TEST(WindowForms, GapsOfAPadAreTheWindows) {
  const hlo::Module after = check(R"(
  g = f32[16,9,9,64] parameter(0)
  p = f32[16,20,21,64] pad(g, zero), padding=0_0x2_1_1x2_2_1x0_0
  ROOT s = f32[16,18,18,64] reduce-window(p, zero), window={size=1x3x4x1}, to_apply=add
)");
  EXPECT_EQ(count(after, hlo::HloOpcode::kPad), 0U);
  ASSERT_EQ(count(after, kPooling), 1U);
  for (const hlo::HloInstruction& each : after.entry_computation().instructions) {
    if (each.opcode == kPooling) {
      EXPECT_EQ(each.window[1].base_dilation, 2);
    }
  }
}

/// Along lines of any length; where numbers of rows cannot be divided by the distance of pixels (of
/// three, rows up to 767), the gaps are a pad's again.
TEST(WindowForms, GapsInLongRowsArePaddedWhereNoKernelKnowsThem) {
  for (const auto& [pixels, gap, pads] :
       {std::tuple(512, 1, 0U), std::tuple(200, 2, 0U), std::tuple(400, 2, 1U)}) {
    const std::string image = "[2," + std::to_string(pixels) + ",8,128]";
    const std::string windows = "[2," + std::to_string((pixels - 1) * (gap + 1) + 2) + ",8,128]";
    const hlo::Module after =
        check("  g = f32" + image + " parameter(0)\n  p = f32" + windows +
              " pad(g, zero), padding=0_0x1_0_" + std::to_string(gap) + "x0_0x0_0\n  ROOT s = f32" +
              windows +
              " reduce-window(p, zero), window={size=1x3x1x1 pad=0_0x1_1x0_0x0_0}, "
              "to_apply=add\n");
    EXPECT_EQ(count(after, kPooling), 1U) << pixels;
    EXPECT_EQ(count(after, hlo::HloOpcode::kPad), pads) << pixels;
  }
}

TEST(WindowForms, PaddingBelongsToTheWindow) {
  for (const bool neutral : {true, false}) {
    for (const std::string rows : {"2", "5"}) {
      const std::string padded = rows == "2" ? "4" : "7";
      const hlo::Module after =
          check("  x = f32[8," + rows + ",9,128] parameter(0)\n  p = f32[8," + padded +
                ",11,128] pad(x, " + (neutral ? "low" : "zero") +
                "), padding=0_0x1_1x1_1x0_0\n  ROOT s = f32[8," + rows +
                ",9,128] reduce-window(p, low), window={size=1x3x3x1}, to_apply=max\n");
      EXPECT_EQ(count(after, hlo::HloOpcode::kPad), neutral ? 0U : 1U) << rows;
    }
  }
  // The gradient of a mean: zeros between the pixels are no padding.
  check(R"(
  x = f32[3,1,4,8] parameter(0)
  p = f32[3,3,9,8] pad(x, zero), padding=0_0x1_1x1_1_1x0_0
  ROOT s = f32[3,1,8,8] reduce-window(p, zero), window={size=1x3x2x1}, to_apply=add
)");
}

/// The gradient of a maximum as JAX lowers it for the CPU: what a pad by -inf adds, a slice takes
/// off again. Or what differs from it.
struct PaddedScatter {
  std::string fill = "low", select = "ge", limits = "[0:2], [1:9], [0:9], [0:16]";
  std::string root = "f32[2,8,9,16] negate(s)";
};

hlo::Module fold(const PaddedScatter& form) {
  return check(
      "  high = f32[] constant(inf)\n  x = f32[2,8,9,16] parameter(0)\n"
      "  g = f32[2,4,4,16] parameter(1)\n  p = f32[2,9,10,16] pad(x, " +
          form.fill +
          "), padding=0_0x1_0x0_1x0_0\n  r = f32[2,9,10,16] select-and-scatter(p, g, zero), "
          "window={size=1x3x3x1 stride=1x2x2x1}, select=" +
          form.select + ", scatter=add\n  s = f32[2,8,9,16] slice(r), slice={" + form.limits +
          "}\n  ROOT t = " + form.root + "\n",
      [](hlo::Module& m) { compiler::fold_window_padding(m); });
}

TEST(WindowPadding, OfTheGradientOfAMaximumIsTheWindows) {
  const hlo::Module folded = fold({});
  EXPECT_EQ(count(folded, hlo::HloOpcode::kPad), 0U);
  EXPECT_EQ(count(folded, hlo::HloOpcode::kSlice), 0U);
  const std::vector<hlo::HloInstruction>& all = folded.entry_computation().instructions;
  const auto scatter =
      std::find_if(all.begin(), all.end(), [](const auto& i) { return i.opcode == kScatter; });
  ASSERT_NE(scatter, all.end());
  EXPECT_EQ(scatter->shape.dimensions, (std::vector<std::int64_t>{2, 8, 9, 16}));
  EXPECT_EQ(scatter->window[1].padding_low, 1);
  EXPECT_EQ(scatter->window[1].padding_high, 0);
  EXPECT_EQ(scatter->window[2].padding_low, 0);
  EXPECT_EQ(scatter->window[2].padding_high, 1);
  for (const PaddedScatter& same : {PaddedScatter{"low", "gt"}, PaddedScatter{"high", "le"}}) {
    EXPECT_EQ(count(fold(same), hlo::HloOpcode::kPad), 0U) << same.select;
  }
}

/// What could be selected, is cut elsewhere or is read by others.
TEST(WindowPadding, OfTheGradientOfAMaximumStaysWhereItHasElementsOfItsOwn) {
  const std::string both = "(f32[2,8,9,16], f32[2,9,10,16]) tuple(s, r)";
  for (const PaddedScatter& form :
       {PaddedScatter{"zero"}, PaddedScatter{"high"}, PaddedScatter{"low", "le"},
        PaddedScatter{"low", "ge", "[0:2], [0:8], [0:9], [0:16]"},
        PaddedScatter{"low", "ge", "[0:2], [1:9], [0:9], [0:16]", both}}) {
    const hlo::Module module = fold(form);
    EXPECT_EQ(count(module, hlo::HloOpcode::kPad), 1U) << form.fill << " " << form.select;
    EXPECT_EQ(count(module, hlo::HloOpcode::kSlice), 1U) << form.fill << " " << form.select;
  }
}

}  // namespace
}  // namespace tpu::test::window_forms_test
