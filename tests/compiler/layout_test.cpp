#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "tests/compiler/hlo_check.h"
#include "tests/compiler/run_compiled.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/ir/tile_parts.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/canonical_forms.h"
#include "workloads/compiler/passes/layout/layouts.h"
#include "workloads/compiler/passes/simplify/simplify.h"
#include "workloads/compiler/passes/simplify/unit_dimensions.h"
#include "workloads/frontend/graph_builder.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::layout_test {
namespace {

using compiler::DimensionOrder;
using compiler::order_behind_reshape;
using frontend::Extents;
using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::array_shape;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Module;

/// A module whose entry, which follows, may sum.
constexpr const char* kAdd = R"(HloModule test
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
)";

/// A module with this entry, whose arrays have their layouts.
Module laid_out(const std::string& entry) {
  Module module = hlo::read_hlo_text("test.hlo", kAdd + entry);
  compiler::assign_layouts(module);
  return module;
}

std::optional<DimensionOrder> behind(const Extents& from, const DimensionOrder& order,
                                     const Extents& to) {
  return order_behind_reshape(array_shape(ElementType::kF32, from), order,
                              array_shape(ElementType::kF32, to));
}

TEST(OrderBehindReshape, DimensionsOfRowsSplitInWholeTiles) {
  EXPECT_EQ(behind({8, 128, 768}, {0, 2, 1}, {8, 128, 3, 4, 64}), (DimensionOrder{0, 2, 3, 4, 1}));
  EXPECT_EQ(behind({8, 128, 3, 4, 64}, {0, 2, 3, 4, 1}, {8, 128, 768}), (DimensionOrder{0, 2, 1}));
  EXPECT_EQ(behind({8, 128, 60}, {0, 2, 1}, {8, 128, 5, 12}), std::nullopt);
}

TEST(OrderBehindReshape, DimensionsOfLanesDoNotSplit) {
  EXPECT_EQ(behind({8, 128, 768}, {0, 1, 2}, {8, 128, 12, 64}), std::nullopt);
  EXPECT_EQ(behind({8, 128, 768}, {0, 1, 2}, {1024, 768}), (DimensionOrder{0, 1}));
  EXPECT_EQ(behind({8, 20, 768}, {0, 1, 2}, {160, 768}), std::nullopt);
  EXPECT_EQ(behind({20, 8, 768}, {1, 0, 2}, {160, 768}), std::nullopt);
}

/// Where the rows are cut in eights, too: whole tiles stand above them.
TEST(OrderBehindReshape, LanesAndRowsAreTakenApartByTiles) {
  EXPECT_EQ(behind({8, 16, 768}, {0, 1, 2}, {8, 2, 8, 3, 256}), (DimensionOrder{0, 1, 3, 2, 4}));
  EXPECT_EQ(behind({8, 2, 8, 3, 256}, {0, 1, 3, 2, 4}, {8, 16, 768}), (DimensionOrder{0, 1, 2}));
  EXPECT_EQ(behind({768, 6, 16}, {1, 2, 0}, {3, 256, 6, 2, 8}), (DimensionOrder{2, 3, 0, 4, 1}));
  EXPECT_EQ(behind({8, 768}, {0, 1}, {8, 3, 256}), (DimensionOrder{1, 0, 2}));
  // Lanes or rows of parts of tiles, rows of two, another order of the parts.
  EXPECT_EQ(behind({8, 16, 768}, {0, 1, 2}, {8, 2, 8, 12, 64}), std::nullopt);
  EXPECT_EQ(behind({8, 16, 768}, {0, 1, 2}, {8, 4, 4, 3, 256}), std::nullopt);
  EXPECT_EQ(behind({8, 32, 768}, {0, 1, 2}, {8, 2, 16, 3, 256}), std::nullopt);
  EXPECT_EQ(behind({8, 2, 8, 3, 256}, {0, 3, 1, 2, 4}, {8, 16, 768}), std::nullopt);
}

TEST(OrderBehindReshape, DimensionsOfOneStandOutside) {
  EXPECT_EQ(behind({8, 128}, {1, 0}, {8, 1, 128}), (DimensionOrder{1, 2, 0}));
  EXPECT_EQ(behind({8, 1, 128}, {0, 2, 1}, {8, 128}), std::nullopt);  // 1 in the lanes
}

/// One copy of the operand as [n, s, h*d]; none where tiles would be cut.
TEST(CopyOfReshape, IsMadeInTheShapeOfWhatStaysTogether) {
  const auto copy = [](const Extents& from, const DimensionOrder& before, const Extents& to,
                       const DimensionOrder& behind) {
    return compiler::copy_of_reshape(array_shape(ElementType::kF32, from), before,
                                     array_shape(ElementType::kF32, to), behind);
  };
  const auto heads = copy({1024, 768}, {0, 1}, {8, 128, 12, 64}, {0, 2, 3, 1});
  ASSERT_TRUE(heads);
  EXPECT_EQ(heads->shape.dimensions, (Extents{8, 128, 768}));
  EXPECT_EQ(heads->from, (DimensionOrder{0, 1, 2}));
  EXPECT_EQ(heads->to, (DimensionOrder{0, 2, 1}));
  const auto merged = copy({8, 128, 12, 64}, {0, 2, 3, 1}, {1024, 768}, {0, 1});
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->shape.dimensions, (Extents{8, 128, 768}));
  EXPECT_EQ(merged->from, (DimensionOrder{0, 2, 1}));
  const auto own = copy({6, 4, 16, 640}, {0, 1, 2, 3}, {4, 6, 16, 10, 64}, {0, 1, 3, 4, 2});
  ASSERT_TRUE(own);  // Its own shape does, though 6*4 and 4*6 do not nest.
  EXPECT_EQ(own->shape.dimensions, (Extents{6, 4, 16, 640}));
  EXPECT_FALSE(copy({160, 768}, {0, 1}, {8, 20, 12, 64}, {0, 2, 3, 1}));    // 20 rows.
  EXPECT_FALSE(copy({1024, 768}, {0, 1}, {8, 128, 64, 12}, {0, 2, 3, 1}));  // 12 rows.
}

std::vector<std::uint8_t> random_bytes(const hlo::Shape& shape, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
  for (float& value : values) value = uniform(random);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
  return {bytes, bytes + 4 * values.size()};
}

