#include "workloads/compiler/passes/fuse/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/compiler/hlo_check.h"
#include "tests/compiler/pass_check.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/passes/expand/widen.h"
#include "workloads/compiler/passes/layout/layouts.h"
#include "workloads/compiler/passes/memory/storage.h"
#include "workloads/compiler/passes/simplify/simplify.h"
#include "workloads/compiler/passes/simplify/split_lanes.h"
#include "workloads/frontend/graph_builder.h"
#include "workloads/frontend/zoo.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::fusion_test {
namespace {

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

/// Bytes that the kernels of an entry read and write.
std::uint64_t traffic(const Module& module) {
  const Computation& entry = module.entry_computation();
  std::uint64_t granules = 0;
  for (const HloInstruction& instruction : entry.instructions) {
    if (compiler::is_bookkeeping(instruction)) continue;
    granules += compiler::granules(compiler::stored_shape(instruction.shape));
    for (InstructionId operand : instruction.operands) {
      granules += compiler::granules(compiler::stored_shape(entry.at(operand).shape));
    }
  }
  return granules * 1024;
}

/// The time grows with the length, not with its square: 16 s and 1 s of the two passes before.
TEST(Fusion, TakesLongChainsInSeconds) {
  std::string text = "HloModule c\nENTRY e {\n  x0 = f32[64,128] parameter(0)\n";
  constexpr int kLength = 16000;
  for (int i = 0; i < kLength; ++i) {
    text += (i + 1 == kLength ? "  ROOT x" : "  x") + std::to_string(i + 1) +
            " = f32[64,128] add(x" + std::to_string(i) + ", x" +
            std::to_string(std::max(0, i - 1)) + ")\n";
  }
  Module module = hlo::read_hlo_text("chain.hlo", text + "}\n");
  compiler::assign_layouts(module);
  const std::clock_t begin = std::clock();
  compiler::join_split_lanes(module);
  compiler::fuse(module);
  EXPECT_LT(std::clock() - begin, 6 * CLOCKS_PER_SEC);
  EXPECT_GT(count(module, HloOpcode::kFusion), kLength / compiler::FusionLimits().instructions);
}

TEST(Fusion, SumsOverTheBatchInTheLanesStandBehindTheirConvolution) {
  GraphBuilder graph("sums");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {128, 8, 8, 64}));
  const Tensor w = graph.parameter("w", array_shape(ElementType::kF32, {1, 1, 64, 64}));
  const Tensor y = graph.convolution(x, w, frontend::nhwc_dimensions(), {{}, {}});
  const Tensor sum = graph.reduce_sum(y, {0, 1, 2});
  const Module module = run_to_fusion(graph.finish(graph.tuple({y, sum}), {x, w}));
  int kernels = 0;
  for (const HloInstruction& instruction : module.entry_computation().instructions) {
    if (compiler::is_bookkeeping(instruction)) continue;
    ++kernels;
    EXPECT_EQ(instruction.fusion_kind.get(), "kOutput");
    EXPECT_EQ(instruction.shape.elements.size(), 2U);
  }
  EXPECT_EQ(kernels, 1);
}

TEST(Fusion, BiasAndReluGoIntoTheDot) {
  const Module module = run_to_fusion(frontend::build_workload("mlp").module);
  const Computation& entry = module.entry_computation();
  const HloInstruction* first = nullptr;
  for (const HloInstruction& instruction : entry.instructions) {
    if (first == nullptr && instruction.opcode == HloOpcode::kFusion) first = &instruction;
  }
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->fusion_kind.get(), "kOutput");
  EXPECT_EQ(first->operands.size(), 3U);
  const Computation& body = module.computation(first->called[0]);
  EXPECT_EQ(body.at(body.root).opcode, HloOpcode::kMaximum);
}

