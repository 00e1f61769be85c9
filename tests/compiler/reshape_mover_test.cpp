#include "workloads/compiler/passes/simplify/reshape_mover.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/compiler/pass_check.h"
#include "workloads/frontend/graph_builder.h"

namespace tpu::test::reshape_mover_test {
namespace {

using frontend::Extents;
using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::array_shape;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Module;

constexpr std::int64_t kBatch = 3, kRows = 10, kHeads = 4, kSize = 8;

/// Extents of what elementwise operations work on.
std::set<Extents> worked_on(const Module& module) {
  std::set<Extents> extents;
  for (const HloInstruction& each : module.entry_computation().instructions) {
    if (hlo::is_elementwise(each.opcode) && each.shape.rank() > 2) {
      extents.insert(each.shape.dimensions);
    }
  }
  return extents;
}

/// A product's features in heads: bias of each, a scale of each head, one of each feature of a
/// head, one of each row.
Module heads(bool is_read_twice) {
  GraphBuilder graph("heads");
  const Extents split{kBatch, kRows, kHeads, kSize};
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {kBatch, kRows, 16}));
  const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {16, kHeads * kSize}));
  const Tensor bias = graph.parameter("bias", array_shape(ElementType::kF32, {kHeads, kSize}));
  const Tensor head = graph.parameter("head", array_shape(ElementType::kF32, {kHeads}));
  const Tensor feature = graph.parameter("feature", array_shape(ElementType::kF32, {kSize}));
  const Tensor row = graph.parameter("row", array_shape(ElementType::kF32, {kRows}));
  const Tensor product = graph.dot(x, w, {{}, {}, {2}, {0}}, ElementType::kF32);
  Tensor value = graph.reshape(product, split);
  value = graph.add(value, graph.broadcast(bias, split, {2, 3}));
  value = graph.multiply(value, graph.broadcast(head, split, {2}));
  value = graph.subtract(value, graph.broadcast(feature, split, {3}));
  value = graph.add(graph.scale(value, 0.5), graph.broadcast(row, split, {1}));
  const Tensor turned = graph.transpose(value, {0, 2, 1, 3});
  const Tensor other =
      is_read_twice ? graph.reduce_sum(product, {0}) : graph.reduce_sum(value, {0});
  return graph.finish(graph.tuple({turned, other}), {x, w, bias, head, feature, row});
}

/// Over an image, with its features behind its two spatial dimensions.
Tensor convolve(GraphBuilder& graph, Tensor x, Tensor w, std::int64_t groups = 1) {
  hlo::ConvolutionDimensions dims;
  dims.input_batch = dims.output_batch = 0;
  dims.input_feature = dims.output_feature = dims.kernel_output_feature = 3;
  dims.kernel_input_feature = 2;
  dims.input_spatial = dims.output_spatial = {1, 2};
  dims.kernel_spatial = {0, 1};
  return graph.convolution(x, w, dims, std::vector<hlo::WindowDimension>(2), groups);
}

Module passed(Module module) {
  return simplified_around(std::move(module), compiler::move_reshapes);
}

TEST(ReshapeMover, OperationsOnHeadsAreDoneOnTheProduct) {
  EXPECT_EQ(worked_on(passed(heads(false))), (std::set<Extents>{{kBatch, kRows, kHeads * kSize}}));
}

TEST(ReshapeMover, ValuesStayTheSame) {
  expect_values_kept(case_of(heads(false), 3), compiler::move_reshapes);
}

TEST(ReshapeMover, AProductThatIsReadAsItIsKeepsItsReshape) {
  EXPECT_EQ(worked_on(passed(heads(true))), (std::set<Extents>{{kBatch, kRows, kHeads, kSize}}));
}