/// Compiles and runs the module on random values and compares with the reference interpreter.
/// `rounds`: products are the MXU's.
void check_values(const Module& module, double tolerance, bool rounds = true) {
  std::mt19937 random(7);
  CoreArguments arguments;
  std::vector<reference::Value> values;
  const hlo::Computation& entry = module.entry_computation();
  for (hlo::InstructionId id : entry.parameters()) {
    arguments.parameters.push_back(random_bytes(entry.at(id).shape, random));
    values.push_back(reference::from_bytes(entry.at(id).shape, arguments.parameters.back()));
  }
  const CompiledRun run = run_compiled(module, {arguments});
  reference::InterpreterOptions options;
  options.round_matmul_operands_to_bf16 = rounds;
  const reference::Value expected = reference::Interpreter(module, options).run(values);
  const std::size_t count = expected.elements.empty() ? 1 : expected.elements.size();
  ASSERT_EQ(run.outputs[0].size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    const reference::Value& wanted = expected.elements.empty() ? expected : expected.elements[i];
    EXPECT_LT(distance(numbers_of(run.outputs[0][i]), numbers_of(wanted)), tolerance)
        << "result " << i;
  }
}

/// Self-attention of a transformer up to the projection of its result. `flat`: the tokens of all
/// examples are rows of one matrix.
Module attention(std::int64_t batch, std::int64_t tokens, std::int64_t heads, std::int64_t size,
                 bool flat = false) {
  GraphBuilder graph("attention");
  const std::int64_t features = heads * size;
  const Extents rows = flat ? Extents{batch * tokens} : Extents{batch, tokens};
  const auto by_token = [&](std::int64_t width) {
    Extents extents = rows;
    extents.push_back(width);
    return extents;
  };
  const auto last = static_cast<std::int64_t>(rows.size());
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, by_token(features)));
  const Tensor weights =
      graph.parameter("qkv", array_shape(ElementType::kF32, {features, 3 * features}));
  const Tensor out = graph.parameter("out", array_shape(ElementType::kF32, {features, features}));
  const Tensor qkv = graph.dot(x, weights, {{}, {}, {last}, {0}}, ElementType::kF32);
  const Tensor split = graph.reshape(qkv, {batch, tokens, 3, heads, size});
  const auto part = [&](std::int64_t i) {
    return graph.reshape(graph.slice(split, {0, 0, i, 0, 0}, {batch, tokens, i + 1, heads, size}),
                         {batch, tokens, heads, size});
  };
  const Tensor scores = graph.dot(part(0), part(1), {{0, 2}, {0, 2}, {3}, {3}}, ElementType::kF32);
  const Tensor context = graph.dot(part(2), scores, {{0, 2}, {0, 1}, {1}, {3}}, ElementType::kF32);
  const Tensor merged = graph.reshape(graph.transpose(context, {0, 3, 1, 2}), by_token(features));
  const Tensor result = graph.dot(merged, out, {{}, {}, {last}, {0}}, ElementType::kF32);
  return graph.finish(result, {x, weights, out});
}

TEST(LayoutSearch, HeadsOfAttentionAreSplitAndMergedInPlace) {
  Module module = attention(2, 128, 4, 64);
  compiler::simplify(module);
  compiler::use_canonical_forms(module);
  compiler::simplify(module);
  compiler::assign_layouts(module);
  compiler::find_bitcasts(module);
  for (const HloInstruction& instruction : module.entry_computation().instructions) {
    EXPECT_NE(instruction.opcode, HloOpcode::kReshape) << instruction.name;
    EXPECT_NE(instruction.opcode, HloOpcode::kTranspose) << instruction.name;
    EXPECT_NE(instruction.opcode, HloOpcode::kCopy) << instruction.name;
    // No array takes more than its elements: extents of 64 stand in no lanes.
    EXPECT_EQ(instruction.shape.padded_bytes(), instruction.shape.unpadded_bytes())
        << instruction.name << " " << hlo::to_string(instruction.shape);
  }
}

/// Tokens of all examples in one matrix lie in its rows. Splitting and merging heads transposes
/// matrices of tokens and features then, without heads of 64 in 128 lanes on the way.
TEST(LayoutSearch, HeadsOfAMatrixOfTokensAreSplitAndMergedByOneCopy) {
  Module module = attention(2, 128, 4, 64, true);
  compiler::simplify(module);
  compiler::use_canonical_forms(module);
  compiler::simplify(module);
  compiler::assign_layouts(module);
  compiler::find_bitcasts(module);
  std::size_t copies = 0;
  for (const HloInstruction& instruction : module.entry_computation().instructions) {
    EXPECT_NE(instruction.opcode, HloOpcode::kReshape) << instruction.name;
    EXPECT_NE(instruction.opcode, HloOpcode::kTranspose) << instruction.name;
    EXPECT_EQ(instruction.shape.padded_bytes(), instruction.shape.unpadded_bytes())
        << instruction.name << " " << hlo::to_string(instruction.shape);
    copies += instruction.opcode == HloOpcode::kCopy ? 1 : 0;
  }
  EXPECT_EQ(copies, 2U);  // Of what is split, of what is merged.
}

TEST(LayoutSearch, AttentionHasTheValuesOfTheReference) {
  check_values(attention(2, 24, 3, 16), 1e-2);
  check_values(attention(2, 24, 3, 16, true), 1e-2);
}

/// Pictures of one feature as a vector, and back: no element has a row of lanes for itself.
TEST(LayoutSearch, DimensionsOfOneStandInNoLanesBesideAVector) {
  for (const bool splits : {false, true}) {
    GraphBuilder graph("ravel");
    const Extents pictures{19, 44, 1}, vector{19 * 44};
    const Tensor x =
        graph.parameter("x", array_shape(ElementType::kF32, splits ? vector : pictures));
    const Tensor y = graph.reshape(x, splits ? pictures : vector);
    Module module = graph.finish(graph.unary(HloOpcode::kExponential, y), {x});
    check_values(module, 1e-5);
    compiler::assign_layouts(module);
    compiler::find_bitcasts(module);
    for (const HloInstruction& instruction : module.entry_computation().instructions) {
      EXPECT_LE(instruction.shape.padded_bytes(), 24 * 512 * 4)
          << hlo::to_string(instruction.shape);
    }
  }
}