TEST(Fusion, TheUpdateOfAWeightIsWrittenByItsGradientsKernel) {
  const Module module = run_to_fusion(frontend::build_workload("mlp").module);
  std::size_t weights = 0, biases = 0;
  for (const HloInstruction& instruction : module.entry_computation().instructions) {
    if (!instruction.shape.is_tuple() || instruction.shape.elements.size() != 2) continue;
    if (instruction.shape.elements[0].dimensions != instruction.shape.elements[1].dimensions) {
      continue;
    }
    // Weight and momentum, with the two sides of the dot or the gradient.
    const bool is_product = instruction.fusion_kind.get() == "kOutput";
    EXPECT_EQ(instruction.operands.size(), is_product ? 4U : 3U);
    ++(is_product ? weights : biases);
  }
  EXPECT_EQ(weights, 3U);
  EXPECT_EQ(biases, 3U);
}

TEST(Fusion, TheSumsOfABatchNormShareAKernel) {
  GraphBuilder graph("norm");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kBf16, {8, 4, 4, 16}));
  const Tensor wide = graph.convert(x, ElementType::kF32);
  const Tensor sum = graph.reduce_sum(wide, {0, 1, 2});
  const Tensor squares = graph.reduce_sum(graph.multiply(wide, wide), {0, 1, 2});
  const Module module = run_to_fusion(graph.finish(graph.tuple({sum, squares}), {x}));
  EXPECT_EQ(count_kind(module, "kInput"), 1U);
  EXPECT_EQ(count_kind(module, "kLoop"), 0U);
}

TEST(Fusion, ASoftmaxIsOneKernel) {
  GraphBuilder graph("softmax");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {64, 200}));
  const Tensor lowest = graph.splat(ElementType::kF32, {64}, -HUGE_VAL);
  const Tensor most = graph.binary(HloOpcode::kMaximum, lowest, graph.reduce_max(x, {1}));
  const Tensor below = graph.subtract(x, graph.broadcast(most, {64, 200}, {0}));
  const Tensor power = graph.unary(HloOpcode::kExponential, below);
  const Tensor sum = graph.broadcast(graph.reduce_sum(power, {1}), {64, 200}, {0});
  const Module module = run_to_fusion(graph.finish(graph.divide(power, sum), {x}));
  EXPECT_EQ(count(module, HloOpcode::kFusion), 1U);
  EXPECT_EQ(count_kind(module, "kInput"), 1U);
}

TEST(Fusion, ASoftmaxAlongTheRowsOfMatricesIsOneKernel) {
  GraphBuilder graph("softmax");
  const frontend::Extents extents{8, 40, 64};
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, extents));
  const Tensor most = graph.broadcast(graph.reduce_max(x, {1}), extents, {0, 2});
  const Tensor power = graph.unary(HloOpcode::kExponential, graph.subtract(x, most));
  const Tensor sum = graph.reduce_sum(power, {1});
  const Tensor share = graph.divide(power, graph.broadcast(sum, extents, {0, 2}));
  const Module module = run_to_fusion(graph.finish(graph.tuple({share, sum}), {x}));
  EXPECT_EQ(count(module, HloOpcode::kFusion), 1U);
  EXPECT_EQ(count_kind(module, "kInput"), 1U);
}

/// Part by part of the outermost dimension: sums of all 224 matrices together would take 7 MiB.
/// Matrices that fill half of the VMEM in two buffers of two arrays are too large.
TEST(Fusion, ASoftmaxAlongTheRowsOfManyMatricesIsOneKernel) {
  for (const std::int64_t tokens : {512, 1536}) {
    GraphBuilder graph("softmax");
    const frontend::Extents extents{14, 16, tokens, 512};
    const Tensor x = graph.parameter("x", array_shape(ElementType::kBf16, extents));
    const Tensor scores = graph.convert(x, ElementType::kF32);
    const Tensor most = graph.broadcast(graph.reduce_max(scores, {2}), extents, {0, 1, 3});
    const Tensor power = graph.unary(HloOpcode::kExponential, graph.subtract(scores, most));
    const Tensor sum = graph.broadcast(graph.reduce_sum(power, {2}), extents, {0, 1, 3});
    const Tensor share = graph.convert(graph.divide(power, sum), ElementType::kBf16);
    const Module module = run_to_fusion(graph.finish(share, {x}));
    EXPECT_EQ(count(module, HloOpcode::kFusion), tokens == 512 ? 1U : 3U) << tokens;
  }
}

