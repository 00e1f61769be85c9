#include "workloads/compiler/ir/lane_moves.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/compiler/fused_graph.h"
#include "tests/compiler/graph_check.h"
#include "tests/compiler/pass_check.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/passes/layout/layouts.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::lane_moves_test {
namespace {

using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::array_shape;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Module;

/// Whether an operation on x (and y) moves lanes of a single tile; instructions with layouts.
bool moves(const std::string& x, const std::string& y, const std::string& operation) {
  Module module = hlo::read_hlo_text(
      "move.hlo", "HloModule m\nENTRY main {\n  x = " + x + " parameter(0)\n  y = " + y +
                      " parameter(1)\n  zero = f32[] constant(0)\n  ROOT z = " + operation +
                      "\n}\n");
  compiler::assign_layouts(module);
  const hlo::Computation& entry = module.entry_computation();
  return compiler::moves_lanes(entry, entry.at(entry.root));
}

TEST(LaneMoves, StayInsideOfATile) {
  const std::string x = "f32[9,40]", y = "f32[9,88]";
  EXPECT_TRUE(moves(x, y, "f32[9,128] concatenate(x, y), dimensions={1}"));
  EXPECT_TRUE(moves(x, y, "f32[9,7] slice(x), slice={[0:9], [33:40]}"));
  EXPECT_TRUE(moves(x, y, "f32[9,128] pad(x, zero), padding=0_0x80_8"));
  EXPECT_FALSE(moves(x, "f32[9,89]", "f32[9,129] concatenate(x, y), dimensions={1}"));
  EXPECT_FALSE(moves("f32[9,129]", y, "f32[9,7] slice(x), slice={[0:9], [33:40]}"));
  EXPECT_FALSE(moves(x, y, "f32[9,129] pad(x, zero), padding=0_0x80_9"));
  EXPECT_FALSE(moves(x, x, "f32[18,40] concatenate(x, y), dimensions={0}"));
  EXPECT_FALSE(moves(x, y, "f32[8,40] slice(x), slice={[1:9], [0:40]}"));
  EXPECT_FALSE(moves(x, y, "f32[9,4] slice(x), slice={[0:9], [32:40:2]}"));
  EXPECT_FALSE(moves(x, y, "f32[10,128] pad(x, zero), padding=0_1x80_8"));
  EXPECT_FALSE(moves(x, y, "f32[9,79] pad(x, zero), padding=0_0x0_0_1"));
  EXPECT_FALSE(moves(x, y, "f32[9,41] pad(x, zero), padding=0_0x-1_2"));
  EXPECT_FALSE(moves("pred[9,40]", "pred[9,88]", "pred[9,128] concatenate(x, y), dimensions={1}"));
  EXPECT_FALSE(moves("f32[40]", "f32[88]", "f32[128] concatenate(x, y), dimensions={0}"));
}

/// The gradient of a gated linear unit: of two halves, one behind the other, with its sums.
struct Gate {
  GraphBuilder graph{"gate"};
  Tensor x, gate, dy, joined, sums;

  Gate(std::int64_t rows, std::int64_t lanes) {
    const hlo::Shape shape = array_shape(ElementType::kF32, {rows, lanes});
    x = graph.parameter("x", shape);
    gate = graph.parameter("gate", shape);
    dy = graph.parameter("dy", shape);
    joined = graph.concatenate({graph.multiply(dy, gate), graph.multiply(dy, x)}, 1);
    sums = graph.reduce_sum(joined, {0});
  }
  Module finish() { return graph.finish(graph.tuple({joined, sums}), {x, gate, dy}); }
};

TEST(LaneMoves, AJoinIsMadeByTheKernelThatMakesItsParts) {
  const Module module = run_to_fusion(Gate(24, 64).finish());
  EXPECT_EQ(count(module, HloOpcode::kConcatenate), 0U);
  EXPECT_EQ(count(module, HloOpcode::kFusion), 1U);
}

/// Parts of two tiles: the kernel of another operation moves whole tiles, with the parts' kernel
/// before it.
TEST(LaneMoves, AJoinOfTwoTilesIsNot) {
  const Module module = run_to_fusion(Gate(24, 96).finish());
  EXPECT_EQ(count(module, HloOpcode::kConcatenate), 1U);
}

/// A product with a bias, of which parts of the features are read.
struct Parts {
  GraphBuilder graph{"parts"};
  Tensor x, w, b, y, z, left, right;