/// Sounds of one feature in parts: likewise.
TEST(LayoutSearch, DimensionsOfOneStandInNoLanesBesideOthers) {
  GraphBuilder graph("parts");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {16, 1000, 1}));
  const Tensor parts = graph.reshape(graph.unary(HloOpcode::kExponential, x), {128, 125, 1});
  Module module = graph.finish(graph.unary(HloOpcode::kNegate, parts), {x});
  check_values(module, 1e-5);
  compiler::assign_layouts(module);
  compiler::find_bitcasts(module);
  for (const HloInstruction& instruction : module.entry_computation().instructions) {
    EXPECT_LE(instruction.shape.padded_bytes(), 16 * 1024 * 4) << hlo::to_string(instruction.shape);
  }
}

TEST(LayoutSearch, ArraysWithFewColumnsLieTheOtherWayRound) {
  GraphBuilder graph("logits");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {128, 1024}));
  const Tensor weights = graph.parameter("w", array_shape(ElementType::kF32, {1024, 10}));
  const Tensor result = graph.dot(x, weights, {{}, {}, {1}, {0}}, ElementType::kF32);
  Module module = graph.finish(result, {x, weights});
  compiler::assign_layouts(module);
  const hlo::Computation& entry = module.entry_computation();
  EXPECT_EQ(hlo::to_string(entry.at(entry.parameters()[1]).shape), "f32[1024,10]{0,1:T(8,128)}");
}

