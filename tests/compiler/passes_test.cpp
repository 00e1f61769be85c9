#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "sim/base/error.h"
#include "tests/compiler/hlo_check.h"
#include "tests/compiler/pass_check.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/passes/expand/widen.h"
#include "workloads/compiler/passes/fuse/fusion.h"
#include "workloads/compiler/passes/layout/layouts.h"
#include "workloads/compiler/passes/memory/hbm_plan.h"
#include "workloads/compiler/passes/memory/storage.h"
#include "workloads/compiler/passes/pipeline.h"
#include "workloads/compiler/passes/simplify/precision.h"
#include "workloads/compiler/passes/simplify/product_operands.h"
#include "workloads/compiler/passes/simplify/simplify.h"
#include "workloads/frontend/graph_builder.h"
#include "workloads/frontend/zoo.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::passes_test {
namespace {

using compiler::Target;
using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::array_shape;
using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Module;
using hlo::Shape;

Target v3(std::uint32_t cores = 1) {
  Target target;
  target.hbm_bytes = (std::uint64_t{16} << 30) - target.hbm_reserved_bytes;
  target.cores = cores;
  return target;
}

Shape with_order(ElementType type, std::vector<std::int64_t> dimensions,
                 std::vector<std::int64_t> minor_to_major) {
  Shape shape = array_shape(type, std::move(dimensions));
  shape.layout = compiler::tiled_layout(type, std::move(minor_to_major));
  return shape;
}

// Calls.

/// A chain of computations of which each calls the next twice.
Module calls_of_calls(int length) {
  std::string text = "HloModule m\n";
  for (int i = 0; i < length; ++i) {
    const std::string next = std::to_string(i + 1);
    text += (i == 0 ? "ENTRY c0" : "c" + std::to_string(i)) + " {\n  x = f32[8] parameter(0)\n" +
            "  a = f32[8] call(x), to_apply=c" + next + "\n  ROOT b = f32[8] call(a), to_apply=c" +
            next + "\n}\n";
  }
  text += "c" + std::to_string(length) +
          " {\n  x = f32[8] parameter(0)\n  ROOT n = f32[8] negate(x)\n}\n";
  return hlo::read_hlo_text("calls.hlo", text);
}

TEST(FlattenCalls, RefusesWhatCallsMakeExponentiallyLarge) {
  Module small = calls_of_calls(8);
  compiler::flatten_calls(small);
  EXPECT_EQ(count(small, HloOpcode::kNegate), 256U);
  Module large = calls_of_calls(40);
  try {
    compiler::flatten_calls(large);
    FAIL() << "expected a refusal";
  } catch (const WorkloadError& error) {
    EXPECT_NE(std::string(error.what()).find("expected at most 4194304 instructions"),
              std::string::npos)
        << error.what();
  }
}

TEST(Simplify, APartOfAConstantIsAConstant) {
  Module module = hlo::read_hlo_text("part.hlo", R"(HloModule part
ENTRY main {
  c = s32[2,5] constant({{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}})
  ROOT s = s32[2,2] slice(c), slice={[0:2], [1:5:3]}
}
)");
  compiler::simplify(module);
  const hlo::HloInstruction& root = module.entry_computation().at(module.entry_computation().root);
  ASSERT_EQ(root.opcode, HloOpcode::kConstant);
  std::vector<std::int32_t> numbers(4);
  ASSERT_EQ(root.literal.size(), 16U);
  std::memcpy(numbers.data(), root.literal.data(), 16);
  EXPECT_EQ(numbers, (std::vector<std::int32_t>{2, 5, 7, 10}));
}

// Layouts.

TEST(Layouts, TextIsWhatXlaPrints) {
  EXPECT_EQ(to_string(with_order(ElementType::kF32, {512, 512}, {1, 0})),
            "f32[512,512]{1,0:T(8,128)}");
  EXPECT_EQ(to_string(with_order(ElementType::kBf16, {8, 56, 56, 64}, {3, 0, 2, 1})),
            "bf16[8,56,56,64]{3,0,2,1:T(8,128)(2,1)}");
  EXPECT_EQ(to_string(with_order(ElementType::kF32, {64}, {0})), "f32[64]{0:T(1024)}");
}

/// Orders of all arrays of the convolutions of LeNet; images as given.
void expect_convolution_orders(std::uint32_t batch, const std::vector<std::int64_t>& images) {
  frontend::WorkloadOptions options;
  options.batch = batch;
  Module module = frontend::build_workload("lenet", options).module;
  compiler::simplify(module);
  compiler::assign_layouts(module);
  const Computation& entry = module.entry_computation();
  for (const HloInstruction& instruction : entry.instructions) {
    if (instruction.opcode != HloOpcode::kConvolution) continue;
    for (InstructionId id : {instruction.operands[0], instruction.operands[1], instruction.id}) {
      const Shape& shape = entry.at(id).shape;
      const bool is_weight = shape.dimensions[0] == 5 && shape.dimensions[1] == 5;
      const std::vector<std::int64_t> expected =
          is_weight ? std::vector<std::int64_t>{3, 2, 1, 0} : images;
      EXPECT_EQ(shape.layout.minor_to_major, expected) << to_string(shape);
    }
  }
}

TEST(Layouts, ConvolutionsPutSpatialDimensionsFirst) {
  // Features 1, 6 and 16 padded to 8 and 16, or all to 128.
  expect_convolution_orders(128, {0, 3, 2, 1});
  // 64 features of four examples.
  GraphBuilder graph("few");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {4, 16, 16, 64}));
  const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {1, 1, 64, 64}));
  Module module =
      graph.finish(graph.convolution(x, w, frontend::nhwc_dimensions(), {{}, {}}), {x, w});
  compiler::assign_layouts(module);
  for (const HloInstruction& instruction : module.entry_computation().instructions) {
    if (instruction.opcode != HloOpcode::kConvolution) continue;
    EXPECT_EQ(instruction.shape.layout.minor_to_major, (std::vector<std::int64_t>{3, 0, 2, 1}));
  }
}

