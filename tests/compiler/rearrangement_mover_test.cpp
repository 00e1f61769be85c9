#include "workloads/compiler/passes/simplify/rearrangement_mover.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/compiler/pass_check.h"
#include "workloads/compiler/passes/simplify/element_orders.h"
#include "workloads/frontend/graph_builder.h"

namespace tpu::test::rearrangement_mover_test {
namespace {

using compiler::ElementOrder;
using frontend::Extents;
using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::array_shape;
using hlo::ElementType;
using hlo::HloOpcode;
using hlo::Module;

Tensor parameter(GraphBuilder& graph, const char* name, const Extents& extents) {
  return graph.parameter(name, array_shape(ElementType::kF32, extents));
}

/// Channels of [4, 6, 16] in groups, the groups behind each other.
Tensor shuffled(GraphBuilder& graph, Tensor x, std::int64_t groups) {
  const Tensor split = graph.reshape(x, {4, 6, groups, 16 / groups});
  return graph.reshape(graph.transpose(split, {0, 1, 3, 2}), {4, 6, 16});
}

std::size_t transposes(const Module& module) {
  return count(simplified_around(module, compiler::move_rearrangements), HloOpcode::kTranspose);
}

TEST(RearrangementMover, ATransposeMeetsItsInverseBehindElementwiseOperations) {
  GraphBuilder graph("meets");
  const Tensor x = parameter(graph, "x", {4, 6, 16});
  const Tensor value = shuffled(graph, x, 4);
  const Tensor square = graph.multiply(value, graph.scale(value, 2));
  const Module module = graph.finish(graph.tuple({shuffled(graph, square, 4)}), {x});
  EXPECT_EQ(transposes(module), 0U);
  expect_values_kept(case_of(module, 3), compiler::move_rearrangements);
}

/// The other shuffle would be the inverse of groups of four.
TEST(RearrangementMover, ATransposeThatIsNoInverseStays) {
  GraphBuilder graph("passes");
  const Tensor x = parameter(graph, "x", {4, 6, 16});
  const Tensor square = graph.scale(shuffled(graph, x, 2), 2);
  const Module module = graph.finish(graph.tuple({shuffled(graph, square, 4)}), {x});
  EXPECT_EQ(transposes(module), 1U);  // Both are one.
  expect_values_kept(case_of(module, 3), compiler::move_rearrangements);
}

TEST(RearrangementMover, SumsOverAllElementsAskForNoOrder) {
  GraphBuilder graph("sums");
  const Tensor x = parameter(graph, "x", {4, 6, 16});
  const Tensor value = graph.scale(shuffled(graph, x, 4), 0.5);
  const Module module = graph.finish(graph.tuple({graph.reduce_sum(value, {0, 1, 2})}), {x});
  EXPECT_EQ(transposes(module), 0U);
}

/// Sums of whole dimensions are rearranged themselves; dimensions that the space mixes with others
/// keep the array as it is.
TEST(RearrangementMover, SumsOfSomeDimensionsAreRearrangedInPlaceOfTheArray) {
  for (const bool mixes : {false, true}) {
    SCOPED_TRACE(mixes);
    GraphBuilder graph("rows");
    const Tensor x = parameter(graph, "x", {4, 6, 16});
    const Tensor split = graph.transpose(graph.reshape(x, {4, 6, 4, 4}), {0, 2, 1, 3});
    const Tensor value = graph.multiply(split, graph.scale(split, 0.5));
    const Tensor sums = graph.reduce_max(value, mixes ? Extents{1} : Extents{2});
    const Module module = graph.finish(graph.tuple({sums}), {x});
    const Module after = simplified_around(module, compiler::move_rearrangements);
    bool on_whole = false;
    for (const hlo::HloInstruction& each : after.entry_computation().instructions) {
      on_whole |= each.opcode == HloOpcode::kMultiply && each.shape.dimensions == Extents{4, 6, 16};
    }
    EXPECT_EQ(on_whole, !mixes);
    expect_values_kept(case_of(module, 3), compiler::move_rearrangements);
  }
}

/// A number of each image, row, channel, and of both parts of channels and rows.
TEST(RearrangementMover, WhatIsBroadcastIsRearrangedBefore) {
  for (const Extents& places :
       {Extents{0}, Extents{1}, Extents{2}, Extents{1, 2}, Extents{0, 2}, Extents{3}}) {
    GraphBuilder graph("broadcasts");
    const Extents here{4, 8, 6, 4};
    const Tensor x = parameter(graph, "x", {4, 6, 4, 8});
    Extents small;
    for (std::int64_t d : places) small.push_back(here[static_cast<std::size_t>(d)]);
    const Tensor y = parameter(graph, "y", small);
    // [4, 6, 4, 8] as [4, 24, 2, 4] turned: dimensions are split and joined.
    const auto forth = [&](Tensor value) {
      return graph.transpose(graph.reshape(value, {4, 6, 8, 4}), {0, 2, 1, 3});
    };
    const Tensor value = graph.multiply(forth(x), graph.broadcast(y, here, places));
    const Tensor back = graph.reshape(graph.transpose(value, {0, 2, 1, 3}), {4, 6, 4, 8});
    const Module module = graph.finish(graph.tuple({back}), {x, y});
    expect_values_kept(case_of(module, 3), compiler::move_rearrangements);
    // The number of each channel alone is turned, where it has two dimensions.
    const Module after = simplified_around(module, compiler::move_rearrangements);
    for (const hlo::HloInstruction& each : after.entry_computation().instructions) {
      if (each.opcode == HloOpcode::kTranspose) {
        EXPECT_LT(each.shape.element_count(), 4 * 8 * 6 * 4);
      }
      if (each.opcode == HloOpcode::kMultiply) {
        EXPECT_EQ(each.shape.dimensions, (Extents{4, 6, 4, 8}));
      }
    }
  }
}

/// Turned inputs of which one comes as it is: what is turned then is as much as before.
TEST(RearrangementMover, NothingMovesWhereAsManyBytesAreRearranged) {
  GraphBuilder graph("stays");
  const Tensor x = parameter(graph, "x", {4, 6, 16});
  const Tensor y = parameter(graph, "y", {4, 6, 16});
  const Tensor value = graph.add(shuffled(graph, x, 4), y);
  Module module = graph.finish(graph.tuple({value}), {x, y});
  compiler::simplify(module);
  const std::string before = hlo::to_string(module);
  compiler::move_rearrangements(module);
  EXPECT_EQ(hlo::to_string(module), before);
}

/// Orders of whole dimensions are left to the search of layouts.
TEST(RearrangementMover, WholeDimensionsStayInTheirOrder) {
  GraphBuilder graph("whole");
  const Tensor x = parameter(graph, "x", {4, 6, 16});
  const Tensor turned = graph.scale(graph.transpose(x, {0, 2, 1}), 2);
  Module module = graph.finish(graph.tuple({graph.transpose(turned, {0, 2, 1})}), {x});
  EXPECT_EQ(transposes(module), 2U);
}

/// An array and what it is turned: the operations read both.
TEST(RearrangementMover, AnArrayAndItsTransposeKeepTheirValues) {
  GraphBuilder graph("both");
  const Tensor x = parameter(graph, "x", {4, 6, 16});
  const Tensor once = graph.scale(shuffled(graph, x, 4), 2);
  const Tensor both = graph.add(once, shuffled(graph, once, 8));
  const Tensor back = shuffled(graph, both, 4);
  const Module module = graph.finish(graph.tuple({back, graph.reduce_sum(back, {0, 1, 2})}), {x});
  expect_values_kept(case_of(module, 3), compiler::move_rearrangements);
}

TEST(ElementOrders, AnOrderAndItsInverseAreTheSameOrder) {
  // [5, 6, 4] as [4, 5, 2, 3] in the order 3, 0, 1, 2 of [5, 2, 3, 4].
  const auto turned = compiler::transposed(compiler::same_order(120), {5, 2, 3, 4}, {3, 0, 1, 2});
  ASSERT_TRUE(turned);
  EXPECT_EQ(turned->size(), 2U);  // What stays together is one run.
  const auto both = compiler::composed(compiler::inverse(*turned), *turned);
  ASSERT_TRUE(both);
  EXPECT_TRUE(compiler::is_same_order(*both));
  EXPECT_FALSE(compiler::composed(*turned, *turned));  // 30 elements of which 4 and 30 are cut.
}

TEST(ElementOrders, ADimensionThatCutsARunAtNoWholeElementIsNone) {
  const ElementOrder turned{{3, 1}, {4, 3}};
  EXPECT_FALSE(compiler::pieces_of(turned, {2, 6}, {12}));
  EXPECT_TRUE(compiler::pieces_of(turned, {3, 4}, {12}));
  EXPECT_TRUE(compiler::pieces_of(turned, {3, 4}, {2, 6}));
  EXPECT_FALSE(compiler::pieces_of(turned, {3, 4}, {6, 2}));
}

}  // namespace
}  // namespace tpu::test::rearrangement_mover_test