/// 24 sines of each of 4,096 rows beside 200 features, in front of a product.
Module encoded_positions(const std::string& expression) {
  return hlo::read_hlo_text("test.hlo", R"(HloModule encoded
ENTRY main {
  x = f32[4096,24] parameter(0)
  features = f32[4096,200] parameter(1)
  w = f32[224,256] parameter(2)
  s = f32[4096,24] )" + expression + R"((x)
  all = f32[4096,224] concatenate(features, s), dimensions={1}
  ROOT y = f32[4096,256] dot(all, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)");
}

/// The order of the result of an instruction, minor dimension first.
std::vector<std::int64_t> order_of(const Module& module, const std::string& name) {
  for (const HloInstruction& instruction : module.entry_computation().instructions) {
    if (instruction.name == name) return instruction.shape.layout.minor_to_major;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

/// A sine takes so long that the rows go into the lanes and its result is copied; what takes no
/// time lies as the features beside it.
TEST(LayoutSearch, ExpressionsOverFewLanesLieOtherwiseThanWhatTheyAreConcatenatedWith) {
  using Order = std::vector<std::int64_t>;
  for (const std::string expression : {"sine", "negate"}) {
    SCOPED_TRACE(expression);
    Module module = encoded_positions(expression);
    compiler::assign_layouts(module);
    EXPECT_EQ(order_of(module, "s"), expression == "sine" ? (Order{0, 1}) : (Order{1, 0}));
    EXPECT_EQ(order_of(module, "all"), (Order{1, 0}));
    check_values(encoded_positions(expression), 1e-2);
  }
}

/// Copies between orders write what matrices pad, and turn it: scores of 33 words stay in the
/// orders of their products, though with the examples in the lanes they would be a fourth.
TEST(LayoutSearch, ScoresOfFewWordsLieAsTheirProductsDo) {
  const Module module = laid_out(R"(ENTRY main {
  q = f32[256,33,4,16] parameter(0)
  k = f32[256,33,4,16] parameter(1)
  v = f32[256,33,4,16] parameter(2)
  s = f32[256,4,33,33] dot(q, k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
  zero = f32[] constant(0)
  e = f32[256,4,33,33] exponential(s)
  z = f32[256,4,33] reduce(e, zero), dimensions={3}, to_apply=add
  zb = f32[256,4,33,33] broadcast(z), dimensions={0,1,2}
  p = f32[256,4,33,33] divide(e, zb)
  ROOT o = f32[256,4,33,16] dot(p, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={1}
}
)");
  const std::vector<std::int64_t> order = order_of(module, "p");
  EXPECT_EQ(order_of(module, "s"), order);
  EXPECT_NE(order[0], 0);
  EXPECT_NE(order[1], 0);
}

/// What is read again for each index outside of its own dimensions is counted so often: 45 MiB for
/// each of eight features; with the features inside of a head's matrices they stay in VMEM.
TEST(LayoutSearch, WhatComesAgainFitsVmem) {
  const Module module = laid_out(R"(ENTRY main {
  x = f32[336,16,8,42] parameter(0)
  p = f32[336,16,42,42] parameter(1)
  xb = f32[336,16,8,42,42] broadcast(x), dimensions={0,1,2,4}
  pb = f32[336,16,8,42,42] broadcast(p), dimensions={0,1,3,4}
  product = f32[336,16,8,42,42] multiply(xb, pb)
  zero = f32[] constant(0)
  ROOT y = f32[336,16,8,42] reduce(product, zero), dimensions={4}, to_apply=add
}
)");
  EXPECT_NE(order_of(module, "product").back(), 2);
}

/// One of six stacked arrays, taken and put back by an index, whose consumer is a dot with its
/// groups of 16 as batches.
Module part_of_stack() {
  return hlo::read_hlo_text("test.hlo", R"(HloModule part
ENTRY main {
  stack = f32[6,200,4,16] parameter(0)
  i = s32[] parameter(1)
  w = f32[4,40,16] parameter(2)
  zero = s32[] constant(0)
  part = f32[1,200,4,16] dynamic-slice(stack, i, zero, zero, zero), dynamic_slice_sizes={1,200,4,16}
  x = f32[200,4,16] reshape(part)
  h = f32[200,4,16] exponential(x)
  d = f32[4,200,40] dot(h, w), lhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={2}
  g = f32[4,200,40] exponential(d)
  b = f32[1,200,4,16] reshape(h)
  made = f32[6,200,4,16] dynamic-update-slice(stack, b, i, zero, zero, zero)
  ROOT r = (f32[4,200,40], f32[6,200,4,16]) tuple(g, made)
}
)");
}

TEST(LayoutSearch, PartsTakenByAnIndexLieAsTheirConsumersWantAndInWholeTiles) {
  Module module = part_of_stack();
  compiler::assign_layouts(module);
  const hlo::Computation& entry = module.entry_computation();
  int parts = 0;
  for (const HloInstruction& instruction : entry.instructions) {
    if (instruction.opcode != HloOpcode::kDynamicSlice &&
        instruction.opcode != HloOpcode::kDynamicUpdateSlice) {
      continue;
    }
    ++parts;
    const std::vector<std::int64_t>& minor_to_major = instruction.shape.layout.minor_to_major;
    EXPECT_EQ(minor_to_major.back(), 0) << "the matrices that the index counts stay apart";
    // In row-major order 4 rows of 16 lanes fill a sixteenth of the tiles.
    EXPECT_TRUE(minor_to_major[0] == 1 || minor_to_major[1] == 1) << "200 rows lie in the tiles";
  }
  EXPECT_EQ(parts, 2);
  for (const HloInstruction& instruction : entry.instructions) {
    EXPECT_NE(instruction.opcode, HloOpcode::kCopy) << instruction.name;
  }
}

/// 4096 small matrices would fill tiles if they lay along the lanes; one of them would then be no
/// whole tiles.
TEST(LayoutSearch, WhatAnIndexCountsStaysOutOfTheTiles) {
  Module module = hlo::read_hlo_text("test.hlo", R"(HloModule part
ENTRY main {
  stack = f32[4096,4,3] parameter(0)
  i = s32[] parameter(1)
  zero = s32[] constant(0)
  part = f32[1,4,3] dynamic-slice(stack, i, zero, zero), dynamic_slice_sizes={1,4,3}
  all = f32[4096,4,3] exponential(stack)
  ROOT r = (f32[1,4,3], f32[4096,4,3]) tuple(part, all)
}
)");
  const auto lanes = [](const Module& laid_out) {
    const hlo::Computation& entry = laid_out.entry_computation();
    return entry.at(entry.parameters()[0]).shape.layout.minor_to_major[0];
  };
  Module without_part = module;
  hlo::Computation& entry = without_part.entry_computation();
  for (HloInstruction& instruction : entry.instructions) {
    if (instruction.opcode != HloOpcode::kTuple) continue;
    instruction.operands.erase(instruction.operands.begin());
    instruction.shape.elements.erase(instruction.shape.elements.begin());
  }
  compiler::tidy(entry);
  compiler::assign_layouts(module);
  compiler::assign_layouts(without_part);
  EXPECT_NE(lanes(module), 0);
  EXPECT_EQ(lanes(without_part), 0);
}

/// Six features of two examples fill 12 of the 1024 elements of a tile as convolutions have them. A
/// loss of sines and sums over the pixels has them lie otherwise and copies what it reads and
/// makes; what is short stays in the kernels of the convolutions.
TEST(LayoutSearch, LongExpressionsOverFewFeaturesLeaveTheOrderOfTheirConvolutions) {
  const auto text = [](const std::string& expression) {
    return std::string(kAdd) + R"(ENTRY main {
  x = f32[2,32,32,16] parameter(0)
  w = f32[3,3,16,6] parameter(1)
  t = f32[2,32,32,6] parameter(2)
  y = f32[2,32,32,6] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  d = f32[2,32,32,6] subtract(y, t)
  s = f32[2,32,32,6] )" +
           expression + R"((d)
  zero = f32[] constant(0)
  sum = f32[] reduce(s, zero), dimensions={0,1,2,3}, to_apply=add
  dx = f32[2,32,32,16] convolution(s, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01oi->b01f
  ROOT r = (f32[], f32[2,32,32,16]) tuple(sum, dx)
}
)";
  };
  for (const std::string expression : {"sine", "negate"}) {
    Module module = hlo::read_hlo_text("test.hlo", text(expression));
    compiler::assign_layouts(module);
    std::size_t copies = 0, granules = 0;
    for (const HloInstruction& instruction : module.entry_computation().instructions) {
      EXPECT_NE(instruction.opcode, HloOpcode::kReshape);
      copies += instruction.opcode == HloOpcode::kCopy ? 1 : 0;
      if (instruction.name == "s") granules = compiler::granules(instruction.shape);
    }
    EXPECT_EQ(copies, expression == "sine" ? 2U : 0U);
    EXPECT_EQ(granules, expression == "sine" ? 2U * 6 * 4 * 4 : 32U * 32 * 4);
    // Sines that differ in their last bit are rounded to other neighbours for the product.
    HloCheck check;
    check.tolerance = 1e-3;
    check_hlo(text(expression), check);
  }
}

/// Two choices of a place out of 320 for each of 1024 tokens and 8 experts, as a mixture of experts
/// has them: tokens along the lanes leave no padding, but 10 MB of sums would wait for the second.
/// Lane tiles of a long row are added to each other before the XLU adds the lanes: words of a
/// vocabulary lie there. What is spread back over rows goes through the XLU, too: a batch that
/// fills the lanes stays there.
TEST(LayoutSearch, SumsAlongLongRowsLieInTheLanes) {
  const auto order_of_scores = [](const frontend::Extents& extents) {
    GraphBuilder graph("loss");
    const std::int64_t rows = extents[0] * extents[1], words = extents[2];
    const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {rows, 64}));
    const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {64, words}));
    const Tensor scores =
        graph.reshape(graph.dot(x, w, {{}, {}, {1}, {0}}, ElementType::kF32), extents);
    const Tensor most = graph.broadcast(graph.reduce_max(scores, {2}), extents, {0, 1});
    const Tensor power = graph.unary(HloOpcode::kExponential, graph.subtract(scores, most));
    const Tensor sum = graph.broadcast(graph.reduce_sum(power, {2}), extents, {0, 1});
    const Tensor share = graph.divide(power, sum);
    const Tensor lines = graph.reshape(share, {rows, words});
    const Tensor back = graph.dot(lines, w, {{}, {}, {1}, {1}}, ElementType::kF32);
    const Tensor update = graph.dot(x, lines, {{}, {}, {0}, {0}}, ElementType::kF32);
    Module module = graph.finish(graph.tuple({back, update}), {x, w});
    compiler::assign_layouts(module);
    for (const HloInstruction& each : module.entry_computation().instructions) {
      if (each.opcode == HloOpcode::kDivide) return each.shape.layout.minor_to_major;
    }
    return std::vector<std::int64_t>{};
  };
  EXPECT_EQ(order_of_scores({8, 256, 8192})[0], 2);
  EXPECT_EQ(order_of_scores({128, 49, 1024})[0], 0);
}