TEST(Layouts, ElementwiseOperandsLieAsTheirResult) {
  for (const char* name : {"mlp", "lenet", "resnet50", "transformer"}) {
    Module module = frontend::build_workload(name).module;
    compiler::simplify(module);
    compiler::assign_layouts(module);
    const Computation& entry = module.entry_computation();
    for (const HloInstruction& instruction : entry.instructions) {
      if (!hlo::is_elementwise(instruction.opcode)) continue;
      for (InstructionId operand : instruction.operands) {
        EXPECT_EQ(entry.at(operand).shape.layout.minor_to_major,
                  instruction.shape.layout.minor_to_major)
            << name << " " << instruction.name;
      }
    }
  }
}

TEST(Layouts, GranulesCountTilePadding) {
  EXPECT_EQ(compiler::granules(with_order(ElementType::kF32, {1, 1}, {1, 0})), 4U);
  EXPECT_EQ(compiler::granules(with_order(ElementType::kF32, {9, 129}, {1, 0})), 4U * 2 * 2);
  EXPECT_EQ(compiler::granules(with_order(ElementType::kBf16, {9, 129}, {1, 0})), 2U * 2 * 2);
  EXPECT_EQ(compiler::granules(with_order(ElementType::kF32, {1025}, {0})), 8U);
  EXPECT_EQ(compiler::granules(array_shape(ElementType::kF32, {})), 1U);
}

/// Where the pass says that a reshape moves nothing, the packed words of both arrays are equal.
TEST(Bitcasts, ReshapesThatAreClaimedFreeKeepEveryWord) {
  std::mt19937 engine(7);
  const std::vector<std::int64_t> extents{1, 2, 3, 8, 16, 128, 1024};
  const auto random_order = [&](std::size_t rank) {
    std::vector<std::int64_t> order(rank);
    for (std::size_t d = 0; d < rank; ++d) order[d] = static_cast<std::int64_t>(rank - 1 - d);
    if (engine() % 2 == 0) std::shuffle(order.begin(), order.end(), engine);
    return order;
  };
  int free = 0, tried = 0;
  for (int round = 0; round < 60000; ++round) {
    std::vector<std::vector<std::int64_t>> sides(2);
    for (std::vector<std::int64_t>& dimensions : sides) {
      dimensions.resize(1 + engine() % 4);
      for (std::int64_t& d : dimensions) d = extents[engine() % extents.size()];
    }
    Shape from = array_shape(ElementType::kF32, sides[0]);
    Shape to = array_shape(ElementType::kF32, sides[1]);
    if (from.element_count() != to.element_count() || from.element_count() > 40000) continue;
    from.layout = compiler::tiled_layout(from.type, random_order(sides[0].size()));
    to.layout = compiler::tiled_layout(to.type, random_order(sides[1].size()));
    ++tried;
    if (!compiler::same_bytes_after_reshape(from, to)) continue;
    ++free;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(from.unpadded_bytes()));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(engine());
    EXPECT_EQ(hlo::pack(from, bytes), hlo::pack(to, bytes))
        << to_string(from) << " as " << to_string(to);
  }
  EXPECT_GT(tried, 500);
  EXPECT_GT(free, 50);
}

TEST(Bitcasts, RowsThatFillTilesMergeWithTheDimensionAbove) {
  const Shape batch = with_order(ElementType::kBf16, {4, 16, 256}, {2, 1, 0});
  EXPECT_TRUE(
      compiler::same_bytes_after_reshape(batch, with_order(ElementType::kBf16, {64, 256}, {1, 0})));
  const Shape ragged = with_order(ElementType::kBf16, {4, 12, 256}, {2, 1, 0});
  EXPECT_FALSE(compiler::same_bytes_after_reshape(
      ragged, with_order(ElementType::kBf16, {48, 256}, {1, 0})));
}

/// Rows cut in eights and lanes in whole tiles, which stand above the eight rows then.
TEST(Bitcasts, LanesAreTakenApartByTiles) {
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    const Shape whole = with_order(type, {3, 16, 768}, {2, 1, 0});
    const Shape parts = with_order(type, {3, 2, 8, 3, 256}, {4, 2, 3, 1, 0});
    EXPECT_TRUE(compiler::same_bytes_after_reshape(whole, parts));
    EXPECT_TRUE(compiler::same_bytes_after_reshape(parts, whole));
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(whole.unpadded_bytes()));
    std::mt19937 engine(7);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(engine());
    EXPECT_EQ(hlo::pack(whole, bytes), hlo::pack(parts, bytes));
    EXPECT_FALSE(compiler::same_bytes_after_reshape(
        whole, with_order(type, {3, 2, 8, 3, 256}, {4, 3, 2, 1, 0})));
  }
}

/// However many rows of 128 they are: both end with a tile of eight.
TEST(Bitcasts, AVectorIsRowsOf128Elements) {
  for (const std::int64_t rows : {1, 5, 8, 13}) {
    const Shape line = with_order(ElementType::kF32, {128 * rows}, {0});
    const Shape matrix = with_order(ElementType::kF32, {rows, 128}, {1, 0});
    EXPECT_TRUE(compiler::same_bytes_after_reshape(line, matrix)) << rows;
    EXPECT_TRUE(compiler::same_bytes_after_reshape(matrix, line)) << rows;
  }
}

