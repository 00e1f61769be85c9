#include <gtest/gtest.h>

#include <random>

#include "tests/compiler/elementwise_check.h"
#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/passes/layout/layouts.h"
#include "workloads/frontend/graph_builder.h"

namespace tpu::test::pooling_test {
namespace {

using frontend::Extents;
using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::ElementType;

/// A square window over the spatial dimensions of NHWC.
struct Pool {
  std::int64_t size = 2, stride = 2, low = 0, high = 0;
  std::int64_t base = 1, dilation = 1;

  std::vector<hlo::WindowDimension> window() const {
    std::vector<hlo::WindowDimension> dimensions(4);
    for (std::size_t d : {1, 2}) {
      dimensions[d].size = size;
      dimensions[d].stride = stride;
      dimensions[d].padding_low = low;
      dimensions[d].padding_high = high;
      dimensions[d].base_dilation = base;
      dimensions[d].window_dilation = dilation;
    }
    return dimensions;
  }
  std::int64_t windows(std::int64_t image) const {
    const std::int64_t padded = low + (image - 1) * base + 1 + high;
    const std::int64_t left = padded - (size - 1) * dilation - 1;
    return left < 0 ? 0 : left / stride + 1;
  }
};

/// Lays all images of a module with the spatial dimensions as the major ones.
void assign_spatial_layouts(hlo::Module& module) {
  compiler::assign_layouts(module);
  for (hlo::HloInstruction& instruction : module.entry_computation().instructions) {
    if (instruction.shape.rank() != 4) continue;
    instruction.shape.layout = compiler::tiled_layout(instruction.shape.type, {3, 0, 2, 1});
  }
}

enum class Kind { kSum, kMaximum, kGradient };

/// A sum of bf16, of which the builder makes one of f32.
void make_narrow(hlo::Module& module) {
  for (hlo::Computation& computation : module.computations) {
    for (hlo::HloInstruction& instruction : computation.instructions) {
      instruction.shape.type = ElementType::kBf16;
      if (instruction.opcode == hlo::HloOpcode::kConstant) instruction.literal = {0, 0};
    }
  }
}

/// Lowers one pooling operation and compares it with its definition. Values are multiples of 1/4,
/// so that there are ties and sums are exact, and below zero, which is greater than any of them.
KernelHarness::Result check(Kind kind, ElementType type, const Extents& extents, const Pool& pool,
                            compiler::Target target = {}) {
  GraphBuilder graph("test");
  const bool is_narrow_sum = kind == Kind::kSum && type == ElementType::kBf16;
  const Tensor image =
      graph.parameter("image", hlo::array_shape(is_narrow_sum ? ElementType::kF32 : type, extents));
  std::vector<Tensor> parameters{image};
  Tensor result;
  if (kind == Kind::kGradient) {
    const Extents windows{extents[0], pool.windows(extents[1]), pool.windows(extents[2]),
                          extents[3]};
    parameters.push_back(graph.parameter("source", hlo::array_shape(type, windows)));
    result = graph.select_and_scatter(image, parameters[1], pool.window());
  } else {
    result = kind == Kind::kSum ? graph.reduce_window_sum(image, pool.window())
                                : graph.reduce_window_max(image, pool.window());
  }
  hlo::Module module = graph.finish(result, parameters);
  if (is_narrow_sum) make_narrow(module);
  assign_spatial_layouts(module);
  const hlo::Computation& entry = module.entry_computation();
  std::vector<Array> inputs;
  for (const hlo::HloInstruction& instruction : entry.instructions) {
    if (instruction.opcode != hlo::HloOpcode::kParameter) continue;
    inputs.push_back(
        random_array(instruction.shape, static_cast<std::uint32_t>(inputs.size() + 5), -7, -1));
    for (double& x : inputs.back().values) x = std::floor(4 * x) / 4;
  }
  const hlo::HloInstruction& root = entry.at(entry.root);
  const compiler::LoweredKernel lowered = compiler::lower_pooling(module, entry, root, target);
  const std::vector<Array> expected = NaiveEvaluation(module, inputs).run();
  KernelHarness::Result cost;
  for (DmaTiming timing : {DmaTiming::kAtOnce, DmaTiming::kLate}) {
    // The initial value is an operand without a buffer.
    std::vector<Array> operands = inputs;
    operands.push_back({hlo::array_shape(ElementType::kF32, {}), {0}});
    const auto found = run_kernel(lowered.kernel, operands, {root.shape}, timing, &cost);
    expect_close(expected[0], found[0], {0, 0}, "pooling");
  }
  return cost;
}

TEST(Pooling, MaximumOfWindowsThatTouch) {
  check(Kind::kMaximum, ElementType::kF32, {5, 8, 10, 6}, {2, 2, 0, 0});
  check(Kind::kMaximum, ElementType::kBf16, {5, 8, 10, 6}, {2, 2, 0, 0});
  check(Kind::kMaximum, ElementType::kF32, {40, 4, 4, 200}, {2, 2, 0, 0});
}

TEST(Pooling, MaximumOfOverlappingPaddedWindows) {
  check(Kind::kMaximum, ElementType::kF32, {9, 13, 13, 30}, {3, 2, 1, 1});
  check(Kind::kMaximum, ElementType::kBf16, {17, 12, 12, 64}, {3, 2, 0, 1});
  check(Kind::kMaximum, ElementType::kBf16, {4, 12, 12, 64}, {3, 2, 1, 1});
  check(Kind::kMaximum, ElementType::kF32, {3, 9, 9, 140}, {3, 1, 1, 1});
}

TEST(Pooling, MaximumWithGapsBetweenWindows) {
  check(Kind::kMaximum, ElementType::kF32, {3, 10, 10, 20}, {1, 2, 0, 0});
  check(Kind::kMaximum, ElementType::kF32, {3, 11, 11, 20}, {2, 3, 0, 0});
}

TEST(Pooling, SumOfWindows) {
  check(Kind::kSum, ElementType::kF32, {9, 12, 12, 30}, {2, 2, 0, 0});
  check(Kind::kSum, ElementType::kF32, {9, 13, 13, 30}, {3, 2, 1, 1});
  check(Kind::kSum, ElementType::kF32, {20, 7, 7, 130}, {7, 7, 0, 0});
}

/// As the gradient of a mean over overlapping windows has them: zeros between the pixels.
TEST(Pooling, WindowsOverGapsBetweenPixels) {
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    check(Kind::kSum, type, {5, 8, 10, 6}, {3, 1, 2, 2, 2});
    check(Kind::kMaximum, type, {9, 5, 4, 30}, {4, 2, 1, 3, 3});
    check(Kind::kSum, type, {20, 6, 6, 130}, {2, 3, 0, 1, 5, 2});
    check(Kind::kSum, type, {3, 1, 1, 20}, {2, 1, 1, 1, 2});
  }
}

/// Rows first or window by window, of whole and half registers a pixel, chunks, few and many rows
/// under way.
TEST(Pooling, RandomWindows) {
  std::mt19937 random(7);
  const auto between = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  int found = 0;
  while (found < 30) {
    const Pool pool{between(1, 10), between(1, 4), between(0, 3),
                    between(0, 3),  between(1, 3), between(1, 2)};
    const Extents extents{between(1, 20), between(1, 14), between(1, 14), between(1, 150)};
    if (pool.windows(extents[1]) < 1 || pool.windows(extents[2]) < 1) continue;
    ++found;
    compiler::Target target;
    if (between(0, 2) == 0) target.vmem_bytes = 6 << 20;
    if (between(0, 1) == 0) target.dma_latency_cycles = 0;
    SCOPED_TRACE(testing::Message() << found << ": " << extents[0] << "x" << extents[1] << "x"
                                    << extents[2] << "x" << extents[3]);
    const ElementType type = between(0, 1) == 0 ? ElementType::kF32 : ElementType::kBf16;
    check(between(0, 1) == 0 ? Kind::kSum : Kind::kMaximum, type, extents, pool, target);
  }
}

TEST(Pooling, GradientOfMaximum) {
  check(Kind::kGradient, ElementType::kF32, {5, 8, 10, 6}, {2, 2, 0, 0});
  check(Kind::kGradient, ElementType::kBf16, {5, 8, 10, 6}, {2, 2, 0, 0});
  check(Kind::kGradient, ElementType::kF32, {9, 13, 13, 30}, {3, 2, 1, 1});
  check(Kind::kGradient, ElementType::kF32, {9, 12, 12, 30}, {3, 2, 0, 1});
  check(Kind::kGradient, ElementType::kF32, {3, 9, 9, 140}, {3, 1, 1, 1});
  check(Kind::kGradient, ElementType::kF32, {3, 9, 9, 10}, {2, 2, 0, 0});
}

/// Rows of a window that are more than scalar registers, and a row longer than is read at once.
TEST(Pooling, LongWindows) {
  check(Kind::kSum, ElementType::kF32, {3, 20, 20, 30}, {14, 3, 1, 2});
  check(Kind::kSum, ElementType::kF32, {3, 10, 10, 20}, {9, 1, 4, 4});
  check(Kind::kMaximum, ElementType::kF32, {3, 30, 30, 10}, {28, 1, 0, 0});
  check(Kind::kMaximum, ElementType::kBf16, {5, 20, 20, 10}, {11, 9, 0, 0});
  check(Kind::kGradient, ElementType::kF32, {3, 20, 20, 30}, {14, 3, 1, 2});
  check(Kind::kGradient, ElementType::kBf16, {3, 10, 10, 20}, {9, 1, 4, 4});
}

/// A window's rows, their sums and the places of as many columns stand in scalar registers at
/// once; of one row more they are a loop.
TEST(Pooling, GradientsOfWindowsOfManyRowsFindRegisters) {
  for (const std::int64_t size : {6, 7, 8}) {
    for (const std::int64_t stride : {std::int64_t{1}, size}) {
      check(Kind::kGradient, ElementType::kF32, {3, 3 * size, 3 * size, 3}, {size, stride, 0, 0});
      check(Kind::kGradient, ElementType::kBf16, {3, 3 * size, 3 * size, 3}, {size, stride, 0, 0});
    }
  }
  const std::string functions =
      "HloModule p\nge {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = pred[] "
      "compare(a, b), direction=GE\n}\nf {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT c = f32[] add(a, b)\n}\n";
  check_hlo(functions +
            "ENTRY main {\n  x = f32[128,7,36,3] parameter(0)\n  s = f32[128,1,33,3] parameter(1)\n"
            "  z = f32[] constant(0)\n  ROOT r = f32[128,7,36,3] select-and-scatter(x, s, z), "
            "window={size=1x7x4x1 stride=1x7x1x1}, select=ge, scatter=f\n}\n");
}

TEST(Pooling, PixelsThatDoNotFitAreCutIntoChunks) {
  compiler::Target small;
  small.vmem_bytes = 640 << 10;
  check(Kind::kMaximum, ElementType::kF32, {17, 9, 9, 130}, {3, 2, 1, 1}, small);
  check(Kind::kGradient, ElementType::kBf16, {20, 8, 8, 130}, {3, 2, 0, 1}, small);
}

/// Whole compilation: maxima, sums and gradients of images whose batch stands in the lanes.
TEST(Pooling, OfFewFeaturesTheBatchFillsTheLanes) {
  const auto order = [](std::int64_t batch, std::int64_t features) {
    GraphBuilder graph("test");
    const Tensor image =
        graph.parameter("image", hlo::array_shape(ElementType::kF32, {batch, 8, 8, features}));
    const hlo::Module module =
        graph.finish(graph.reduce_window_max(image, Pool{}.window()), {image});
    const hlo::HloInstruction& pooling =
        module.entry_computation().at(module.entry_computation().root);
    return compiler::order_of_windows(pooling,
                                      module.entry_computation().at(pooling.operands[0]).shape,
                                      pooling.shape, compiler::Target().vmem_bytes);
  };
  const compiler::DimensionOrder features_in_lanes{1, 2, 0, 3}, batch_in_lanes{1, 2, 3, 0};
  // Tiles of 128 lanes and 8 rows: 128 by 128 are twice 64 by 128.
  EXPECT_EQ(order(128, 64), batch_in_lanes);
  EXPECT_EQ(order(128, 65), features_in_lanes);
  EXPECT_EQ(order(8, 6), features_in_lanes);
  EXPECT_EQ(order(9, 6), batch_in_lanes);
  // Beside one dimension of windows there are three that tiles may hold.
  GraphBuilder graph("test");
  const Tensor lines =
      graph.parameter("lines", hlo::array_shape(ElementType::kF32, {300, 16, 8, 10}));
  std::vector<hlo::WindowDimension> along(4);
  along[1].size = 2;
  const hlo::Module module = graph.finish(graph.reduce_window_max(lines, along), {lines});
  const hlo::Computation& entry = module.entry_computation();
  EXPECT_EQ(compiler::order_of_windows(entry.at(entry.root), entry.at(0).shape,
                                       entry.at(entry.root).shape, compiler::Target().vmem_bytes),
            (compiler::DimensionOrder{1, 3, 2, 0}));
  for (const char* operation : {"maximum", "add"}) {
    check_hlo(
        "HloModule p\nf {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = "
        "f32[] " +
        std::string(operation) +
        "(a, b)\n}\nENTRY main {\n  x = f32[150,9,10,3] parameter(0)\n  z = f32[] constant(" +
        (operation[0] == 'm' ? "-inf" : "0") +
        ")\n  ROOT r = f32[150,5,5,3] reduce-window(x, z), window={size=1x2x2x1 "
        "stride=1x2x2x1 pad=0_0x0_1x0_0x0_0}, to_apply=f\n}\n");
  }
}

/// A row of 1,000 columns does not fit VMEM with those that a window needs; a column of 8 rows
/// does.
TEST(Pooling, LongRowsStandInTheOtherDirection) {
  check_hlo(
      "HloModule p\nf {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] "
      "add(a, b)\n}\nENTRY main {\n  x = f32[1,8,17,1000] parameter(0)\n  z = f32[] constant(0)\n"
      "  ROOT r = f32[1,7,17,996] reduce-window(x, z), window={size=1x2x1x5}, to_apply=f\n}\n");
}

/// A window's two rows, the next one and a combined one, tiles of 4 KiB, leave room for 634 columns
/// and the windows' in 15 MiB; gaps take room as pixels do.
TEST(Pooling, RowsStandWhereTheyHaveRoom) {
  const auto first_of = [](std::int64_t columns, std::int64_t base) {
    GraphBuilder graph("test");
    const Tensor image =
        graph.parameter("image", hlo::array_shape(ElementType::kF32, {1, 8, 17, columns}));
    std::vector<hlo::WindowDimension> window(4);
    window[1].size = 2;
    window[3].size = 5;
    window[3].base_dilation = base;
    const hlo::Module module = graph.finish(graph.reduce_window_max(image, window), {image});
    const hlo::Computation& entry = module.entry_computation();
    const hlo::HloInstruction& pooling = entry.at(entry.root);
    return compiler::order_of_windows(pooling, entry.at(pooling.operands[0]).shape, pooling.shape,
                                      16 << 20)[0];
  };
  EXPECT_EQ(first_of(634, 1), 1);
  EXPECT_EQ(first_of(635, 1), 3);
  EXPECT_EQ(first_of(317, 2), 1);
  EXPECT_EQ(first_of(318, 2), 3);
}

TEST(Pooling, WindowOverChannelsIsRefused) {
  GraphBuilder graph("test");
  const Tensor image = graph.parameter("image", hlo::array_shape(ElementType::kF32, {2, 4, 4, 8}));
  std::vector<hlo::WindowDimension> window(4);
  window[3].size = 2;
  const Tensor result = graph.reduce_window_max(image, window);
  hlo::Module module = graph.finish(result, {image});
  assign_spatial_layouts(module);
  const hlo::Computation& entry = module.entry_computation();
  EXPECT_THROW(compiler::lower_pooling(module, entry, entry.at(entry.root), {}), WorkloadError);
}

TEST(Pooling, TheGradientOfMaximaOverGapsIsRefused) {
  EXPECT_THROW(check(Kind::kGradient, ElementType::kF32, {5, 8, 10, 6}, {3, 1, 2, 2, 2}),
               WorkloadError);
}

}  // namespace
}  // namespace tpu::test::pooling_test