/// What each column needs is made of its sum by operations on columns, which are no kernel.
TEST(Fusion, TheGradientOfASoftmaxAlongTheRowsOfMatricesIsOneKernel) {
  GraphBuilder graph("gradient");
  const frontend::Extents extents{8, 40, 64};
  const Tensor y = graph.parameter("y", array_shape(ElementType::kF32, extents));
  const Tensor dy = graph.parameter("dy", array_shape(ElementType::kF32, extents));
  const Tensor whole = graph.parameter("whole", array_shape(ElementType::kF32, {8, 64}));
  const Tensor sum = graph.reduce_sum(graph.multiply(dy, y), {1});
  const Tensor column = graph.unary(HloOpcode::kNegate, graph.divide(sum, whole));
  const Tensor dx = graph.multiply(graph.add(dy, graph.broadcast(column, extents, {0, 2})), y);
  const Module module = run_to_fusion(graph.finish(dx, {y, dy, whole}));
  EXPECT_EQ(count(module, HloOpcode::kFusion), 1U);
  EXPECT_EQ(count_kind(module, "kInput"), 1U);
}

/// A result may be such a value of columns.
TEST(Fusion, WhatIsMadeOfSumsAlongRowsIsWrittenByTheirKernel) {
  GraphBuilder graph("mean");
  const frontend::Extents extents{8, 40, 64};
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, extents));
  const Tensor mean = graph.scale(graph.reduce_sum(x, {1}), 0.025);
  const Tensor centred = graph.subtract(x, graph.broadcast(mean, extents, {0, 2}));
  const Module module = run_to_fusion(graph.finish(graph.tuple({centred, mean}), {x}));
  EXPECT_NO_THROW(hlo::verify(module));
  EXPECT_EQ(count(module, HloOpcode::kFusion), 1U);
}

/// A number for each row takes the cross-lane unit on its way to the sublanes: where rows are one
/// register long what is made of such numbers and of sums has a kernel of its own. Where rows are
/// long nothing waits for it; where the rows need the result it would have to be spread, too.
TEST(Fusion, ShortRowsSpreadNoNumbersForTheirSumsAlone) {
  const auto kernels = [](std::int64_t lanes, bool is_spread) {
    const std::string rows = "f32[4096," + std::to_string(lanes) + "]";
    const std::string table = "f32[64," + std::to_string(lanes) + "]";
    const std::string beside = is_spread ? "y" : "x";
    const Module module = run_to_fusion(hlo::read_hlo_text(
        "update.hlo", R"(HloModule update
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  places = s32[4096,1] parameter(0)
  p = f32[4096] parameter(1)
  table = )" + table + R"( parameter(2)
  zero = f32[] constant(0)
  x = )" + rows +
                          " gather(table, places), offset_dims={1}, collapsed_slice_dims={0}, "
                          "start_index_map={0}, index_vector_dim=1, slice_sizes={1," +
                          std::to_string(lanes) + R"(}
  sum = f32[4096] reduce(x, zero), dimensions={1}, to_apply=add
  made = f32[4096] add(sum, p)
  spread = )" + rows + R"( broadcast(made), dimensions={0}
  y = )" + rows + R"( multiply(x, spread)
  ROOT t = (f32[4096], )" +
                          rows + ") tuple(made, " + beside + ")\n}\n"));
    return count(module, HloOpcode::kFusion);
  };
  EXPECT_EQ(kernels(128, false), 2U);
  EXPECT_EQ(kernels(1024, false), 1U);
  EXPECT_EQ(kernels(128, true), 1U);
}