/// Opcodes of what reshapes of a module become, by name.
std::map<std::string, HloOpcode> reshapes_of(const std::string& body) {
  Module module = hlo::read_hlo_text(
      "reshapes",
      "HloModule reshapes\nsum {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  "
      "ROOT s = f32[] add(p, q)\n}\nENTRY e {\n  x = f32[1,5000] parameter(0)\n  v = "
      "f32[5000] parameter(1)\n  z = f32[] constant(0)\n" +
          body + "}\n");
  const Verdict verdict = check_graph(case_of(module, 7));
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message;
  compiler::assign_layouts(module);
  compiler::find_bitcasts(module);
  std::map<std::string, HloOpcode> found;
  for (const HloInstruction& each : module.entry_computation().instructions) {
    if (each.name[0] == 'r') found[each.name] = each.opcode;
  }
  return found;
}

/// The only element of an array is a scalar where it stands; one that is sliced is read in its
/// tile.
TEST(Bitcasts, AScalarIsTheOnlyElementOfAnArray) {
  const auto of = reshapes_of(
      "  t = f32[1] reduce(x, z), dimensions={1}, to_apply=sum\n  r1 = f32[] reshape(t)\n"
      "  a = f32[1,1] slice(x), slice={[0:1], [7:8]}\n  r2 = f32[] reshape(a)\n"
      "  m = f32[] multiply(r1, r2)\n  b = f32[1,5000] broadcast(m), dimensions={}\n"
      "  ROOT y = f32[1,5000] add(x, b)\n");
  EXPECT_EQ(of.at("r1"), HloOpcode::kBitcast);
  EXPECT_EQ(of.at("r2"), HloOpcode::kReshape);
}

/// A vector that elementwise operations take as the row of an array is broadcast along its lanes in
/// their kernel; others get it as a row.
TEST(Bitcasts, AVectorIsSpreadAlongTheLanesOfElementwiseOperations) {
  const auto of = reshapes_of(
      "  r1 = f32[1,5000] reshape(v)\n  m = f32[1,5000] multiply(x, r1)\n  w = f32[5000] "
      "negate(v)\n"
      "  r2 = f32[1,5000] reshape(w)\n  n = f32[1,5000] multiply(m, r2)\n"
      "  c = f32[2,5000] concatenate(n, r2), dimensions={0}\n  ROOT y = f32[2,5000] negate(c)\n");
  EXPECT_EQ(of.at("r1"), HloOpcode::kBroadcast);
  EXPECT_EQ(of.at("r2"), HloOpcode::kReshape);
}

// Simplification.

TEST(Simplify, APartOfOneOperandOfAConcatenationIsAPartOfTheOperand) {
  hlo::Module module = hlo::read_hlo_text("t.hlo", R"(HloModule t
ENTRY main {
  x = f32[3,5] parameter(0)
  y = f32[3,7] parameter(1)
  both = f32[3,12] concatenate(x, y), dimensions={1}
  whole = f32[3,5] slice(both), slice={[0:3], [0:5]}
  some = f32[2,3] slice(both), slice={[1:3], [6:12:2]}
  of_both = f32[3,3] slice(both), slice={[0:3], [4:7]}
  ROOT all = (f32[3,5], f32[2,3], f32[3,3]) tuple(whole, some, of_both)
}
)");
  compiler::simplify(module);
  const hlo::Computation& entry = module.entry_computation();
  const hlo::HloInstruction& root = entry.at(entry.root);
  EXPECT_EQ(entry.at(root.operands[0]).name, "x");
  const hlo::HloInstruction& some = entry.at(root.operands[1]);
  EXPECT_EQ(entry.at(some.operands[0]).name, "y");
  EXPECT_EQ(some.slice->starts, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(some.slice->limits, (std::vector<std::int64_t>{3, 7}));
  EXPECT_EQ(some.slice->strides, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(entry.at(entry.at(root.operands[2]).operands[0]).opcode, HloOpcode::kConcatenate);
}

TEST(Simplify, ArithmeticOnConstantsIsDoneBeforeTheRun) {
  GraphBuilder graph("constants");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {4, 4}));
  const Tensor two = graph.splat(ElementType::kF32, {4, 4}, 2);
  const Tensor three = graph.splat(ElementType::kF32, {4, 4}, 3);
  const Tensor one = graph.subtract(three, two);
  const Tensor same = graph.multiply(x, one);
  Module module = graph.finish(graph.add(same, graph.multiply(two, three)), {x});
  compiler::simplify(module);
  EXPECT_EQ(count(module, HloOpcode::kMultiply), 0U);
  EXPECT_EQ(count(module, HloOpcode::kSubtract), 0U);
  EXPECT_EQ(count(module, HloOpcode::kAdd), 1U);
  EXPECT_EQ(count(module, HloOpcode::kBroadcast), 1U);
}

/// A sum over all that a reshape joins or splits does not wait until it has moved everything. Parts
/// of what it joins, and elements that something else reads in the new shape, stay behind it.
TEST(Simplify, WhatAReshapeJoinsIsReducedBeforeIt) {
  const auto operand_of_sum = [](const frontend::Extents& extents, const frontend::Extents& to,
                                 std::vector<std::int64_t> reduced, bool is_read_twice) {
    GraphBuilder graph("norm");
    const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, extents));
    const Tensor y = graph.reshape(graph.unary(HloOpcode::kTanh, x), to);
    const Tensor sum = graph.reduce_sum(y, std::move(reduced));
    const Tensor beside = is_read_twice ? graph.unary(HloOpcode::kNegate, y) : x;
    Module module = graph.finish(graph.tuple({sum, beside}), {x});
    compiler::simplify(module);
    EXPECT_NO_THROW(hlo::verify(module));
    const Computation& entry = module.entry_computation();
    const HloInstruction& made = entry.at(root(module).operands[0]);
    EXPECT_EQ(made.opcode, HloOpcode::kReduce);
    return std::make_pair(entry.at(made.operands[0]).opcode, made.dimensions);
  };
  using Dimensions = std::vector<std::int64_t>;
  const auto before = HloOpcode::kTanh, behind = HloOpcode::kReshape;
  EXPECT_EQ(operand_of_sum({4, 3, 5}, {4, 15}, {1}, false), std::pair(before, Dimensions{1, 2}));
  EXPECT_EQ(operand_of_sum({4, 15}, {4, 3, 5}, {1, 2}, false), std::pair(before, Dimensions{1}));
  EXPECT_EQ(operand_of_sum({4, 3, 5, 7}, {4, 15, 7}, {0, 1}, false),
            std::pair(before, Dimensions{0, 1, 2}));
  EXPECT_EQ(operand_of_sum({4, 15}, {4, 3, 5}, {1}, false), std::pair(behind, Dimensions{1}));
  EXPECT_EQ(operand_of_sum({4, 3, 5}, {12, 5}, {1}, false), std::pair(behind, Dimensions{1}));
  EXPECT_EQ(operand_of_sum({4, 3, 5}, {4, 15}, {1}, true), std::pair(behind, Dimensions{1}));
}

