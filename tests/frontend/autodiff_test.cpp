#include "workloads/frontend/autodiff.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/frontend/gradient_check.h"

namespace tpu::frontend::autodiff_test {
namespace {

using hlo::ElementType;
using hlo::HloOpcode;

std::int64_t count_of(const hlo::Module& module, HloOpcode opcode) {
  std::int64_t count = 0;
  for (const hlo::HloInstruction& instruction : module.entry_computation().instructions) {
    if (instruction.opcode == opcode) ++count;
  }
  return count;
}

TEST(Autodiff, UnaryOperations) {
  const std::vector<std::pair<HloOpcode, CheckedInput>> cases = {
      {HloOpcode::kNegate, {{3, 4}}},       {HloOpcode::kAbs, {{3, 4}, 0.2, 1}},
      {HloOpcode::kExponential, {{3, 4}}},  {HloOpcode::kExponentialMinusOne, {{3, 4}}},
      {HloOpcode::kLog, {{3, 4}, 0.5, 2}},  {HloOpcode::kLogPlusOne, {{3, 4}, 0.5, 2}},
      {HloOpcode::kSqrt, {{3, 4}, 0.5, 2}}, {HloOpcode::kRsqrt, {{3, 4}, 0.5, 2}},
      {HloOpcode::kTanh, {{3, 4}}},         {HloOpcode::kLogistic, {{3, 4}}},
      {HloOpcode::kSine, {{3, 4}}},         {HloOpcode::kCosine, {{3, 4}}},
      {HloOpcode::kErf, {{3, 4}}}};
  for (const auto& each : cases) {
    SCOPED_TRACE(hlo::to_string(each.first));
    check_gradient({each.second}, [&](GraphBuilder& graph, const std::vector<Tensor>& x) {
      return graph.unary(each.first, x[0]);
    });
  }
}

TEST(Autodiff, BinaryOperations) {
  for (HloOpcode opcode :
       {HloOpcode::kAdd, HloOpcode::kSubtract, HloOpcode::kMultiply, HloOpcode::kDivide,
        HloOpcode::kMaximum, HloOpcode::kMinimum, HloOpcode::kPower}) {
    SCOPED_TRACE(hlo::to_string(opcode));
    // The first operand is the smaller one in row 0, the greater one in row 1, and never near.
    check_gradient({{{2, 5}, 0.5, 2}, {{2, 5}, 2.1, 3}},
                   [&](GraphBuilder& graph, const std::vector<Tensor>& x) {
                     const Tensor row = graph.iota(ElementType::kF32, {2, 5}, 0);
                     return graph.binary(opcode, graph.add(x[0], graph.scale(row, 3)), x[1]);
                   });
  }
}

TEST(Autodiff, SquareAndSelectAndScaledBroadcast) {
  check_gradient({{{4, 3}}, {{3}}}, [](GraphBuilder& graph, const std::vector<Tensor>& x) {
    const Tensor wide = graph.scale(graph.broadcast(x[1], {4, 3}, {1}), 3);
    const Tensor chosen =
        graph.compare(graph.iota(ElementType::kS32, {4, 3}, 0),
                      graph.splat(ElementType::kS32, {4, 3}, 2), hlo::ComparisonDirection::kLt);
    return graph.select(chosen, graph.multiply(x[0], x[0]), graph.multiply(wide, x[0]));
  });
}

TEST(Autodiff, ShapesAndOrders) {
  check_gradient({{{2, 3, 4}}}, [](GraphBuilder& graph, const std::vector<Tensor>& x) {
    const Tensor turned = graph.transpose(x[0], {2, 0, 1});
    return graph.reverse(graph.reshape(turned, {8, 3}), {0});
  });
  check_gradient({{{6, 5}}}, [](GraphBuilder& graph, const std::vector<Tensor>& x) {
    return graph.slice(x[0], {1, 0}, {6, 5}, {2, 3});
  });
  check_gradient({{{4, 5}}}, [](GraphBuilder& graph, const std::vector<Tensor>& x) {
    return graph.pad(x[0], {{2, -1, 1}, {-1, 3, 2}}, 0.5);
  });
}

TEST(Autodiff, SlicesThatCoverATensorBecomeOneConcatenation) {
  const auto thirds = [](GraphBuilder& graph, const std::vector<Tensor>& x) {
    std::vector<Tensor> parts;
    for (std::int64_t i : {2, 0, 1}) {
      parts.push_back(graph.slice(x[0], {0, 2 * i}, {3, 2 * i + 2}));
    }
    return graph.multiply(graph.add(parts[0], parts[1]), parts[2]);
  };
  check_gradient({{{3, 6}}}, thirds);
  GraphBuilder graph("slices");
  const Tensor x = graph.parameter("x", hlo::array_shape(ElementType::kF32, {3, 6}));
  const Tensor y = thirds(graph, {x});
  const Tensor g = vector_jacobian_product(graph, y, graph.splat_like(y, 1), {x})[0];
  const hlo::Module module = graph.finish(g, {x});
  EXPECT_EQ(count_of(module, HloOpcode::kConcatenate), 1);
  EXPECT_EQ(count_of(module, HloOpcode::kPad), 0);
}

TEST(Autodiff, SlicesThatOverlapOrLeaveGapsAreAdded) {
  check_gradient({{{3, 6}}}, [](GraphBuilder& graph, const std::vector<Tensor>& x) {
    return graph.multiply(graph.slice(x[0], {0, 0}, {3, 4}), graph.slice(x[0], {0, 1}, {3, 5}));
  });
}

TEST(Autodiff, Reductions) {
  check_gradient({{{3, 4, 5}}}, [](GraphBuilder& graph, const std::vector<Tensor>& x) {
    return graph.reduce_sum(graph.multiply(x[0], x[0]), {0, 2});
  });
  check_gradient({{{3, 7}, -10, 10}}, [](GraphBuilder& graph, const std::vector<Tensor>& x) {
    return graph.reduce_max(x[0], {1});
  });
}

hlo::WindowDimension window(std::int64_t size, std::int64_t stride, std::int64_t low,
                            std::int64_t high, std::int64_t base = 1, std::int64_t dilation = 1) {
  hlo::WindowDimension w;
  w.size = size;
  w.stride = stride;
  w.padding_low = low;
  w.padding_high = high;
  w.base_dilation = base;
  w.window_dilation = dilation;
  return w;
}

TEST(Autodiff, ReduceWindows) {
  const hlo::WindowDimension one;
  check_gradient({{{2, 7, 6, 3}}}, [&](GraphBuilder& graph, const std::vector<Tensor>& x) {
    return graph.reduce_window_sum(x[0], {one, window(3, 2, 1, 1), window(2, 2, 0, 0), one});
  });
  check_gradient({{{2, 7, 6, 3}, -10, 10}}, [&](GraphBuilder& graph, const std::vector<Tensor>& x) {
    return graph.reduce_window_max(x[0], {one, window(3, 2, 1, 1), window(2, 2, 0, 0), one});
  });
}

TEST(Autodiff, DotOverAllArrangementsOfDimensions) {
  struct Case {
    Extents lhs, rhs;
    hlo::DotDimensions dims;
  };
  const std::vector<Case> cases = {
      {{4, 3}, {3, 5}, {{}, {}, {1}, {0}}},
      {{3, 4}, {3, 5}, {{}, {}, {0}, {0}}},
      {{4, 3}, {5, 3}, {{}, {}, {1}, {1}}},
      {{3, 4}, {5, 3}, {{}, {}, {0}, {1}}},
      {{2, 4, 3}, {2, 5, 3}, {{0}, {0}, {2}, {2}}},
      {{2, 4, 3}, {2, 3, 5}, {{0}, {0}, {2}, {1}}},
      {{4, 2, 3}, {3, 5, 2}, {{1}, {2}, {2}, {0}}},
      {{2, 3, 4}, {4, 5, 3}, {{}, {}, {2, 1}, {0, 2}}},
      {{2, 3, 4}, {3, 4, 5}, {{}, {}, {1, 2}, {0, 1}}},
      {{3}, {3}, {{}, {}, {0}, {0}}},
      {{2, 3}, {4}, {{}, {}, {}, {}}},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(testing::PrintToString(each.lhs) + testing::PrintToString(each.rhs));
    check_gradient({{each.lhs}, {each.rhs}},
                   [&](GraphBuilder& graph, const std::vector<Tensor>& x) {
                     return graph.dot(x[0], x[1], each.dims, ElementType::kF32);
                   });
  }
}

TEST(Autodiff, DenseLayersNeedNoTranspose) {
  GraphBuilder graph("dense");
  const Tensor x = graph.parameter("x", hlo::array_shape(ElementType::kF32, {4, 3}));
  const Tensor w = graph.parameter("w", hlo::array_shape(ElementType::kF32, {3, 5}));
  const Tensor y = graph.matmul(x, w);
  const std::vector<Tensor> g = vector_jacobian_product(graph, y, graph.splat_like(y, 1), {x, w});
  const hlo::Module module = graph.finish(graph.tuple(g), {x, w});
  EXPECT_EQ(count_of(module, HloOpcode::kTranspose), 0);
  EXPECT_EQ(count_of(module, HloOpcode::kDot), 2);
}

TEST(Autodiff, ConvolutionsOfEveryWindow) {
  struct Case {
    Extents input, kernel;
    std::vector<hlo::WindowDimension> window;
    std::int64_t groups = 1;
  };
  const std::vector<Case> cases = {
      {{2, 5, 6, 3}, {3, 3, 3, 4}, {window(3, 1, 1, 1), window(3, 1, 1, 1)}},
      {{2, 7, 6, 3}, {3, 3, 3, 4}, {window(3, 2, 1, 1), window(3, 2, 0, 1)}},
      {{2, 6, 6, 3}, {1, 1, 3, 4}, {window(1, 2, 0, 0), window(1, 2, 0, 0)}},
      {{2, 8, 9, 2}, {2, 3, 2, 3}, {window(2, 3, 2, 1), window(3, 1, 0, 2)}},
      {{2, 5, 5, 2}, {3, 2, 2, 3}, {window(3, 1, 2, 2, 2, 1), window(2, 1, 0, 0, 1, 2)}},
      {{2, 6, 5, 4}, {3, 3, 2, 6}, {window(3, 2, 1, 1), window(3, 1, 1, 1)}, 2},
      {{2, 6, 5, 4}, {3, 3, 1, 8}, {window(3, 1, 1, 1), window(3, 1, 1, 1)}, 4},
      {{2, 8, 8, 3}, {4, 4, 3, 5}, {window(4, 1, 2, 1), window(4, 1, 2, 1)}},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(testing::PrintToString(each.kernel));
    check_gradient(
        {{each.input}, {each.kernel}}, [&](GraphBuilder& graph, const std::vector<Tensor>& x) {
          return graph.convolution(x[0], x[1], nhwc_dimensions(), each.window, each.groups);
        });
  }
}

TEST(Autodiff, AReversedConvolution) {
  std::vector<hlo::WindowDimension> reversed = {window(3, 2, 1, 1), window(2, 1, 0, 1)};
  for (hlo::WindowDimension& w : reversed) w.reversal = true;
  check_gradient({{{2, 7, 6, 3}}, {{3, 2, 3, 4}}},
                 [&](GraphBuilder& graph, const std::vector<Tensor>& x) {
                   return graph.convolution(x[0], x[1], nhwc_dimensions(), reversed);
                 });
}

/// The text that JAX's own gradients have (bf16 ResNet-50, stage 2's first 3x3 convolution of
/// stride 2 on 56x56 images, padding 0_1).
TEST(Autodiff, ConvolutionGradientsHaveTheFormThatJaxEmits) {
  GraphBuilder graph("jax");
  const Tensor x = graph.parameter("x", hlo::array_shape(ElementType::kF32, {8, 56, 56, 128}));
  const Tensor w = graph.parameter("w", hlo::array_shape(ElementType::kF32, {3, 3, 128, 128}));
  const Tensor y =
      graph.convolution(x, w, nhwc_dimensions(), {window(3, 2, 0, 1), window(3, 2, 0, 1)});
  const std::vector<Tensor> g = vector_jacobian_product(graph, y, graph.splat_like(y, 1), {x, w});
  const std::string text = to_string(graph.finish(graph.tuple(g), {x, w}));
  EXPECT_NE(text.find("window={size=3x3 pad=2_1x2_1 lhs_dilate=2x2 rhs_reversal=1x1}, "
                      "dim_labels=b01f_01oi->b01f"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("window={size=28x28 pad=0_1x0_1 rhs_dilate=2x2}, "
                      "dim_labels=f01b_i01o->01bf"),
            std::string::npos)
      << text;
}

TEST(Autodiff, GatherSendsItsGradientToTheRowsItRead) {
  GraphBuilder graph("gather");
  const Tensor table = graph.parameter("table", hlo::array_shape(ElementType::kF32, {4, 2}));
  const Tensor rows = graph.parameter("rows", hlo::array_shape(ElementType::kS32, {3}));
  hlo::GatherDimensions dims;
  dims.offset_dims = {1};
  dims.collapsed_slice_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  dims.slice_sizes = {1, 2};
  const Tensor y = graph.gather(table, rows, dims);
  const Tensor seed = graph.parameter("seed", graph.shape(y));
  const Tensor g = vector_jacobian_product(graph, y, seed, {table})[0];
  const hlo::Module module = graph.finish(g, {table, rows, seed});
  reference::Value indices = reference::make_value(hlo::array_shape(ElementType::kS32, {3}));
  indices.integers = {2, 0, 2};
  reference::Value seeds = reference::make_value(hlo::array_shape(ElementType::kF32, {3, 2}));
  seeds.numbers = {1, 2, 4, 8, 16, 32};
  const reference::Value zeros = reference::make_value(hlo::array_shape(ElementType::kF32, {4, 2}));
  EXPECT_EQ(reference::Interpreter(module).run({zeros, indices, seeds}).numbers,
            (std::vector<float>{4, 8, 0, 0, 17, 34, 0, 0}));
}

TEST(Autodiff, ATensorUsedTwiceGetsOneSum) {
  check_gradient({{{3, 3}}}, [](GraphBuilder& graph, const std::vector<Tensor>& x) {
    return graph.add(graph.matmul(x[0], x[0]), graph.unary(HloOpcode::kTanh, x[0]));
  });
  GraphBuilder graph("twice");
  const Tensor x = graph.parameter("x", hlo::array_shape(ElementType::kF32, {}));
  const Tensor y = graph.add(graph.multiply(x, graph.constant(ElementType::kF32, 3)), x);
  const std::vector<Tensor> g = gradients(graph, y, {x, x});
  EXPECT_EQ(g[0].id, g[1].id);
  const hlo::Module module = graph.finish(g[0], {x});
  reference::Value at = reference::make_value(hlo::array_shape(ElementType::kF32, {}));
  EXPECT_EQ(reference::Interpreter(module).run({at}).numbers[0], 4.0f);
}

TEST(Autodiff, ATensorThatTheLossDoesNotNeedGetsZeros) {
  GraphBuilder graph("none");
  const Tensor x = graph.parameter("x", hlo::array_shape(ElementType::kF32, {2}));
  const Tensor unused = graph.parameter("unused", hlo::array_shape(ElementType::kF32, {3}));
  const Tensor y = graph.reduce_sum(x, {0});
  const Tensor g = gradients(graph, y, {unused})[0];
  const hlo::Module module = graph.finish(g, {x, unused});
  const reference::Value result = reference::Interpreter(module).run(
      {reference::make_value(hlo::array_shape(ElementType::kF32, {2})),
       reference::make_value(hlo::array_shape(ElementType::kF32, {3}))});
  EXPECT_EQ(result.numbers, (std::vector<float>{0, 0, 0}));
}

TEST(Autodiff, NothingPassesAStoppedGradient) {
  GraphBuilder graph("stop");
  const Tensor x = graph.parameter("x", hlo::array_shape(ElementType::kF32, {}));
  const Tensor y = graph.multiply(graph.stop_gradient(graph.unary(HloOpcode::kExponential, x)), x);
  const Tensor g = gradients(graph, y, {x})[0];
  const hlo::Module module = graph.finish(g, {x});
  reference::Value at = reference::make_value(hlo::array_shape(ElementType::kF32, {}));
  at.numbers = {1};
  EXPECT_FLOAT_EQ(reference::Interpreter(module).run({at}).numbers[0], std::exp(1.0f));
}

TEST(Autodiff, GradientsAreNamedAfterTheirForwardPass) {
  GraphBuilder graph("net");
  const Tensor x = graph.parameter("x", hlo::array_shape(ElementType::kF32, {2}));
  Tensor y;
  {
    GraphBuilder::Scope scope(graph, "block");
    y = graph.reduce_sum(graph.unary(HloOpcode::kTanh, x), {0});
  }
  const Tensor g = gradients(graph, y, {x})[0];
  EXPECT_EQ(graph.entry().at(g.id).metadata.op_name.get(), "transpose(net)/block/multiply");
  EXPECT_EQ(graph.scope(), "net");
}

TEST(Autodiff, AnOperationWithoutAGradientIsNamed) {
  GraphBuilder graph("net");
  const Tensor x = graph.parameter("x", hlo::array_shape(ElementType::kF32, {}));
  const Tensor y = graph.unary(HloOpcode::kTan, x);
  try {
    gradients(graph, y, {x});
    FAIL();
  } catch (const WorkloadError& error) {
    EXPECT_STREQ(error.what(),
                 "net/tan: expected an operation with a gradient, found tan; express it with "
                 "others or stop the gradient before it");
  }
}

}  // namespace
}  // namespace tpu::frontend::autodiff_test