/// Matrices of any rows, of which no eight fit VMEM, are cut along their lanes; for sums along
/// these the rows stay short.
TEST(LayoutSearch, LongLanesAreCutUnderSumsOfTheirRows) {
  const auto lanes_of = [](const frontend::Extents& extents, std::int64_t along) {
    GraphBuilder graph("mean");
    const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, extents));
    frontend::Extents kept;
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(extents.size()); ++d) {
      if (d != along) kept.push_back(d);
    }
    const Tensor sums = graph.broadcast(graph.reduce_sum(x, {along}), extents, kept);
    Module module = graph.finish(graph.tuple({graph.subtract(x, sums)}), {x});
    compiler::assign_layouts(module);
    return module.entry_computation().at(0).shape.layout.minor_to_major;
  };
  EXPECT_EQ(lanes_of({11, 500001}, 0), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(lanes_of({100, 300001}, 0), (std::vector<std::int64_t>{1, 0}));
  EXPECT_NE(lanes_of({11, 500001}, 1)[0], 1);
  // Of three rows four are moved, of sixteen all.
  EXPECT_EQ(lanes_of({3, 16, 300001}, 1), (std::vector<std::int64_t>{2, 1, 0}));
  // Of two rows two are moved, of nine sixteen.
  EXPECT_EQ(lanes_of({2, 9, 300001}, 0), (std::vector<std::int64_t>{2, 0, 1}));
}

/// What a pad moves along the lanes would go by another order.
TEST(LayoutSearch, PadsMoveAlongRows) {
  GraphBuilder graph("shifted");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {8, 512, 64}));
  Tensor sum = x;
  for (const std::int64_t by : {1, 2, 4, 8, 16, 32, 64}) {
    sum = graph.add(sum, graph.pad(sum, {{0, 0, 0}, {by, -by, 0}, {0, 0, 0}}));
  }
  Module module = graph.finish(graph.reduce_sum(graph.multiply(x, sum), {1}), {x});
  compiler::assign_layouts(module);
  for (const HloInstruction& each : module.entry_computation().instructions) {
    if (each.opcode != HloOpcode::kPad) continue;
    EXPECT_NE(each.shape.layout.minor_to_major[0], 1);
  }
}

TEST(LayoutSearch, SumsThatVmemDoesNotHoldAreMadePartByPart) {
  const Module module = hlo::read_hlo_text("test.hlo", std::string(kAdd) + R"(ENTRY main {
  chance = f32[1024,2,8] parameter(0)
  weight = f32[1024,2,8] parameter(1)
  many = f32[] constant(319)
  manys = f32[1024,2,8] broadcast(many), dimensions={}
  where = f32[1024,2,8] multiply(chance, manys)
  place = s32[1024,2,8] convert(where)
  i = s32[1024,2,8,320] iota(), iota_dimension=3
  p = s32[1024,2,8,320] broadcast(place), dimensions={0,1,2}
  is = pred[1024,2,8,320] compare(p, i), direction=EQ
  one = f32[1024,2,8,320] convert(is)
  w = f32[1024,2,8,320] broadcast(weight), dimensions={0,1,2}
  m = f32[1024,2,8,320] multiply(one, w)
  z = f32[] constant(0)
  ROOT r = f32[1024,8,320] reduce(m, z), dimensions={1}, to_apply=add
}
)");
  check_values(module, 1e-6);
}

/// The gradient of a small layer over rows of a batch: with the rows in the lanes each example is a
/// product of its own, with the batch in them there are fewer, of whole arrays.
TEST(LayoutSearch, ManySmallProductsTakeWhatTheirKernelSays) {
  const Module module = laid_out(R"(ENTRY main {
  x = f32[512,26,16] parameter(0)
  g = f32[512,26,16] parameter(1)
  t = f32[512,26,16] tanh(x)
  u = f32[512,26,16] tanh(g)
  ROOT d = f32[16,16] dot(t, u), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}
}
)");
  for (const HloInstruction& each : module.entry_computation().instructions) {
    if (each.shape.rank() != 3) continue;
    EXPECT_EQ(each.shape.layout.minor_to_major[0], 0) << each.name;
    EXPECT_NE(each.opcode, HloOpcode::kCopy);
  }
}

/// What a transposed convolution makes of a pixel leaves its lanes for the rows and images between
/// which it stands: the reshapes on both sides move parts of lanes and rows in turns, and nothing
/// else moves.
TEST(LayoutSearch, PixelsArePutBetweenEachOtherByTheirParts) {
  const Module module = laid_out(R"(ENTRY main {
  x = f32[2,16,16,16,64] parameter(0)
  w = f32[256,64] parameter(1)
  g = f32[65536,32] parameter(2)
  pixels = f32[2,16,16,16,256] dot(x, w), lhs_contracting_dims={4}, rhs_contracting_dims={1}
  parts = f32[2,16,16,16,2,2,2,32] reshape(pixels)
  between = f32[2,16,2,16,2,16,2,32] transpose(parts), dimensions={0,1,4,2,5,3,6,7}
  volume = f32[2,32,32,32,32] reshape(between)
  rows = f32[65536,32] reshape(volume)
  ROOT d = f32[32,32] dot(g, rows), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
)");
  int moved = 0;
  for (const HloInstruction& each : module.entry_computation().instructions) {
    EXPECT_NE(each.opcode, HloOpcode::kCopy) << each.name;
    if (each.opcode != HloOpcode::kReshape) continue;
    const auto parts =
        compiler::tile_parts(module.entry_computation().at(each.operands[0]).shape, each.shape);
    if (!parts) continue;
    ++moved;
    EXPECT_EQ(parts->of_rows, each.name == "volume");
  }
  EXPECT_EQ(moved, 2);
}

/// Sums of rows that leave as rows are kept register by register, and added then: a few terms lie
/// above the tiles.
TEST(LayoutSearch, FewTermsOfManySumsLieInNoRows) {
  const Module module = laid_out(R"(ENTRY main {
  x = f32[512,26,26,8] parameter(0)
  y = f32[512,26,26,8] parameter(1)
  z = f32[512,26,26,8] multiply(x, y)
  zero = f32[] constant(0)
  ROOT s = f32[512,26,26] reduce(z, zero), dimensions={3}, to_apply=add
}
)");
  for (const HloInstruction& each : module.entry_computation().instructions) {
    if (each.shape.rank() != 4) continue;
    EXPECT_NE(each.shape.layout.minor_to_major[1], 3) << each.name;
  }
}