TEST(Simplify, EqualInstructionsBecomeOne) {
  GraphBuilder graph("equal");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {4, 4}));
  const Tensor a = graph.unary(HloOpcode::kExponential, x);
  const Tensor b = graph.unary(HloOpcode::kExponential, x);
  Module module = graph.finish(graph.add(a, b), {x});
  compiler::simplify(module);
  EXPECT_EQ(count(module, HloOpcode::kExponential), 1U);
}

TEST(Simplify, TheMaskOfARectifierComesFromItsResult) {
  for (const auto direction : {hlo::ComparisonDirection::kGt, hlo::ComparisonDirection::kGe}) {
    GraphBuilder graph("relu");
    const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {8, 8}));
    const Tensor zero = graph.splat(ElementType::kF32, {8, 8}, 0);
    const Tensor y = graph.binary(HloOpcode::kMaximum, x, zero);
    const Tensor mask = graph.compare(x, zero, direction);
    Module module = graph.finish(graph.select(mask, y, graph.unary(HloOpcode::kNegate, y)), {x});
    compiler::simplify(module);
    const hlo::Computation& entry = module.entry_computation();
    for (const hlo::HloInstruction& instruction : entry.instructions) {
      if (instruction.opcode != HloOpcode::kCompare) continue;
      // x >= 0 says another thing than maximum(x, 0) >= 0.
      const bool is_same = direction == hlo::ComparisonDirection::kGt;
      EXPECT_EQ(entry.at(instruction.operands[0]).opcode,
                is_same ? HloOpcode::kMaximum : HloOpcode::kParameter);
    }
  }
}

/// As JAX writes it: the mask, then a call that holds the maximum.
TEST(Simplify, TheMaskMayStandBeforeItsMaximum) {
  for (const bool zero_first : {false, true}) {
    GraphBuilder graph("relu");
    const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {8, 8}));
    const Tensor zero = graph.splat(ElementType::kF32, {8, 8}, 0);
    const Tensor mask = graph.compare(x, zero, hlo::ComparisonDirection::kGt);
    const Tensor masked = graph.select(mask, zero, x);
    const Tensor y = zero_first ? graph.binary(HloOpcode::kMaximum, zero, x)
                                : graph.binary(HloOpcode::kMaximum, x, zero);
    Module module = graph.finish(graph.tuple({masked, y}), {x});
    compiler::simplify(module);
    const hlo::Computation& entry = module.entry_computation();
    EXPECT_EQ(count(module, HloOpcode::kCompare), 1U);
    for (const hlo::HloInstruction& instruction : entry.instructions) {
      if (instruction.opcode != HloOpcode::kCompare) continue;
      EXPECT_EQ(entry.at(instruction.operands[0]).opcode, HloOpcode::kMaximum);
    }
    EXPECT_NO_THROW(hlo::verify(module));
  }
}

TEST(Simplify, NarrowingUndoesWideningButNotTheOtherWayRound) {
  GraphBuilder graph("converts");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kBf16, {8, 8}));
  const Tensor y = graph.parameter("y", array_shape(ElementType::kF32, {8, 8}));
  const Tensor there = graph.convert(graph.convert(x, ElementType::kF32), ElementType::kBf16);
  const Tensor rounded = graph.convert(graph.convert(y, ElementType::kBf16), ElementType::kF32);
  Module module = graph.finish(graph.tuple({graph.add(there, x), rounded}), {x, y});
  compiler::simplify(module);
  EXPECT_EQ(count(module, HloOpcode::kConvert), 2U);
}

TEST(Simplify, TransposesInFrontOfADotBecomeContractingDimensions) {
  GraphBuilder graph("dot");
  const Tensor a = graph.parameter("a", array_shape(ElementType::kF32, {16, 32}));
  const Tensor b = graph.parameter("b", array_shape(ElementType::kF32, {16, 8}));
  Module module = graph.finish(graph.matmul(graph.transpose(a, {1, 0}), b), {a, b});
  compiler::simplify(module);
  EXPECT_EQ(count(module, HloOpcode::kTranspose), 0U);
  EXPECT_EQ(root(module).dot->lhs_contracting, std::vector<std::int64_t>{0});
  EXPECT_NO_THROW(hlo::verify(module));
}

/// What is repeated is turned, not what comes of it: keys of three heads, the same for four queries
/// each. A vector's repetition is only one along another dimension.
TEST(Simplify, TransposesOfBroadcastsAreBroadcasts) {
  const std::string text = R"(HloModule turned
ENTRY main {
  k = f32[2,5,3,7] parameter(0)
  v = f32[5] parameter(1)
  b = f32[2,4,5,3,7] broadcast(k), dimensions={0,2,3,4}
  t = f32[2,4,3,5,7] transpose(b), dimensions={0,1,3,2,4}
  c = f32[2,5,6] broadcast(v), dimensions={1}
  u = f32[6,2,5] transpose(c), dimensions={2,0,1}
  ROOT r = (f32[2,4,3,5,7], f32[6,2,5]) tuple(t, u)
})";
  Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::simplify(module);
  hlo::verify(module);
  for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
    if (each.opcode != HloOpcode::kTranspose) continue;
    EXPECT_EQ(each.shape.dimensions, (std::vector<std::int64_t>{2, 3, 5, 7}));
  }
  EXPECT_EQ(count(module, HloOpcode::kTranspose), 1U);
  EXPECT_EQ(count(module, HloOpcode::kBroadcast), 2U);
  check_hlo(text);
}