/// A kernel that uses its own sum goes through its block again: what it needs of each tile then is
/// kept, however much it is, where one kernel moves fewer arrays.
TEST(Fusion, WhatTakesLongIsKeptForTheNextPass) {
  for (const bool is_much : {false, true}) {
    GraphBuilder graph("power");
    const frontend::Extents extents{8, 256, 256};
    const Tensor x = graph.parameter("x", array_shape(ElementType::kBf16, extents));
    Tensor y = graph.convert(x, ElementType::kF32);
    for (int i = 0; is_much && i < 4; ++i) y = graph.unary(HloOpcode::kLogistic, y);
    const Tensor most = graph.reduce_max(y, {1});
    const Tensor share = graph.divide(y, graph.broadcast(most, extents, {0, 2}));
    const Module module = run_to_fusion(graph.finish(graph.tuple({y, share}), {x}));
    EXPECT_EQ(count(module, HloOpcode::kFusion), 1U);
  }
}

/// Kernels of a module, and how many instructions of an opcode they have.
std::pair<std::size_t, int> kernels_and(HloOpcode opcode, const std::string& entry) {
  const Module module = run_to_fusion(
      hlo::read_hlo_text("test.hlo", kAddAndLeast + ("ENTRY main {\n" + entry + "}\n")));
  int found = 0;
  for (const Computation& computation : module.computations) {
    for (const HloInstruction& value : computation.instructions) {
      if (value.opcode == opcode) ++found;
    }
  }
  return {count(module, HloOpcode::kFusion), found};
}

/// Bits that become a fraction are read as f32 in the register where they are made, or where what
/// is stored is read. What is stored, and wanted so by a product, is the same bytes.
TEST(Fusion, WordsOfAnotherTypeAreReadInTheKernel) {
  const std::string fraction =
      "  one = u32[] constant(1065353216)\n  few = u32[] constant(9)\n"
      "  ones = u32[512,512] broadcast(one), dimensions={}\n"
      "  fews = u32[512,512] broadcast(few), dimensions={}\n"
      "  s = u32[512,512] shift-right-logical(x, fews)\n  o = u32[512,512] or(s, ones)\n"
      "  f = f32[512,512] bitcast-convert(o)\n";
  using Found = std::pair<std::size_t, int>;
  EXPECT_EQ(kernels_and(HloOpcode::kBitcastConvert, "  x = u32[512,512] parameter(0)\n" + fraction +
                                                        "  ROOT g = f32[512,512] negate(f)\n"),
            Found(1, 1));
  EXPECT_EQ(kernels_and(HloOpcode::kBitcastConvert,
                        "  x = u32[512,512] parameter(0)\n  f = f32[512,512] bitcast-convert(x)\n"
                        "  ROOT g = f32[512,512] negate(f)\n"),
            Found(1, 1));
  EXPECT_EQ(kernels_and(HloOpcode::kBitcastConvert,
                        "  x = u32[512,512] parameter(0)\n  f = f32[512,512] bitcast-convert(x)\n"
                        "  ROOT g = f32[512,512] dot(f, f), lhs_contracting_dims={1}, "
                        "rhs_contracting_dims={0}\n"),
            Found(0, 0));
}

/// Two kernels that cannot share. What is made of a counter in many operations (random bits) is
/// written once; of few operations, or of an array that is read for it, both make it.
TEST(Fusion, WhatTakesLongIsWrittenForSeveralKernels) {
  const auto made = [](int operations, const std::string& begin) {
    std::string entry = "  x = f32[512,512] parameter(0)\n  zero = f32[] constant(0)\n" + begin;
    for (int i = 0; i < operations; ++i) {
      entry += "  i" + std::to_string(i + 1) + " = f32[512,512] multiply(i" + std::to_string(i) +
               ", i" + std::to_string(i) + ")\n";
    }
    return kernels_and(HloOpcode::kNegate,
                       entry + "  n = f32[512,512] negate(i" + std::to_string(operations) +
                           ")\n  y = f32[512,512] multiply(x, n)\n"
                           "  r = f32[512] reduce(y, zero), dimensions={0}, to_apply=add\n"
                           "  b = f32[512,512] broadcast(r), dimensions={1}\n"
                           "  a = f32[512,512] multiply(n, b)\n"
                           "  ROOT t = (f32[512], f32[512,512]) tuple(r, a)\n")
        .second;
  };
  const std::string counter = "  i0 = f32[512,512] iota(), iota_dimension=1\n";
  EXPECT_EQ(made(150, counter), 1);
  EXPECT_EQ(made(10, counter), 2);
  EXPECT_EQ(made(150, "  i0 = f32[512,512] exponential(x)\n"), 2);
}