/// As random numbers are made of bits.
TEST(LayoutSearch, BitsOfFewLanesLieTheOtherWayRoundWithTheirNumbers) {
  const Module module = laid_out(R"(ENTRY main {
  at = u32[128,336,21] iota(), iota_dimension=1
  nine = u32[] constant(9)
  nines = u32[128,336,21] broadcast(nine), dimensions={}
  less = u32[128,336,21] shift-right-logical(at, nines)
  bits = u32[128,336,21] or(less, nines)
  number = f32[128,336,21] bitcast-convert(bits)
  x = f32[128,336,21] parameter(0)
  ROOT r = f32[128,336,21] multiply(x, number)
}
)");
  for (const HloInstruction& each : module.entry_computation().instructions) {
    if (each.shape.rank() != 3) continue;
    EXPECT_NE(each.shape.layout.minor_to_major[0], 2) << each.name;
    EXPECT_NE(each.opcode, HloOpcode::kCopy);
  }
}

/// Keys against queries of a small head, the batch in the lanes: sums of rows keep a register for
/// each result until the end, which is eight times the result.
TEST(LayoutSearch, SumsOfRowsThatVmemDoesNotHoldAreOfAnotherDimension) {
  const Module module = laid_out(R"(ENTRY main {
  x = f32[512,4,39,8] parameter(0)
  y = f32[512,4,39,8] parameter(1)
  xb = f32[512,4,39,39,8] broadcast(x), dimensions={0,1,2,4}
  yb = f32[512,4,39,39,8] broadcast(y), dimensions={0,1,3,4}
  z = f32[512,4,39,39,8] multiply(xb, yb)
  zero = f32[] constant(0)
  ROOT s = f32[512,4,39,39] reduce(z, zero), dimensions={4}, to_apply=add
}
)");
  for (const HloInstruction& each : module.entry_computation().instructions) {
    if (each.opcode != HloOpcode::kMultiply) continue;
    const std::vector<std::int64_t>& order = each.shape.layout.minor_to_major;
    EXPECT_EQ(order[0], 0);
    EXPECT_NE(order[1], 4);
  }
}

/// Eight rows of 300,001 lanes, twice, do not fit VMEM: kernels cut the lanes, of few rows.
TEST(LayoutSearch, FewRowsHaveAnyNumberOfLanes) {
  const Module module = laid_out(R"(
ENTRY main {
  x = f32[3,300001] parameter(0)
  k = f32[] constant(0)
  s = f32[3] reduce(x, k), dimensions={1}, to_apply=add
  b = f32[3,300001] broadcast(s), dimensions={0}
  ROOT y = f32[3,300001] divide(x, b)
}
)");
  const hlo::Computation& entry = module.entry_computation();
  EXPECT_EQ(entry.at(entry.root).shape.layout.minor_to_major, (Extents{1, 0}));
}

/// Coordinates, one vector each, that become columns: rows of the array as it lies.
TEST(LayoutSearch, ColumnsThatAreStackedAreRows) {
  const Module module = laid_out(R"(
ENTRY main {
  a = f32[4096] parameter(0)
  b = f32[4096] parameter(1)
  c = f32[4096] multiply(a, b)
  d = f32[4096,1] reshape(a)
  e = f32[4096,1] reshape(b)
  f = f32[4096,1] reshape(c)
  ROOT g = f32[4096,3] concatenate(d, e, f), dimensions={1}
}
)");
  for (const HloInstruction& each : module.entry_computation().instructions) {
    if (each.shape.rank() == 2) {
      EXPECT_EQ(each.shape.layout.minor_to_major, (Extents{0, 1})) << each.name;
    }
  }
}

/// Slices that ask for an order of their own share the copy that has it.
TEST(LayoutSearch, CopiesOfAValueInOneOrderAreOne) {
  const Module module = laid_out(R"(
ENTRY main {
  x = f32[8,3000,4] parameter(0)
  a = f32[8,1000,4] slice(x), slice={[0:8], [0:3000:3], [0:4]}
  b = f32[8,1000,4] slice(x), slice={[0:8], [1:3000:3], [0:4]}
  c = f32[8,1000,4] slice(x), slice={[0:8], [2:3000:3], [0:4]}
  d = f32[8,1000,4] add(a, b)
  ROOT e = f32[8,1000,4] multiply(d, c)
}
)");
  const auto& all = module.entry_computation().instructions;
  const auto copies = std::count_if(all.begin(), all.end(), [](const HloInstruction& each) {
    return each.opcode == HloOpcode::kCopy && each.shape.dimensions[1] == 3000;
  });
  EXPECT_EQ(copies, 1);
}

/// Rows of eight numbers are gathered from a table, and added to one whose `update` gives the next.
std::string table_of_rows(const std::string& update) {
  return std::string(kAdd) + R"(
ENTRY main {
  table = f32[4096,8] parameter(0)
  moment = f32[4096,8] parameter(1)
  square = f32[4096,8] parameter(2)
  places = s32[512] parameter(3)
  rows = f32[512,8] gather(table, places), offset_dims={1}, collapsed_slice_dims={0},
      start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}
  zero = f32[] constant(0)
  none = f32[4096,8] broadcast(zero), dimensions={}
  slopes = f32[512,8] sine(rows)
  sums = f32[4096,8] scatter(none, places, slopes), update_window_dims={1},
      inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
)" + update +
         "\n}\n";
}

/// What an optimiser makes of a whole table is worth copies of it: the rows alone are padding, but
/// gathers and scatters need them.
TEST(LayoutSearch, TablesThatAreUpdatedLieTheOtherWayRound) {
  const std::string text = table_of_rows(R"(
  next = f32[4096,8] add(moment, sums)
  sums2 = f32[4096,8] multiply(sums, sums)
  next2 = f32[4096,8] add(square, sums2)
  step = f32[4096,8] multiply(next, next2)
  changed = f32[4096,8] subtract(table, step)
  ROOT r = (f32[4096,8], f32[4096,8], f32[4096,8], f32[512,8])
      tuple(changed, next, next2, rows))");
  Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::assign_layouts(module);
  const hlo::Computation& entry = module.entry_computation();
  for (const std::size_t parameter : {0, 1, 2}) {
    EXPECT_EQ(hlo::to_string(entry.at(entry.parameters()[parameter]).shape),
              "f32[4096,8]{0,1:T(8,128)}");
  }
  for (const HloInstruction& instruction : entry.instructions) {
    if (instruction.opcode != HloOpcode::kGather && instruction.opcode != HloOpcode::kScatter) {
      continue;
    }
    EXPECT_EQ(hlo::to_string(entry.at(instruction.operands[0]).shape), "f32[4096,8]{1,0:T(8,128)}");
  }
  check_hlo(text);
}