/// An array in heads that comes from elsewhere, and rows joined by the reshape: nothing moves.
TEST(ReshapeMover, OtherArraysAndJoinedDimensionsStay) {
  for (const bool joins : {false, true}) {
    SCOPED_TRACE(joins);
    GraphBuilder graph("stays");
    const Extents extents =
        joins ? Extents{kBatch * kRows, kHeads * kSize} : Extents{kBatch, kRows, kHeads, kSize};
    const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {kBatch, kRows, 16}));
    const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {16, kHeads * kSize}));
    const Tensor other = graph.parameter("other", array_shape(ElementType::kF32, extents));
    const Tensor product = graph.dot(x, w, {{}, {}, {2}, {0}}, ElementType::kF32);
    const Tensor value = graph.reshape(product, extents);
    const Tensor result = joins ? graph.scale(value, 2) : graph.add(value, other);
    Module module = graph.finish(graph.tuple({result, other}), {x, w, other});
    compiler::simplify(module);
    const std::string before = hlo::to_string(module);
    EXPECT_EQ(hlo::to_string(passed(std::move(module))), before);
  }
}

/// A convolution over a line, as an image of one column: bias, another array and what follows.
/// Kernels of depthwise ones take no operations.
TEST(ReshapeMover, OperationsOnALineAreDoneOnItsImage) {
  for (const std::int64_t groups : {1, 8}) {
    SCOPED_TRACE(groups);
    GraphBuilder graph("line");
    const Extents line{3, 10, 8}, image{3, 10, 1, 8};
    const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, image));
    const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {1, 1, 8 / groups, 8}));
    const Tensor bias = graph.parameter("bias", array_shape(ElementType::kF32, {8}));
    const Tensor other = graph.parameter("other", array_shape(ElementType::kF32, line));
    const Tensor product = convolve(graph, x, w, groups);
    Tensor value = graph.reshape(product, line);
    value = graph.add(value, graph.broadcast(bias, line, {2}));
    value = graph.scale(graph.add(value, other), 0.5);
    const Module module = graph.finish(graph.tuple({value}), {x, w, bias, other});
    EXPECT_EQ(worked_on(passed(module)), (std::set<Extents>{groups == 1 ? image : line}));
    expect_values_kept(case_of(module, 5), compiler::move_reshapes);
  }
}

/// A moment of an optimiser, decayed, joins what a convolution makes: it is decayed on the image,
/// too, unless others read it.
TEST(ReshapeMover, WhatJoinsTheProductIsMadeOnItsImage) {
  for (const bool is_read_twice : {false, true}) {
    SCOPED_TRACE(is_read_twice);
    GraphBuilder graph("moment");
    const Extents line{3, 10, 8}, image{3, 10, 1, 8};
    const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, image));
    const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {1, 1, 8, 8}));
    const Tensor moment = graph.parameter("moment", array_shape(ElementType::kF32, line));
    const Tensor decayed = graph.scale(graph.scale(moment, 0.9), 3);
    const Tensor sum = graph.add(graph.reshape(convolve(graph, x, w), line), decayed);
    std::vector<Tensor> results{sum};
    if (is_read_twice) results.push_back(decayed);
    const Module module = graph.finish(graph.tuple(results), {x, w, moment});
    const Module after = passed(module);
    std::size_t on_lines = 0, on_images = 0;
    for (const HloInstruction& each : after.entry_computation().instructions) {
      if (!hlo::is_elementwise(each.opcode)) continue;
      on_lines += each.shape.dimensions == line;
      on_images += each.shape.dimensions == image;
    }
    EXPECT_EQ(on_lines, is_read_twice ? 2U : 0U);
    EXPECT_EQ(on_images, is_read_twice ? 1U : 3U);
    expect_values_kept(case_of(module, 5), compiler::move_reshapes);
  }
}

/// Lines of two convolutions, of which one is an image of one column and the other one of one row:
/// what takes both is done on one of them.
TEST(ReshapeMover, LinesOfARowAndOfAColumnMeetOnOneOfThem) {
  GraphBuilder graph("lines");
  const Extents line{3, 10, 8}, column{3, 10, 1, 8}, row{3, 1, 10, 8};
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, column));
  const Tensor y = graph.parameter("y", array_shape(ElementType::kF32, row));
  const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {1, 1, 8, 8}));
  const Tensor one = graph.reshape(convolve(graph, x, w), line);
  const Tensor other = graph.reshape(convolve(graph, y, w), line);
  const Tensor sum = graph.scale(graph.add(one, other), 0.5);
  const Module module = graph.finish(graph.tuple({sum}), {x, y, w});
  EXPECT_EQ(worked_on(passed(module)), (std::set<Extents>{column}));
  expect_values_kept(case_of(module, 5), compiler::move_reshapes);
}

