#include "workloads/compiler/passes/simplify/split_lanes.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/compiler/pass_check.h"
#include "workloads/frontend/graph_builder.h"

namespace tpu::test::split_lanes_test {
namespace {

using frontend::Extents;
using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::array_shape;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Module;

constexpr std::int64_t kBatch = 4, kRows = 6, kGroups = 8, kSize = 5;

/// Images less the mean of their group of features, by its deviation.
Module group_norm() {
  GraphBuilder graph("group_norm");
  const Extents whole{kBatch, kRows, kRows, kGroups * kSize};
  const Extents split{kBatch, kRows, kRows, kGroups, kSize};
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, whole));
  const Tensor bias = graph.parameter("bias", array_shape(ElementType::kF32, {kGroups, kSize}));
  const Tensor scale = graph.parameter("scale", array_shape(ElementType::kF32, {kSize}));
  const Tensor groups = graph.reshape(x, split);
  const double count = kRows * kRows * kSize;
  const auto mean = [&](Tensor values) {
    const Tensor sum = graph.scale(graph.reduce_sum(values, {1, 2, 4}), 1 / count);
    return graph.broadcast(sum, split, {0, 3});
  };
  const Tensor centred = graph.subtract(groups, mean(groups));
  const Tensor variance = mean(graph.multiply(centred, centred));
  const Tensor normal =
      graph.multiply(centred, graph.unary(HloOpcode::kRsqrt, graph.offset(variance, 1e-3)));
  const Tensor scaled = graph.multiply(normal, graph.broadcast(scale, split, {4}));
  const Tensor result =
      graph.reshape(graph.add(scaled, graph.broadcast(bias, split, {3, 4})), whole);
  const Tensor largest = graph.reduce_max(scaled, {0, 1, 3});
  const Tensor sums = graph.reduce_sum(scaled, {0, 1, 2});
  const Tensor totals = graph.reduce_sum(scaled, {1, 3, 4});
  return graph.finish(graph.tuple({result, largest, sums, totals}), {x, bias, scale});
}

/// The greatest number of elements of an array with the groups as a dimension.
std::int64_t largest_split(const Module& module) {
  std::int64_t largest = 0;
  for (const HloInstruction& each : module.entry_computation().instructions) {
    if (each.shape.is_tuple() || each.shape.rank() < 2 || each.shape.dimensions.back() != kSize) {
      continue;
    }
    largest = std::max(largest, each.shape.element_count());
  }
  return largest;
}

Module passed(Module module) {
  return simplified_around(std::move(module), compiler::join_split_lanes);
}

TEST(SplitLanes, AGroupNormalisationIsDoneOnWholeFeatures) {
  const Module before = group_norm(), after = passed(group_norm());
  EXPECT_EQ(largest_split(before), kBatch * kRows * kRows * kGroups * kSize);
  // What is left are results of sums over an image.
  EXPECT_EQ(largest_split(after), kRows * kGroups * kSize);
}

TEST(SplitLanes, ValuesStayTheSame) {
  const GraphCase graph = case_of(group_norm(), 3);
  const std::vector<reference::Value> wanted = interpret(graph.module, graph.arguments);
  const std::vector<reference::Value> found = interpret(passed(graph.module), graph.arguments);
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(found[i].numbers.size(), wanted[i].numbers.size());
    for (std::size_t j = 0; j < wanted[i].numbers.size(); ++j) {
      ASSERT_NEAR(found[i].numbers[j], wanted[i].numbers[j], 1e-4) << "result " << i;
    }
  }
}

TEST(SplitLanes, TheCompiledNormalisationHasTheValuesOfTheReference) {
  const Verdict verdict = check_graph(case_of(group_norm(), 5));
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message;
}

/// A split whose elementwise result somebody else needs as well.
Module heads(bool are_transposed) {
  GraphBuilder graph("heads");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {16, 24, 40}));
  const Tensor split = graph.unary(HloOpcode::kNegate, graph.reshape(x, {16, 24, 8, 5}));
  const Tensor merged = graph.reshape(split, {16, 24, 40});
  const Tensor other =
      are_transposed ? graph.transpose(split, {0, 2, 1, 3}) : graph.reduce_sum(split, {3});
  return graph.finish(graph.tuple({merged, other}), {x});
}

TEST(SplitLanes, TheSplitStaysWhereATransposeNeedsIt) {
  EXPECT_EQ(largest_split(passed(heads(true))), 16 * 24 * 40);
}

TEST(SplitLanes, TheSplitStaysForASumOverTheSplitLanesAlone) {
  EXPECT_EQ(largest_split(passed(heads(false))), 16 * 24 * 40);
}

}  // namespace
}  // namespace tpu::test::split_lanes_test