/// A slice of what is repeated needs no place where it begins; one of the repeated array does.
TEST(Simplify, SlicesOfBroadcastsAreBroadcasts) {
  const std::string text = R"(HloModule cut
ENTRY main {
  x = f32[8,16] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  b = f32[20,8,16] broadcast(x), dimensions={1,2}
  d = f32[1,8,16] dynamic-slice(b, i, z, z), dynamic_slice_sizes={1,8,16}
  s = f32[5,8,16] slice(b), slice={[2:17:3], [0:8], [0:16]}
  p = f32[20,3,16] slice(b), slice={[0:20], [2:5], [0:16]}
  q = f32[20,8,4] dynamic-slice(b, z, z, i), dynamic_slice_sizes={20,8,4}
  ROOT r = (f32[1,8,16], f32[5,8,16], f32[20,3,16], f32[20,8,4]) tuple(d, s, p, q)
})";
  Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::simplify(module);
  hlo::verify(module);
  EXPECT_EQ(count(module, HloOpcode::kDynamicSlice), 1U);
  EXPECT_EQ(count(module, HloOpcode::kSlice), 1U);
  EXPECT_EQ(count(module, HloOpcode::kBroadcast), 3U);
  check_hlo(text);
}

/// The gradient of a table that stands transposed in the product, rounded in between. A dot or a
/// convert that something else reads stays.
TEST(Simplify, ATransposedDotIsTheDotOfItsSidesExchangedRoundedOrNot) {
  const auto transposes = [](const std::string& rest) {
    Module module = hlo::read_hlo_text("test.hlo", R"(HloModule turned
ENTRY main {
  a = bf16[2,32,16] parameter(0)
  b = bf16[2,16,8] parameter(1)
  d = bf16[2,32,8] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
)" + rest + "}\n");
    compiler::simplify(module);
    hlo::verify(module);
    return count(module, HloOpcode::kTranspose);
  };
  EXPECT_EQ(transposes("ROOT t = bf16[2,8,32] transpose(d), dimensions={0,2,1}\n"), 0U);
  const std::string rounded = R"(c = f32[2,32,8] convert(d)
t = f32[2,8,32] transpose(c), dimensions={0,2,1}
)";
  EXPECT_EQ(transposes(rounded + "ROOT n = f32[2,8,32] negate(t)\n"), 0U);
  EXPECT_EQ(transposes(rounded + "ROOT r = (f32[2,8,32], f32[2,32,8]) tuple(t, c)\n"), 1U);
  EXPECT_EQ(transposes(rounded + "ROOT r = (f32[2,8,32], bf16[2,32,8]) tuple(t, d)\n"), 1U);
  EXPECT_EQ(transposes("c = f32[2,32,8] convert(d)\n"
                       "ROOT t = f32[32,2,8] transpose(c), dimensions={1,0,2}\n"),
            1U);
}