/// A line behind a convolution that joins a dot: on its way to another dot it stays a line, on its
/// way to a convolution it becomes an image.
TEST(ReshapeMover, ALineThatJoinsADotIsAnImageWhereAConvolutionReadsIt) {
  for (const bool to_convolution : {false, true}) {
    SCOPED_TRACE(to_convolution);
    GraphBuilder graph("stream");
    const Extents line{3, 10, 8}, image{3, 10, 1, 8};
    const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, image));
    const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {1, 1, 8, 8}));
    const Tensor y = graph.parameter("y", array_shape(ElementType::kF32, {3, 10, 16}));
    const Tensor v = graph.parameter("v", array_shape(ElementType::kF32, {16, 8}));
    const Tensor u = graph.parameter("u", array_shape(ElementType::kF32, {8, 8}));
    const Tensor joined = graph.dot(y, v, {{}, {}, {2}, {0}}, ElementType::kF32);
    Tensor value = graph.scale(graph.reshape(convolve(graph, x, w), line), 3);
    value = graph.scale(graph.add(value, graph.scale(joined, 2)), 0.5);
    value = to_convolution ? convolve(graph, graph.reshape(value, image), w)
                           : graph.dot(value, u, {{}, {}, {2}, {0}}, ElementType::kF32);
    const Module module = graph.finish(graph.tuple({value}), {x, w, y, v, u});
    const std::set<Extents> extents = worked_on(passed(module));
    EXPECT_EQ(extents.count(image), 1U);  // What stands behind the convolution alone.
    EXPECT_EQ(extents.count(line), 1U);   // And behind the dot.
    std::size_t on_images = 0;
    const Module after = passed(module);
    for (const HloInstruction& each : after.entry_computation().instructions) {
      on_images += hlo::is_elementwise(each.opcode) && each.shape.dimensions == image;
    }
    EXPECT_EQ(on_images, to_convolution ? 3U : 1U);
    expect_values_kept(case_of(module, 5), compiler::move_reshapes);
  }
}

/// A convolution of strips of images, which are whole images behind it: a bias, a scale of each
/// image where there are several, and maxima.
Module strips(std::int64_t images, const Extents& summed, std::int64_t groups = 1) {
  GraphBuilder graph("strips");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {8, 3, 5, 16}));
  const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {1, 1, 16 / groups, 16}));
  const Tensor bias = graph.parameter("bias", array_shape(ElementType::kF32, {16}));
  const std::int64_t rows = 8 / images * 3;
  const Extents whole = images == 1 ? Extents{rows, 5, 16} : Extents{images, rows, 5, 16};
  const Tensor image = graph.reshape(convolve(graph, x, w, groups), whole);
  const auto features = static_cast<std::int64_t>(whole.size()) - 1;
  Tensor value = graph.add(image, graph.broadcast(bias, whole, {features}));
  if (images == 1) {
    return graph.finish(graph.tuple({value, graph.reduce_max(value, summed)}), {x, w, bias});
  }
  const Tensor scale = graph.parameter("scale", array_shape(ElementType::kF32, {images, 16}));
  value = graph.multiply(value, graph.broadcast(scale, whole, {0, features}));
  return graph.finish(graph.tuple({value, graph.reduce_max(value, summed)}), {x, w, bias, scale});
}