TEST(Fusion, AReductionOverRowsThatNeedsAnotherIsAKernelOfItsOwn) {
  GraphBuilder graph("variance");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {4, 8, 128}));
  const Tensor sum = graph.reduce_sum(x, {0, 1});
  const Tensor centred = graph.subtract(x, graph.broadcast(sum, {4, 8, 128}, {2}));
  const Tensor squares = graph.reduce_sum(graph.multiply(centred, centred), {0, 1});
  const Module module = run_to_fusion(graph.finish(squares, {x}));
  EXPECT_EQ(count_kind(module, "kInput"), 2U);
}

TEST(Fusion, MovesNoMoreBytesThanTheOperationsAlone) {
  for (const char* name : {"mlp", "lenet", "resnet50", "transformer"}) {
    Module module = frontend::build_workload(name).module;
    compiler::simplify(module);
    compiler::assign_layouts(module);
    compiler::find_bitcasts(module);
    const std::uint64_t before = traffic(module);
    compiler::fuse(module);
    EXPECT_NO_THROW(hlo::verify(module)) << name;
    EXPECT_LT(traffic(module), before * 6 / 10) << name;
    std::set<hlo::InstructionId> broadcasts;
    for (const HloInstruction& instruction : module.entry_computation().instructions) {
      EXPECT_FALSE(hlo::is_elementwise(instruction.opcode)) << name << " " << instruction.name;
      EXPECT_NE(instruction.opcode, HloOpcode::kIota) << name;
      if (instruction.opcode == HloOpcode::kBroadcast) broadcasts.insert(instruction.id);
    }
    std::set<hlo::InstructionId> starts;
    for (const HloInstruction& instruction : module.entry_computation().instructions) {
      if (instruction.opcode == HloOpcode::kScatter) starts.insert(instruction.operands[0]);
    }
    EXPECT_EQ(broadcasts, starts) << name;
  }
}

TEST(Fusion, WhatManyReadIsWrittenOnlyWhereThatMovesFewerBytes) {
  GraphBuilder graph("cheap");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {512, 512}));
  const Tensor y = graph.unary(HloOpcode::kTanh, x);
  // Two kernels that cannot share: the second needs all of the first one's sums. Computing tanh
  // twice reads x twice; writing it would move four arrays.
  const Tensor rows = graph.reduce_sum(y, {0});
  const Tensor apart = graph.subtract(y, graph.broadcast(rows, {512, 512}, {1}));
  const Tensor columns = graph.reduce_sum(apart, {1});
  const Module module = run_to_fusion(graph.finish(graph.tuple({rows, columns}), {x}));
  EXPECT_EQ(count_kind(module, "kInput"), 2U);
  EXPECT_EQ(count_kind(module, "kLoop"), 0U);
}

/// A product's sums along each dimension, of its cosine. The kernel that has one of them writes the
/// cosine for the other, not the product, of which it would be computed again.
TEST(Fusion, WhatReadersComputeIsWrittenInPlaceOfWhatTheyRead) {
  Module module = hlo::read_hlo_text("test.hlo", kAddAndLeast + std::string(R"(ENTRY main {
  x = f32[20000,6] parameter(0)
  w = f32[6,200] parameter(1)
  v = f32[200] parameter(2)
  zero = f32[] constant(0)
  d = f32[20000,200] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[20000,200] cosine(d)
  b = f32[20000,200] broadcast(v), dimensions={1}
  m = f32[20000,200] multiply(y, b)
  r = f32[20000] reduce(m, zero), dimensions={1}, to_apply=add
  c = f32[20000,200] broadcast(r), dimensions={0}
  a = f32[20000,200] multiply(y, c)
  s = f32[200] reduce(a, zero), dimensions={0}, to_apply=add
  ROOT t = (f32[20000], f32[200]) tuple(r, s)
}
)"));
  compiler::Target target;
  target.hbm_bytes = std::uint64_t{1} << 30;
  int kernels = 0, computing = 0;
  compiler::schedule(module, target, nullptr, [&](const compiler::PassResult& result) {
    if (result.pass() != std::string("fuse")) return;
    kernels = computing = 0;
    for (const Computation& computation : result.module().computations) {
      for (const HloInstruction& value : computation.instructions) {
        if (value.opcode == HloOpcode::kCosine) ++computing;
        if (value.opcode == HloOpcode::kFusion) ++kernels;
      }
    }
  });
  EXPECT_EQ(kernels, 2);
  EXPECT_EQ(computing, 1);
}