/// Forward pass and gradient of a kernel read an activation; a third reader that is no product and
/// no sum reads it as it is, beside one convolution only.
TEST(NarrowDotOperands, ImagesThatConvolutionsReadAreBf16) {
  const auto rewritten = [](const std::string& others) {
    Module module = hlo::read_hlo_text("test.hlo", R"(HloModule narrow
ENTRY main {
  x = f32[4,8,8,16] parameter(0)
  w = f32[3,3,16,16] parameter(1)
  a = f32[4,8,8,16] tanh(x)
  y = f32[4,8,8,16] convolution(a, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
)" + others + "}\n");
    compiler::narrow_dot_operands(module);
    hlo::verify(module);
    std::size_t narrow = 0;
    for (const HloInstruction& made : module.entry_computation().instructions) {
      if (made.opcode != HloOpcode::kConvolution) continue;
      const HloInstruction& image = module.entry_computation().at(made.operands[0]);
      narrow += image.shape.type == ElementType::kBf16 ? 1 : 0;
      EXPECT_EQ(made.shape.type, ElementType::kF32);
    }
    return narrow;
  };
  EXPECT_EQ(rewritten("  ROOT r = f32[4,8,8,16] negate(y)\n"), 1U);
  EXPECT_EQ(rewritten("  ROOT r = f32[4,8,8,16] add(y, a)\n"), 0U);
  EXPECT_EQ(rewritten("  dw = f32[3,3,16,16] convolution(a, y), window={size=8x8 pad=1_1x1_1}, "
                      "dim_labels=f01b_i01o->01bf\n"
                      "  s = f32[4,8,8,16] add(y, a)\n"
                      "  ROOT r = (f32[3,3,16,16], f32[4,8,8,16]) tuple(dw, s)\n"),
            2U);
}

/// One part of the concatenation is read by a sum of numbers, too: it has both forms. A small
/// concatenation stays as it is, and so does one that a part of another module's hands comes to.
TEST(NarrowDotOperands, LargeConcatenationsInFrontOfProductsAreBf16) {
  const auto type = [](std::int64_t rows, const std::string& part) {
    const std::string n = std::to_string(rows);
    Module module = hlo::read_hlo_text(
        "test.hlo", "HloModule narrow\nENTRY main {\n  x = f32[" + n +
                        ",64] parameter(0)\n  w = f32[128,16] "
                        "parameter(1)\n  a = f32[" +
                        n + ",64] tanh(x)\n  b = f32[" + n + ",64] exponential(a)\n  c = f32[" + n +
                        ",128] concatenate(" + part + ", b), dimensions={1}\n  ROOT d = f32[" + n +
                        ",16] dot(c, w), lhs_contracting_dims={1}, "
                        "rhs_contracting_dims={0}\n}\n");
    compiler::narrow_dot_operands(module);
    hlo::verify(module);
    const Computation& entry = module.entry_computation();
    return entry.at(root(module).operands[0]).shape.type;
  };
  EXPECT_EQ(type(1024, "a"), ElementType::kBf16);
  EXPECT_EQ(type(1023, "a"), ElementType::kF32);
  EXPECT_EQ(type(1024, "x"), ElementType::kF32);
}

/// Strides that become features pad an image, split it and pad it again: then it is rounded first.
/// One kernel that moves it would read as many bytes as the rounding does, reshapes and
/// transpositions may be none, and who else reads it reads it as it is.
TEST(NarrowDotOperands, ParametersThatSeveralKernelsMoveAreRoundedFirst) {
  const auto image_type = [](const std::string& second, const std::string& others) {
    Module module = hlo::read_hlo_text(
        "test.hlo",
        "HloModule narrow\nENTRY main {\n  x = f32[4,6,8,16] parameter(0)\n"
        "  w = f32[3,3,16,16] parameter(1)\n  z = f32[] constant(0)\n"
        "  p = f32[4,8,8,16] pad(x, z), padding=0_0x1_1x0_0x0_0\n"
        "  t = f32[8,4,8,16] transpose(p), dimensions={1,0,2,3}\n"
        "  u = f32[4,8,8,16] transpose(t), dimensions={1,0,2,3}\n  q = f32[4,8,8,16] " +
            second +
            "\n  y = f32[4,6,6,16] convolution(q, w), window={size=3x3}, "
            "dim_labels=b01f_01io->b01f\n" +
            others + "\n}\n");
    compiler::narrow_dot_operands(module);
    hlo::verify(module);
    for (const HloInstruction& made : module.entry_computation().instructions) {
      if (made.opcode != HloOpcode::kConvolution) continue;
      return module.entry_computation().at(made.operands[0]).shape.type;
    }
    return ElementType::kPred;
  };
  const std::string two = "reverse(u), dimensions={1}", one = "reshape(u)";
  const std::string alone = "  ROOT r = f32[4,6,6,16] negate(y)";
  EXPECT_EQ(image_type(two, alone), ElementType::kBf16);
  EXPECT_EQ(image_type(one, alone), ElementType::kF32);
  EXPECT_EQ(image_type(two,
                       "  n = f32[4,6,8,16] negate(x)\n"
                       "  ROOT r = (f32[4,6,6,16], f32[4,6,8,16]) tuple(y, n)"),
            ElementType::kF32);
}

void read_parameters_unrounded(Module& module) {
  const compiler::Target target;
  compiler::ConvolutionKernels kernels(target);
  compiler::read_parameters_unrounded(module, kernels);
}

TEST(ProductOperands, ParametersAreReadUnroundedByFewDots) {
  for (const int readers : {1, 2, 3}) {
    GraphBuilder graph("rounded");
    const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {64, 64}));
    const Tensor narrow = graph.convert(w, ElementType::kBf16);
    std::vector<Tensor> parameters{w}, products;
    for (int i = 0; i < readers; ++i) {
      parameters.push_back(
          graph.parameter("x" + std::to_string(i), array_shape(ElementType::kBf16, {8 + i, 64})));
      products.push_back(graph.matmul(parameters.back(), narrow));
    }
    Module module = graph.finish(graph.tuple(products), parameters);
    read_parameters_unrounded(module);
    hlo::verify(module);
    EXPECT_EQ(count(module, HloOpcode::kConvert), readers < 3 ? 0U : 1U) << readers;
  }
}

/// A kernel of f32 whose block no longer fits VMEM is rounded before.
TEST(ProductOperands, ConvolutionsReadUnroundedWhatFits) {
  const auto rounded = [](int features, int results, bool is_image) {
    const std::string f = std::to_string(features), r = std::to_string(results);
    const std::string image = "[8,8,8," + f + "]", kernel = "[3,3," + f + "," + r + "]";
    const std::string x = is_image ? "c" : "x", w = is_image ? "w" : "c";
    Module module = hlo::read_hlo_text(
        "rounded.hlo",
        "HloModule rounded\nENTRY main {\n  x = " + std::string(is_image ? "f32" : "bf16") + image +
            " parameter(0)\n  w = " + (is_image ? "bf16" : "f32") + kernel +
            " parameter(1)\n  c = bf16" +
            (is_image ? image + " convert(x)" : kernel + " convert(w)") +
            "\n  ROOT y = bf16[8,8,8," + r + "] convolution(" + x + ", " + w +
            "), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n}\n");
    read_parameters_unrounded(module);
    hlo::verify(module);
    return count(module, HloOpcode::kConvert);
  };
  EXPECT_EQ(rounded(64, 64, true), 0U);
  EXPECT_EQ(rounded(64, 64, false), 0U);
  EXPECT_EQ(rounded(1536, 1536, false), 1U);
}

/// The kernel of a line is that of an image behind a reshape, which others do not read, and which
/// moves nothing.
TEST(ProductOperands, KernelsOfLinesAreReadUnrounded) {
  const auto rounded = [](const std::string& line, bool is_read_twice) {
    const std::string packed = "bf16[" + line + "]";
    Module module = hlo::read_hlo_text(
        "rounded.hlo",
        "HloModule rounded\nENTRY main {\n  x = bf16[8,1,64,64] parameter(0)\n  w = f32[" + line +
            "] parameter(1)\n  c = " + packed +
            " convert(w)\n  k = bf16[1,3,64,64] reshape(c)\n  y = bf16[8,1,64,64] convolution(x, "
            "k), window={size=1x3 pad=0_0x1_1}, dim_labels=b01f_01io->b01f\n  n = " +
            packed + " negate(c)\n  ROOT t = (bf16[8,1,64,64]" +
            (is_read_twice ? ", " + packed : "") + ") tuple(y" + (is_read_twice ? ", n" : "") +
            ")\n}\n");
    compiler::simplify(module);
    read_parameters_unrounded(module);
    hlo::verify(module);
    return count(module, HloOpcode::kConvert);
  };
  EXPECT_EQ(rounded("3,64,64", false), 0U);
  EXPECT_EQ(rounded("3,64,64", true), 1U);
  EXPECT_EQ(rounded("192,64", false), 1U);
}