TEST(ReshapeMover, OperationsOnImagesAreDoneOnTheirStrips) {
  struct Case {
    std::int64_t images;
    Extents summed;
    bool in_strips;
    std::int64_t groups = 1;
  };
  for (const Case& each :
       {Case{1, {0, 1}, true}, Case{1, {0, 1}, true, 16}, Case{2, {0, 1, 2}, true, 16},
        Case{1, {1}, true}, Case{2, {0, 1, 2}, true}, Case{2, {1, 2}, true}, Case{2, {0}, false},
        Case{2, {2, 3}, true}, Case{4, {3}, true}}) {
    const Module module = strips(each.images, each.summed, each.groups);
    const Module after = passed(module);
    SCOPED_TRACE(to_string(after));
    const std::int64_t rows = 8 / each.images * 3;
    EXPECT_EQ(worked_on(after).count({8, 3, 5, 16}), 1U);
    EXPECT_EQ(worked_on(after).count({each.images, rows, 5, 16}), 0U);
    EXPECT_EQ(worked_on(after).count({rows, 5, 16}), 0U);
    bool in_strips = false;
    for (const HloInstruction& sum : after.entry_computation().instructions) {
      if (sum.opcode != HloOpcode::kReduce) continue;
      const Extents of = after.entry_computation().at(sum.operands[0]).shape.dimensions;
      in_strips |= of == (Extents{8, 3, 5, 16});
    }
    EXPECT_EQ(in_strips, each.in_strips);
    expect_values_kept(case_of(module, 3), compiler::move_reshapes);
  }
}

/// Pixels that become one dimension are no strips.
TEST(ReshapeMover, PixelsOfAnImageInALineStay) {
  GraphBuilder graph("tokens");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {8, 3, 5, 16}));
  const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {1, 1, 16, 16}));
  const Tensor tokens = graph.reshape(convolve(graph, x, w), {8, 15, 16});
  const Module module = graph.finish(graph.scale(tokens, 0.5), {x, w});
  EXPECT_EQ(worked_on(passed(module)), (std::set<Extents>{{8, 15, 16}}));
}

/// A number of each image as a vector: its mask goes where what it selects goes.
TEST(ReshapeMover, AMaskOfAVectorIsMadeOnTheProduct) {
  GraphBuilder graph("masked");
  const Extents vector{3};
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {3, 1, 1, 8}));
  const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {1, 1, 8, 1}));
  const Tensor value = graph.reshape(convolve(graph, x, w), vector);
  const Tensor least = graph.broadcast(graph.constant(ElementType::kF32, 0.25), vector, {});
  const Tensor mask = graph.compare(value, least, hlo::ComparisonDirection::kGt);
  const Tensor kept = graph.select(mask, value, least);
  const Module module = graph.finish(graph.tuple({kept}), {x, w});
  const Module after = passed(module);
  std::size_t on_products = 0, on_vectors = 0;
  for (const HloInstruction& each : after.entry_computation().instructions) {
    if (!hlo::is_elementwise(each.opcode)) continue;
    on_products += each.shape.dimensions == Extents{3, 1, 1, 1};
    on_vectors += each.shape.dimensions == vector;
  }
  EXPECT_EQ(on_products, 2U);
  EXPECT_EQ(on_vectors, 0U);
  expect_values_kept(case_of(module, 5), compiler::move_reshapes);
}

/// 2^64 ways from the last square to the parameter, none from a dot; the squares join the product,
/// or others read them.
TEST(ReshapeMover, AValueWithManyWaysIsWalkedOnce) {
  for (const bool is_read_twice : {false, true}) {
    GraphBuilder graph("squares");
    const Extents line{3, 10, 8}, image{3, 10, 1, 8};
    const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, image));
    const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {1, 1, 8, 8}));
    const Tensor y = graph.parameter("y", array_shape(ElementType::kF32, line));
    Tensor square = y;
    for (int i = 0; i < 64; ++i) square = graph.multiply(square, square);
    const Tensor made = convolve(graph, x, w);
    const Tensor value = graph.add(graph.reshape(made, line), square);
    std::vector<Tensor> results{value};
    if (is_read_twice) results.push_back(square);
    const Module module = graph.finish(graph.tuple(results), {x, w, y});
    EXPECT_EQ(worked_on(passed(module)).count(is_read_twice ? line : image), 1U);
  }
}

}  // namespace
}  // namespace tpu::test::reshape_mover_test