/// A rectifier and its gradient: the mask is written beside the activation, by the product's
/// kernel, in place of the numbers that both are made of. Where those are written anyway, or the
/// gradient reads them for something else, the mask is made of them.
TEST(Fusion, AMaskIsWrittenInPlaceOfTheNumbersThatItWasMadeOf) {
  const auto forward_types =
      [](const std::string& gradient, const std::string& results) {
        const Module module = run_to_fusion(hlo::read_hlo_text("mask.hlo", R"(HloModule mask
ENTRY main {
  x = bf16[512,256] parameter(0)
  w = bf16[256,256] parameter(1)
  zero = f32[] constant(0)
  zeros = f32[512,256] broadcast(zero), dimensions={}
  y = f32[512,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[512,256] maximum(y, zeros)
  b = bf16[512,256] convert(a)
  z = f32[512,256] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zn = bf16[512,256] convert(z)
  back = f32[512,256] dot(zn, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  on = pred[512,256] compare(y, zeros), direction=GT
)" + gradient + "  g = bf16[512,256] convert(masked)\n  ROOT t = (" + results + ")\n}\n"));
        hlo::verify(module);
        for (const HloInstruction& made : module.entry_computation().instructions) {
          if (made.opcode != HloOpcode::kFusion) continue;
          if (!made.shape.is_tuple()) return std::vector<ElementType>{made.shape.type};
          std::vector<ElementType> types;
          for (const Shape& element : made.shape.elements) types.push_back(element.type);
          return types;
        }
        return std::vector<ElementType>{};
      };
  using Types = std::vector<ElementType>;
  const std::string plain = "  masked = f32[512,256] select(on, back, zeros)\n";
  const std::string scaled =
      "  scaled = f32[512,256] multiply(back, y)\n"
      "  masked = f32[512,256] select(on, scaled, zeros)\n";
  const std::string one = "bf16[512,256]) tuple(g", two = "bf16[512,256], f32[512,256]) tuple(g, y";
  EXPECT_EQ(forward_types(plain, one), (Types{ElementType::kBf16, ElementType::kPred}));
  EXPECT_EQ(forward_types(scaled, one), (Types{ElementType::kF32, ElementType::kBf16}));
  EXPECT_EQ(forward_types(plain, two), (Types{ElementType::kF32, ElementType::kBf16}));
}

TEST(Fusion, PredicatesCrossKernelsAsBf16AndRowsOfThemAsIntegers) {
  const std::vector<std::pair<std::vector<std::int64_t>, ElementType>> stored{
      {{16, 128}, ElementType::kBf16}, {{128}, ElementType::kS32}};
  for (const auto& [dimensions, type] : stored) {
    GraphBuilder graph("mask");
    const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, dimensions));
    const Tensor zero = graph.splat_like(x, 0);
    const Tensor mask = graph.compare(x, zero, hlo::ComparisonDirection::kGt);
    Module module = run_to_fusion(graph.finish(mask, {x}));
    compiler::widen(module);
    EXPECT_EQ(root(module).shape.type, type);
    EXPECT_NO_THROW(hlo::verify(module));
  }
}

}  // namespace
}  // namespace tpu::test::fusion_test
