#include "workloads/compiler/ir/dot_orders.h"

#include <gtest/gtest.h>

#include <string>

#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/dot_problem.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::dot_orders_test {
namespace {

using compiler::DimensionOrder;
using compiler::DotOrders;

/// The orders for a dot whose arrays lie in these.
DotOrders orders_of(const std::string& text, const DotOrders& present) {
  const hlo::Module module = hlo::read_hlo_text("dot.hlo", text);
  const hlo::Computation& entry = module.entry_computation();
  const hlo::HloInstruction& dot = entry.at(entry.root);
  const auto lying = [&](hlo::InstructionId id, const DimensionOrder& order) {
    return compiler::in_order(entry.at(id).shape, order);
  };
  const hlo::Shape lhs = lying(dot.operands[0], present.lhs),
                   rhs = lying(dot.operands[1], present.rhs),
                   result = lying(dot.id, present.result);
  EXPECT_FALSE(compiler::find_dot_problem(dot, lhs, rhs, result));
  const DotOrders found = compiler::orders_of_matrices(dot, lhs, rhs, result);
  EXPECT_TRUE(compiler::find_dot_problem(dot, lying(dot.operands[0], found.lhs),
                                         lying(dot.operands[1], found.rhs),
                                         compiler::in_order(dot.shape, found.result)));
  return found;
}

/// Four heads of queries share two of keys: scores of keys, queries and heads, which the softmax
/// behind wants by heads.
TEST(DotOrders, TheScoresOfGroupedQueriesStayAndBothOperandsMove) {
  const DotOrders found = orders_of(
      "HloModule scores\nENTRY main {\n  k = f32[4,512,2,64] parameter(0)\n  q = "
      "f32[4,512,2,4,64] parameter(1)\n  ROOT s = f32[4,2,512,512,4] dot(k, q), "
      "lhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_batch_dims={0,2}, "
      "rhs_contracting_dims={4}\n}\n",
      {{0, 1, 2, 3}, {0, 1, 2, 3, 4}, {0, 1, 4, 3, 2}});
  EXPECT_EQ(found.result, (DimensionOrder{0, 1, 4, 3, 2}));
  EXPECT_EQ(found.lhs, (DimensionOrder{0, 2, 1, 3}));
  EXPECT_EQ(found.rhs, (DimensionOrder{0, 2, 3, 1, 4}));
}

/// The gradient of the queries is small beside the scores.
TEST(DotOrders, TheGradientOfGroupedQueriesMovesAlone) {
  const DotOrders present{{0, 1, 4, 3, 2}, {0, 2, 1, 3}, {0, 2, 1, 3, 4}};
  const DotOrders found = orders_of(
      "HloModule gradient\nENTRY main {\n  s = f32[4,2,512,512,4] parameter(0)\n  k = "
      "f32[4,512,2,64] parameter(1)\n  ROOT q = f32[4,2,512,4,64] dot(s, k), "
      "lhs_batch_dims={0,1}, lhs_contracting_dims={2}, rhs_batch_dims={0,2}, "
      "rhs_contracting_dims={1}\n}\n",
      present);
  EXPECT_EQ(found.lhs, present.lhs);
  EXPECT_EQ(found.rhs, present.rhs);
  EXPECT_NE(found.result, present.result);
}

/// Gradients of keys that two heads of queries share. Queries or keys could move, which are
/// smaller, for small products of each row by itself: the scores move.
TEST(DotOrders, ALargerArrayMovesWhereASmallerOneMakesManyProducts) {
  const DotOrders present{{0, 1, 2, 4, 3}, {0, 2, 3, 4, 1}, {0, 1, 3, 2}};
  const DotOrders found = orders_of(
      "HloModule gradient\nENTRY main {\n  s = f32[32,2,128,2,128] parameter(0)\n  q = "
      "f32[32,128,2,2,32] parameter(1)\n  ROOT k = f32[32,2,128,32] dot(s, q), "
      "lhs_batch_dims={0,1}, lhs_contracting_dims={2,3}, rhs_batch_dims={0,2}, "
      "rhs_contracting_dims={1,3}\n}\n",
      present);
  EXPECT_NE(found.lhs, present.lhs);
  EXPECT_EQ(found.rhs, present.rhs);
  EXPECT_EQ(found.result, present.result);
}

/// Of a layer's product the result stays, however small it is.
TEST(DotOrders, TheResultOfOneProductStays) {
  const DotOrders present{{0, 1, 2}, {0, 1}, {1, 2, 0}};
  const DotOrders found = orders_of(
      "HloModule layer\nENTRY main {\n  x = f32[16,512,64] parameter(0)\n  w = f32[64,8] "
      "parameter(1)\n  ROOT y = f32[16,512,8] dot(x, w), lhs_contracting_dims={2}, "
      "rhs_contracting_dims={0}\n}\n",
      present);
  EXPECT_EQ(found.result, present.result);
}

}  // namespace
}  // namespace tpu::test::dot_orders_test