TEST(LayoutSearch, TablesWhoseRowsAloneAreReadLieByRows) {
  Module module = hlo::read_hlo_text("test.hlo", table_of_rows("  ROOT r = f32[512,8] abs(rows)"));
  compiler::assign_layouts(module);
  const hlo::Computation& entry = module.entry_computation();
  EXPECT_EQ(hlo::to_string(entry.at(entry.parameters()[0]).shape), "f32[4096,8]{1,0:T(8,128)}");
}

/// Of the dimensions that a gradient of weights contracts one fills the MXUs: the other stands
/// above the matrices, and none is copied for it.
TEST(CanonicalForms, ContractedDimensionsStayApartWhereOneFillsTheMxus) {
  for (const auto& [points, merged] : {std::pair(600, false), std::pair(60, true)}) {
    const std::string n = std::to_string(points);
    Module module = hlo::read_hlo_text("test.hlo", kAdd + (R"(
ENTRY main {
  x = f32[100,)" + n + R"(,3] parameter(0)
  y = f32[100,)" + n + R"(,3] parameter(1)
  ROOT w = f32[100,100] dot(x, y), lhs_contracting_dims={1,2}, rhs_contracting_dims={1,2}
}
)"));
    compiler::use_canonical_forms(module);
    const hlo::Computation& entry = module.entry_computation();
    ASSERT_EQ(entry.at(entry.root).opcode, HloOpcode::kDot);
    const hlo::DotDimensions dims = entry.at(entry.root).dot;
    EXPECT_EQ(dims.lhs_contracting.size(), merged ? 1U : 2U) << points;
  }
}

/// Layouts of the parameters and results of a program that has the right values, in order, and its
/// number of kernels.
std::string compiled_orders(const std::string& header, const std::string& entry) {
  const CompiledRun run =
      check_hlo("HloModule given" + header + "\nENTRY main {\n" + entry + "}\n");
  std::map<std::pair<int, std::uint32_t>, std::string> orders;
  for (const isa::Buffer& buffer : run.program.buffers) {
    const bool is_result = buffer.role == isa::BufferRole::kOutput;
    if (!is_result && buffer.role != isa::BufferRole::kParameter) continue;
    const std::size_t open = buffer.shape.find('{');
    orders[{is_result, buffer.index}] =
        buffer.shape.substr(open + 1, buffer.shape.find(':') - open - 1);
  }
  std::string text;
  for (const auto& [key, order] : orders) text += (key.first != 0 ? "result " : "") + order + "; ";
  return text + std::to_string(run.program.ops.size()) + " kernels";
}

TEST(GivenOrders, ParametersAndResultsLieAsTheModuleStates) {
  const std::string entry =
      "  x = f32[40,300] parameter(0)\n  y = f32[300,264] parameter(1)\n"
      "  d = f32[40,264] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  t = f32[300,264] tanh(y)\n  ROOT r = (f32[40,264], f32[300,264]) tuple(d, t)\n";
  const auto header = [](const std::string& x, const std::string& y, const std::string& d,
                         const std::string& t) {
    return ", entry_computation_layout={(f32[40,300]" + x + ", f32[300,264]" + y +
           ")->(f32[40,264]" + d + ", f32[300,264]" + t + ")}";
  };
  const auto place = [&](std::size_t number, const std::string& layouts) {
    std::string orders = compiled_orders(layouts, entry);
    for (; number > 0; --number) orders = orders.substr(orders.find(';') + 2);
    return orders.substr(0, orders.find(';'));
  };
  // Row-major order is none that is stated.
  const std::string free = compiled_orders("", entry);
  EXPECT_EQ(compiled_orders(header("{1,0}", "{1,0}", "{1,0}", "{1,0}"), entry), free);
  EXPECT_EQ(free, "1,0; 0,1; result 1,0; result 0,1; 1 kernels");
  EXPECT_EQ(place(0, header("{0,1}", "", "", "")), "0,1");
  EXPECT_EQ(place(1, header("", "{0,1}", "", "")), "0,1");
  EXPECT_EQ(place(2, header("", "", "{0,1}", "")), "result 0,1");
  EXPECT_EQ(place(3, header("", "", "", "{0,1}")), "result 0,1");
  EXPECT_EQ(compiled_orders(header("{0,1}", "{0,1}", "{0,1}", "{0,1}"), entry).substr(0, 32),
            "0,1; 0,1; result 0,1; result 0,1");
  // Without a layout of the entry the parameters' own count; what the root has is none.
  EXPECT_EQ(compiled_orders("",
                            "  x = f32[40,300]{0,1} parameter(0)\n"
                            "  ROOT t = f32[40,300]{1,0} tanh(x)\n"),
            "0,1; result 0,1; 1 kernels");
  EXPECT_EQ(compiled_orders("",
                            "  x = f32[40,300] parameter(0)\n"
                            "  ROOT t = f32[40,300]{0,1} tanh(x)\n"),
            "1,0; result 1,0; 1 kernels");
  EXPECT_EQ(compiled_orders(", entry_computation_layout={(f32[40,300]{1,0})->f32[40,300]{0,1}}",
                            "  x = f32[40,300]{0,1} parameter(0)\n"
                            "  ROOT t = f32[40,300] tanh(x)\n"),
            "0,1; result 0,1; 1 kernels");
}

TEST(GivenOrders, AResultInTheMemoryOfAParameterLiesAsTheParameter) {
  const std::string entry =
      "  x = f32[40,300] parameter(0)\n  one = f32[] constant(1)\n"
      "  ones = f32[40,300] broadcast(one), dimensions={}\n  y = f32[40,300] add(x, ones)\n"
      "  ROOT r = (f32[40,300]) tuple(y)\n";
  const std::string alias = ", input_output_alias={ {0}: (0, {}, may-alias) }";
  EXPECT_EQ(
      compiled_orders(alias + ", entry_computation_layout={(f32[40,300]{0,1})->(f32[40,300]{1,0})}",
                      entry),
      "0,1; result 0,1; 1 kernels");
}

/// The search tries the order that is given, which no pair of minor dimensions would be; a result
/// in the memory of a parameter has it, too.
TEST(GivenOrders, AreTriedByTheSearch) {
  EXPECT_EQ(compiled_orders("",
                            "  x = f32[5,7,16,200]{3,2,0,1} parameter(0)\n"
                            "  ROOT t = f32[5,7,16,200] tanh(x)\n"),
            "3,2,0,1; result 3,2,0,1; 1 kernels");
  const std::string updated =
      compiled_orders(", input_output_alias={ {0}: (0, {}, may-alias) }",
                      "  w = f32[40,264]{0,1} parameter(0)\n  x = f32[40,300] parameter(1)\n"
                      "  y = f32[300,264] parameter(2)\n"
                      "  d = f32[40,264] dot(x, y), lhs_contracting_dims={1}, "
                      "rhs_contracting_dims={0}\n  ROOT r = (f32[40,264]) tuple(d)\n");
  EXPECT_EQ(updated.substr(0, 3) + updated.substr(updated.rfind(';')), "0,1; 1 kernels");
}

/// What a convolution asks for is computed from a copy, once for both of its readers; the copy of
/// the image that comes as the convolution wants it is none.
TEST(GivenOrders, ConvolutionsReadCopiesOfImagesThatLieOtherwise) {
  const auto entry = [](const std::string& order) {
    return "  x = f32[4,12,12,160]" + order +
           " parameter(0)\n  k = f32[3,3,160,32] parameter(1)\n"
           "  c = f32[4,12,12,32] convolution(x, k), window={size=3x3 pad=1_1x1_1}, "
           "dim_labels=b01f_01io->b01f\n"
           "  e = f32[3,3,160,32] convolution(x, c), window={size=12x12 pad=1_1x1_1}, "
           "dim_labels=f01b_i01o->01bf\n"
           "  ROOT r = (f32[4,12,12,32], f32[3,3,160,32]) tuple(c, e)\n";
  };
  const auto kernels = [&](const std::string& order) {
    const std::string found = compiled_orders("", entry(order));
    return found.substr(0, 8) + found.substr(found.rfind(';') + 1);
  };
  EXPECT_EQ(kernels(""), "3,0,2,1; 2 kernels");
  EXPECT_EQ(kernels("{3,0,2,1}"), "3,0,2,1; 2 kernels");
  EXPECT_EQ(kernels("{0,3,2,1}"), "0,3,2,1; 3 kernels");
  const std::string layouts =
      ", entry_computation_layout={(f32[4,12,12,160]{3,2,1,0}, f32[3,3,160,32]{3,2,1,0})->"
      "(f32[4,12,12,32]{0,3,2,1}, f32[3,3,160,32]{3,2,1,0})}";
  EXPECT_NE(compiled_orders(layouts, entry("")).find("result 0,3,2,1; "), std::string::npos);
}

/// What a reader has otherwise than the others is a copy of the parameter, not of their copy, or
/// the parameter.
TEST(GivenOrders, CopiesAreOfTheParameter) {
  const auto sources = [](const DimensionOrder& given) {
    Module module = hlo::read_hlo_text("test.hlo", std::string(kAdd) + R"(ENTRY main {
  x = f32[4,12,12,160] parameter(0)
  k = f32[3,3,160,32] parameter(1)
  z = f32[] constant(0)
  c = f32[4,12,12,32] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  w = f32[4,12,12,159] reduce-window(x, z), window={size=1x1x1x2}, to_apply=add
  ROOT r = (f32[4,12,12,32], f32[4,12,12,159]) tuple(c, w)
}
)");
    const compiler::Target target;
    compiler::ConvolutionKernels kernels(target);
    compiler::assign_layouts(module, kernels, {}, {{given, {}}, {}});
    const hlo::Computation& entry = module.entry_computation();
    std::string found;
    for (const HloInstruction& instruction : entry.instructions) {
      const bool is_window = instruction.opcode == HloOpcode::kReduceWindow;
      if (!is_window && instruction.opcode != HloOpcode::kConvolution) continue;
      const HloInstruction* from = &entry.at(instruction.operands[0]);
      found += is_window ? "window" : "convolution";
      for (; from->opcode == HloOpcode::kCopy; from = &entry.at(from->operands[0]))
        found += " copy";
      found += " " + from->name + "; ";
    }
    return found;
  };
  EXPECT_EQ(sources({}), "convolution x; window copy x; ");
  EXPECT_EQ(sources({1, 2, 0, 3}), "convolution x; window copy x; ");
  EXPECT_EQ(sources({3, 0, 1, 2}), "convolution copy x; window x; ");
  EXPECT_EQ(sources({1, 2, 3, 0}), "convolution copy x; window copy x; ");
}