TEST(Simplify, AllReducesOverOneReplicaVanish) {
  frontend::WorkloadOptions options;
  options.replicas = 8;
  Module module = frontend::build_workload("mlp", options).module;
  ASSERT_EQ(count(module, HloOpcode::kAllReduce), 1U);
  module.replicas = 1;
  compiler::simplify(module);
  EXPECT_EQ(count(module, HloOpcode::kAllReduce), 0U);
  EXPECT_NO_THROW(hlo::verify(module));
}

TEST(Simplify, ASecondTimeChangesNothing) {
  for (const char* name : {"mlp", "lenet", "resnet50", "transformer"}) {
    Module module = frontend::build_workload(name).module;
    compiler::simplify(module);
    EXPECT_NO_THROW(hlo::verify(module)) << name;
    const std::string once = hlo::to_string(module);
    compiler::simplify(module);
    EXPECT_EQ(hlo::to_string(module), once) << name;
  }
}

TEST(Widen, RefusesTypesThatNoKernelLoads) {
  GraphBuilder graph("bytes");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kS8, {16, 128}));
  Module module = run_to_fusion(graph.finish(graph.add(x, x), {x}));
  try {
    compiler::widen(module);
    FAIL() << "expected a WorkloadError";
  } catch (const WorkloadError& error) {
    EXPECT_NE(std::string(error.what()).find("expected an array of f32, bf16, s32, u32 or pred"),
              std::string::npos)
        << error.what();
  }
}

// The HBM plan.

/// Walks the schedule and keeps, per granule, which storage wrote it last: every kernel must find
/// its operands where they were written.
void check_plan(const Module& module, const compiler::HbmPlan& plan, const std::string& name) {
  const Computation& entry = module.entry_computation();
  const compiler::StorageMap map(entry);
  std::vector<std::int64_t> owner(plan.peak_granules, -1);
  const auto each_granule = [&](InstructionId id, auto&& visit) {
    const std::vector<std::size_t>& storages = map.of(id);
    for (std::size_t leaf = 0; leaf < storages.size(); ++leaf) {
      const std::uint64_t first = plan.granules_of[static_cast<std::size_t>(id)][leaf];
      const std::uint64_t size = compiler::granules(map.at(storages[leaf]).shape);
      ASSERT_LE(first + size, plan.peak_granules);
      for (std::uint64_t i = first; i < first + size; ++i) {
        visit(owner[i], static_cast<std::int64_t>(storages[leaf]));
      }
    }
  };
  const auto write = [](std::int64_t& slot, std::int64_t storage) { slot = storage; };
  for (const HloInstruction& instruction : entry.instructions) {
    const bool is_given =
        instruction.opcode == HloOpcode::kParameter || instruction.opcode == HloOpcode::kConstant;
    if (is_given) each_granule(instruction.id, write);
  }
  for (const HloInstruction& instruction : entry.instructions) {
    const bool is_last = instruction.id == entry.root;
    if (compiler::is_bookkeeping(instruction) && !is_last) continue;
    for (InstructionId operand : instruction.operands) {
      bool found = true;
      each_granule(operand, [&](std::int64_t slot, std::int64_t storage) {
        found = found && slot == storage;
      });
      EXPECT_TRUE(found) << name << ": " << instruction.name << " finds " << entry.at(operand).name
                         << " overwritten";
    }
    if (!compiler::is_bookkeeping(instruction)) each_granule(instruction.id, write);
  }
}

TEST(HbmPlan, NoKernelFindsAnOperandOverwritten) {
  for (const char* name : {"mlp", "lenet", "resnet50", "transformer"}) {
    for (std::uint32_t cores : {1U, 8U}) {
      frontend::WorkloadOptions options;
      options.replicas = cores;
      options.batch = 8;
      const Module module = frontend::build_workload(name, options).module;
      const compiler::ScheduledModule scheduled = compiler::schedule(module, v3(cores), nullptr);
      EXPECT_NO_THROW(hlo::verify(scheduled.module)) << name;
      check_plan(scheduled.module, scheduled.plan, name);
    }
  }
}

TEST(HbmPlan, NewWeightsTakeThePlaceOfTheOldOnes) {
  const Module module = frontend::build_workload("mlp").module;
  const compiler::ScheduledModule scheduled = compiler::schedule(module, v3(), nullptr);
  EXPECT_EQ(count(scheduled.module, HloOpcode::kCopy), 0U);
  std::map<std::uint32_t, std::uint64_t> parameters, outputs;
  for (const isa::Buffer& buffer : scheduled.plan.buffers) {
    if (buffer.role == isa::BufferRole::kParameter) parameters[buffer.index] = buffer.granule;
    if (buffer.role == isa::BufferRole::kOutput) outputs[buffer.index] = buffer.granule;
  }
  ASSERT_EQ(module.aliases.size(), 12U);
  for (const hlo::Alias& alias : module.aliases) {
    EXPECT_EQ(outputs.at(static_cast<std::uint32_t>(alias.output_index)),
              parameters.at(static_cast<std::uint32_t>(alias.parameter_number)));
  }
}