  Parts() {
    x = graph.parameter("x", array_shape(ElementType::kF32, {512, 256}));
    w = graph.parameter("w", array_shape(ElementType::kF32, {256, 128}));
    b = graph.parameter("b", array_shape(ElementType::kF32, {128}));
    y = graph.matmul(x, w);
    z = graph.add(y, graph.broadcast_vector(b, y, 1));
    left = graph.slice(z, {0, 16}, {512, 64});
    right = graph.slice(z, {0, 64}, {512, 112});
  }
  Module finish(const std::vector<Tensor>& results) {
    return graph.finish(results.size() == 1 ? results[0] : graph.tuple(results), {x, w, b});
  }
};

/// What is read in parts alone is written behind the product, and not the product.
TEST(LaneMoves, WhatIsSlicedStandsBehindItsProduct) {
  Parts parts;
  const Tensor gate = parts.graph.unary(HloOpcode::kTanh, parts.right);
  const Module module = run_to_fusion(parts.finish({parts.graph.multiply(parts.left, gate)}));
  EXPECT_EQ(count_kind(module, "kOutput"), 1U);
  EXPECT_EQ(count_kind(module, "kLoop"), 1U);
  EXPECT_EQ(count(module, HloOpcode::kSlice), 0U);
  EXPECT_EQ(count(module, HloOpcode::kDot), 0U);
}

/// An epilogue has the lanes of its product.
TEST(LaneMoves, NoneIsMadeBehindAProduct) {
  Parts parts;
  const Tensor gate = parts.graph.unary(HloOpcode::kTanh, parts.right);
  const Module made = parts.finish({parts.z, gate});
  const Verdict verdict = check_graph(case_of(made, 1));
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message;
  const Module module = run_to_fusion(made);
  EXPECT_EQ(count_kind(module, "kOutput"), 1U);
  EXPECT_EQ(count_kind(module, "kLoop"), 1U);
}

/// Sums along lanes add a value's own lanes, however many others there are.
TEST(LaneMoves, SumsAlongLanesAddTheirOwn) {
  FusedGraph fused;
  const Tensor x = fused.input(ElementType::kF32, {40, 50});
  const Tensor y = fused.input(ElementType::kF32, {40, 70});
  const Tensor joined = fused.graph.concatenate({x, y}, 1);
  fused.check({fused.graph.reduce_sum(x, {1}), fused.graph.reduce_max(y, {1}),
               fused.graph.reduce_sum(joined, {1}), joined});
}

/// Cycles of a kernel that turns three registers for each of `registers`, two of them made of the
/// third.
double cycles_of_turns(std::int64_t registers) {
  const std::int64_t rows = 8 * registers;
  FusedGraph fused;
  fused.set_layout({1, 0});
  const Tensor x = fused.input(ElementType::kF32, {rows, 128});
  const Tensor left = fused.graph.slice(x, {0, 0}, {rows, 41});
  const Tensor right = fused.graph.slice(x, {0, 87}, {rows, 128});
  const Tensor gate = fused.graph.unary(HloOpcode::kTanh, right);
  const Tensor joined = fused.graph.concatenate(
      {fused.graph.multiply(left, gate), gate, fused.graph.scale(gate, 0.5)}, 1);
  return static_cast<double>(fused.check({joined}).cycles);
}

/// Registers turn one behind the other, not each behind what is made of the one before it.
TEST(LaneMoves, RowsAreTurnedOneBehindTheOther) {
  const double registers = 512;
  const double each = (cycles_of_turns(1024) - cycles_of_turns(512)) / registers;
  EXPECT_NEAR(compiler::kTurnedLanesCycles, each / 3, 0.1 * each / 3);
}

}  // namespace
}  // namespace tpu::test::lane_moves_test