TEST(UnitDimensions, ElementwiseOperationsDropThem) {
  GraphBuilder graph("mean");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {24, 40}));
  const Tensor column = graph.reshape(graph.reduce_sum(x, {1}), {24, 1});
  const Tensor mean =
      graph.reshape(graph.multiply(column, graph.unary(HloOpcode::kNegate, column)), {24});
  Module module = graph.finish(graph.add(x, graph.broadcast(mean, {24, 40}, {0})), {x});
  compiler::simplify(module);
  compiler::drop_unit_dimensions(module);
  compiler::simplify(module);
  EXPECT_NO_THROW(hlo::verify(module));
  for (const HloInstruction& instruction : module.entry_computation().instructions) {
    EXPECT_NE(instruction.opcode, HloOpcode::kReshape) << instruction.name;
  }
}

TEST(UnitDimensions, AReductionOverOneElementIsThatElement) {
  GraphBuilder graph("bias");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {8, 40}));
  const Tensor row = graph.reshape(graph.reduce_sum(x, {0}), {1, 40});
  Module module = graph.finish(graph.reduce_sum(row, {0}), {x});
  compiler::simplify(module);
  compiler::drop_unit_dimensions(module);
  compiler::simplify(module);
  EXPECT_NO_THROW(hlo::verify(module));
  int reductions = 0;
  for (const HloInstruction& instruction : module.entry_computation().instructions) {
    reductions += instruction.opcode == HloOpcode::kReduce;
    EXPECT_NE(instruction.opcode, HloOpcode::kReshape) << instruction.name;
  }
  EXPECT_EQ(reductions, 1);
}

TEST(UnitDimensions, TheyStayWhereADotMakesThem) {
  GraphBuilder graph("one_row");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {1, 64}));
  const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {64, 40}));
  const Tensor product = graph.dot(x, w, {{}, {}, {1}, {0}}, ElementType::kF32);
  Module module = graph.finish(graph.unary(HloOpcode::kNegate, product), {x, w});
  compiler::drop_unit_dimensions(module);
  const hlo::Computation& entry = module.entry_computation();
  EXPECT_EQ(entry.at(entry.root).opcode, HloOpcode::kNegate);
  // A vector times a matrix is the vector unit's, exact in fp32.
  check_values(module, 1e-4, false);
}

}  // namespace
}  // namespace tpu::test::layout_test