/// The gradient of a line's kernel is that of an image's, and so is what is made of it; the bytes
/// are the weight's.
TEST(HbmPlan, AWeightOfAnotherShapeTakesThePlaceOfTheOldOne) {
  const Module module = hlo::read_hlo_text(
      "test.hlo", R"(HloModule line, input_output_alias={ {}: (2, {}, may-alias) }
ENTRY main {
  x = f32[8,32,128] parameter(0)
  g = f32[8,32,128] parameter(1)
  w = f32[5,128,128] parameter(2)
  dw = f32[5,128,128] convolution(x, g), window={size=32 pad=2_2}, dim_labels=f0b_i0o->0bf
  ROOT new = f32[5,128,128] subtract(w, dw)
}
)");
  const compiler::ScheduledModule scheduled = compiler::schedule(module, v3(), nullptr);
  EXPECT_EQ(count(scheduled.module, HloOpcode::kCopy), 0U);
  check_plan(scheduled.module, scheduled.plan, "line");
}

TEST(HbmPlan, ParametersThatChangePlacesAreCopied) {
  GraphBuilder graph("swap");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {16, 128}));
  const Tensor y = graph.parameter("y", array_shape(ElementType::kF32, {16, 128}));
  Module module = graph.finish(graph.tuple({y, x}), {x, y});
  module.aliases = {{0, 0}, {1, 1}};
  const compiler::ScheduledModule scheduled = compiler::schedule(module, v3(), nullptr);
  // x and y are saved; the second copy can go to its place at once, the first one only after it.
  // Both saves are one kernel.
  EXPECT_EQ(count(scheduled.module, HloOpcode::kCopy), 1U);
  EXPECT_EQ(count(scheduled.module, HloOpcode::kFusion), 1U);
  check_plan(scheduled.module, scheduled.plan, "swap");
}

TEST(HbmPlan, AnAllReduceWorksOnOneRange) {
  frontend::WorkloadOptions options;
  options.replicas = 8;
  const Module module = frontend::build_workload("mlp", options).module;
  const compiler::ScheduledModule scheduled = compiler::schedule(module, v3(8), nullptr);
  ASSERT_EQ(count(scheduled.module, HloOpcode::kAllReduce), 1U);
  for (const HloInstruction& instruction : scheduled.module.entry_computation().instructions) {
    if (instruction.opcode != HloOpcode::kAllReduce) continue;
    const auto& places = scheduled.plan.granules_of[static_cast<std::size_t>(instruction.id)];
    for (std::size_t i = 1; i < places.size(); ++i) {
      EXPECT_EQ(places[i], places[i - 1] + compiler::granules(instruction.shape.elements[i - 1]));
    }
  }
}

TEST(HbmPlan, TheBatchOfAStepIsOneRangeAtTheBegin) {
  const Module module = frontend::build_workload("mlp").module;
  const compiler::ScheduledModule scheduled = compiler::schedule(module, v3(), nullptr);
  // 128 images of 784 pixels (7 tiles of 128) in f32, and 128 labels: one register of 4 KiB.
  EXPECT_EQ(scheduled.plan.infeed_granule, 0U);
  EXPECT_EQ(scheduled.plan.infeed_granules, 128U * 7 * 128 * 4 / 1024 + 4);
}

TEST(HbmPlan, WhatDoesNotFitIsReportedInTheWordsThatUsersKnow) {
  frontend::WorkloadOptions options;
  options.shape = "10000x100000x10000";
  const Module module = frontend::build_workload("matmul", options).module;
  Target v2 = v3();
  v2.hbm_bytes = (std::uint64_t{8} << 30) - v2.hbm_reserved_bytes;
  try {
    compiler::schedule(module, v2, nullptr);
    FAIL() << "expected the out-of-memory report";
  } catch (const WorkloadError& error) {
    // Left 10000 x 100096 x 4 bytes, right 100000 x 10112 x 4, product 10000 x 10112 x 4.
    EXPECT_EQ(error.exit_code(), ExitCode::kBadWorkload);
    EXPECT_EQ(std::string(error.what()),
              "Ran out of memory in memory space hbm. Used 8.39G of 8.00G hbm. Exceeded hbm "
              "capacity by 401.52M.\n"
              "Total hbm usage >= 8.39G:  reserved 532.00M  program 385.74M  arguments 7.50G\n"
              "  Largest program allocations in hbm:\n"
              "  1. Size: 3.77G  Operator: op_type=\"\" op_name=\"matmul/rhs\"  Shape: "
              "f32[100000,10000]{1,0:T(8,128)}\n"
              "     Unpadded size: 3.73G   Extra memory due to padding: 42.72M (1.0x expansion)\n"
              "  2. Size: 3.73G  Operator: op_type=\"\" op_name=\"matmul/lhs\"  Shape: "
              "f32[10000,100000]{1,0:T(8,128)}\n"
              "     Unpadded size: 3.73G   Extra memory due to padding: 3.66M (1.0x expansion)\n"
              "  3. Size: 385.74M  Operator: op_type=\"\" op_name=\"matmul/dot\"  Shape: "
              "f32[10000,10000]{1,0:T(8,128)}\n"
              "     Unpadded size: 381.47M   Extra memory due to padding: 4.27M (1.0x "
              "expansion)\n");
  }
}

TEST(HbmPlan, SizesHaveTwoDecimalsAndABinaryPrefix) {
  EXPECT_EQ(compiler::memory_size_text(0), "0B");
  EXPECT_EQ(compiler::memory_size_text(1023), "1023B");
  EXPECT_EQ(compiler::memory_size_text(1536), "1.50K");
  EXPECT_EQ(compiler::memory_size_text(std::uint64_t{27} << 30), "27.00G");
}

TEST(HbmPlan, ResNet50At128ImagesFitsACoreOfV2) {
  const Module module = frontend::build_workload("resnet50").module;
  Target v2 = v3();
  v2.hbm_bytes = (std::uint64_t{8} << 30) - v2.hbm_reserved_bytes;
  EXPECT_NO_THROW(compiler::schedule(module, v2, nullptr));
}

}  // namespace
}  // namespace tpu::test::passes_test
