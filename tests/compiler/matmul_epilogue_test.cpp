#include "workloads/compiler/kernels/contraction/matmul_epilogue.h"

#include <gtest/gtest.h>

#include "tests/compiler/graph_check.h"
#include "tests/compiler/kernel_harness.h"
#include "tests/compiler/padded_array.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/kernels/contraction/dot_kernel.h"
#include "workloads/compiler/passes/memory/storage.h"
#include "workloads/compiler/passes/pipeline.h"
#include "workloads/frontend/graph_builder.h"

namespace tpu::test::matmul_epilogue_test {
namespace {

using frontend::Extents;
using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::array_shape;
using hlo::ElementType;
using hlo::HloOpcode;

/// Operations of the schedule that are kernels.
std::vector<const hlo::HloInstruction*> kernels_of(const compiler::ScheduledModule& scheduled) {
  std::vector<const hlo::HloInstruction*> kernels;
  for (const hlo::HloInstruction& instruction : scheduled.module.entry_computation().instructions) {
    if (!compiler::is_bookkeeping(instruction)) kernels.push_back(&instruction);
  }
  return kernels;
}

/// Compiles for one core; the module must become so many kernels and compute what the reference
/// computes.
compiler::ScheduledModule expect_kernels(const hlo::Module& module, std::size_t count) {
  compiler::ScheduledModule scheduled =
      compiler::schedule(module, target_of(MachineParams{}, 1), nullptr);
  const auto kernels = kernels_of(scheduled);
  EXPECT_EQ(kernels.size(), count) << hlo::to_string(scheduled.module);
  const Verdict verdict = check_graph(case_of(module, 5));
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message << "\n"
                                                 << hlo::to_string(scheduled.module);
  return scheduled;
}

/// A graph with named parameters of f32 or another type.
class EpilogueGraph {
 public:
  GraphBuilder graph{"epilogue"};

  Tensor parameter(const Extents& extents, ElementType type = ElementType::kF32) {
    parameters_.push_back(
        graph.parameter("p" + std::to_string(parameters_.size()), array_shape(type, extents)));
    return parameters_.back();
  }
  /// [k, m] and [k, n] to [m, n]: a weight gradient.
  Tensor gradient(const Extents& input, const Extents& error,
                  ElementType type = ElementType::kF32) {
    const Tensor x = parameter(input, type), dy = parameter(error, type);
    return graph.dot(x, dy, {{}, {}, {0}, {0}}, ElementType::kF32);
  }
  hlo::Module finish(const std::vector<Tensor>& results) {
    return graph.finish(graph.tuple(results), parameters_);
  }

 private:
  std::vector<Tensor> parameters_;
};

TEST(MatmulEpilogue, AMomentumUpdateIsWrittenByTheGradientsKernel) {
  EpilogueGraph g;
  const Tensor dw = g.gradient({40, 300}, {40, 270});
  const Tensor w = g.parameter({300, 270}), m = g.parameter({300, 270});
  const Tensor momentum = g.graph.add(g.graph.scale(m, 0.9), dw);
  const Tensor updated = g.graph.subtract(w, g.graph.scale(momentum, 0.01));
  hlo::Module module = g.finish({updated, momentum});
  module.aliases = {{0, 2}, {1, 3}};
  const compiler::ScheduledModule scheduled = expect_kernels(module, 1);
  EXPECT_EQ(kernels_of(scheduled)[0]->shape.elements.size(), 2U);
}

TEST(MatmulEpilogue, AnAdamUpdateIsWrittenByTheGradientsKernel) {
  EpilogueGraph g;
  const Tensor dw = g.gradient({64, 130}, {64, 200}, ElementType::kBf16);
  const Extents extents{130, 200};
  const Tensor w = g.parameter(extents), m = g.parameter(extents), v = g.parameter(extents);
  const Tensor rate = g.parameter({});
  const Tensor m1 = g.graph.add(g.graph.scale(m, 0.9), g.graph.scale(dw, 0.1));
  const Tensor v1 = g.graph.add(g.graph.scale(g.graph.multiply(v, v), 0.99),
                                g.graph.scale(g.graph.multiply(dw, dw), 0.01));
  const Tensor root = g.graph.unary(HloOpcode::kSqrt, g.graph.offset(v1, 1e-3));
  const Tensor step =
      g.graph.multiply(g.graph.broadcast(rate, extents, {}), g.graph.divide(m1, root));
  expect_kernels(g.finish({g.graph.subtract(w, step), m1, v1}), 1);
}

TEST(MatmulEpilogue, WhatSeveralResultsAreMadeOfIsNotWritten) {
  EpilogueGraph g;
  const Extents extents{130, 200};
  // Two sums share the matrix in front of them, as tied weights do.
  const Tensor dw = g.graph.add(g.gradient({64, 130}, {64, 200}), g.parameter(extents));
  const Tensor m = g.graph.add(g.graph.scale(g.parameter(extents), 0.9), dw);
  const Tensor v = g.graph.add(g.parameter(extents), g.graph.multiply(dw, dw));
  expect_kernels(g.finish({m, v, g.graph.multiply(m, v)}), 1);
}

TEST(MatmulEpilogue, ABiasGradientIsSummedWhereTheErrorIsWritten) {
  for (const Extents& extents : std::vector<Extents>{{37, 141}, {64, 256}, {300, 300}, {3, 5}}) {
    EpilogueGraph g;
    const Tensor dy = g.parameter({extents[0], 90}), w = g.parameter({90, extents[1]});
    const Tensor before = g.parameter(extents);
    const Tensor active =
        g.graph.compare(before, g.graph.splat_like(before, 0), hlo::ComparisonDirection::kGt);
    const Tensor dx = g.graph.select(active, g.graph.matmul(dy, w), g.graph.splat_like(before, 0));
    const compiler::ScheduledModule scheduled =
        expect_kernels(g.finish({dx, g.graph.reduce_sum(dx, {0})}), 1);
    EXPECT_EQ(kernels_of(scheduled)[0]->fusion_kind.get(), "kOutput");
  }
}

TEST(MatmulEpilogue, WhatIsMadeOfArraysThatAKernelReadsIsComputedThere) {
  for (const bool reads_source : {true, false}) {
    EpilogueGraph g;
    const Extents extents{2816, 256};
    const Tensor x = g.parameter(extents, ElementType::kBf16);
    const Tensor scale = g.graph.broadcast(g.parameter({256}, ElementType::kBf16), extents, {1});
    // An activation that is a result, and is read by two products; the gradient's mask is made of
    // it, or of its source where that is read anyway.
    const Tensor zero = g.graph.splat_like(x, 0);
    const Tensor y = g.graph.binary(HloOpcode::kMaximum, g.graph.multiply(x, scale), zero);
    const Tensor first = g.graph.matmul(y, g.parameter({256, 128}, ElementType::kBf16));
    const Tensor second = g.graph.matmul(y, g.parameter({256, 128}, ElementType::kBf16));
    const Tensor dy =
        g.graph.matmul(g.graph.add(first, second), g.parameter({128, 256}, ElementType::kBf16));
    const Tensor mask = g.graph.compare(y, zero, hlo::ComparisonDirection::kGt);
    Tensor error = g.graph.select(mask, dy, zero);
    if (reads_source) error = g.graph.multiply(error, x);
    const compiler::ScheduledModule scheduled =
        expect_kernels(g.finish({first, second, error, y}), 4);
    const hlo::Computation& entry = scheduled.module.entry_computation();
    const hlo::HloInstruction& last = *kernels_of(scheduled).back();
    std::vector<HloOpcode> read;
    for (hlo::InstructionId id : last.operands) {
      if (entry.at(id).shape.dimensions == extents) read.push_back(entry.at(id).opcode);
    }
    const HloOpcode expected = reads_source ? HloOpcode::kParameter : HloOpcode::kFusion;
    EXPECT_EQ(read, std::vector<HloOpcode>{expected}) << hlo::to_string(scheduled.module);
  }
}

TEST(MatmulEpilogue, RowsOfPaddingBetweenMatricesAreNotSummed) {
  EpilogueGraph g;
  const Tensor x = g.parameter({5, 13, 90}), w = g.parameter({90, 300});
  const Tensor product = g.graph.dot(x, w, {{}, {}, {2}, {0}}, ElementType::kF32);
  const Tensor sum = g.graph.add(product, g.parameter({5, 13, 300}));
  expect_kernels(g.finish({sum, g.graph.reduce_sum(sum, {0, 1})}), 1);
}

TEST(MatmulEpilogue, SumsBehindAProductThatIsTurned) {
  EpilogueGraph g;
  const Tensor dw = g.gradient({40, 300}, {40, 70});
  expect_kernels(g.finish({dw, g.graph.reduce_sum(g.graph.multiply(dw, dw), {0})}), 1);
}

TEST(MatmulEpilogue, TheProductItselfMayBeOneOfTheResults) {
  EpilogueGraph g;
  const Tensor product = g.graph.matmul(g.parameter({50, 60}), g.parameter({60, 260}));
  const Tensor tanh = g.graph.unary(HloOpcode::kTanh, product);
  expect_kernels(g.finish({product, tanh, g.graph.convert(tanh, ElementType::kBf16)}), 1);
}

TEST(MatmulEpilogue, ResultsOfBothTypesOfABatchOfMatrices) {
  EpilogueGraph g;
  const Tensor a = g.parameter({3, 40, 60}, ElementType::kBf16);
  const Tensor b = g.parameter({3, 60, 140}, ElementType::kBf16);
  const Tensor product = g.graph.dot(a, b, {{0}, {0}, {2}, {1}}, ElementType::kF32);
  const Tensor mask = g.parameter({3, 40, 140}, ElementType::kBf16);
  const Tensor masked = g.graph.multiply(product, g.graph.convert(mask, ElementType::kF32));
  const Tensor sum = g.graph.reduce_sum(masked, {0, 1});
  expect_kernels(g.finish({masked, g.graph.convert(masked, ElementType::kBf16), sum}), 1);
}

TEST(MatmulEpilogue, KernelsThatReadAWeightComeBeforeItsUpdate) {
  EpilogueGraph g;
  const Tensor dw = g.gradient({40, 512}, {40, 768});
  const Tensor w = g.parameter({512, 768});
  const Tensor updated = g.graph.subtract(w, dw);
  const Tensor dx = g.graph.dot(g.parameter({40, 768}), w, {{}, {}, {1}, {1}}, ElementType::kF32);
  hlo::Module module = g.finish({updated, dx});
  module.aliases = {{0, 2}};
  expect_kernels(module, 2);
}

/// Values of the results of a fusion around a dot, cut as given, on random operands.
std::vector<std::vector<float>> run_cut(const hlo::Module& module,
                                        const hlo::HloInstruction& fusion,
                                        const compiler::DotTiling& tiling) {
  const hlo::Computation& entry = module.entry_computation();
  const compiler::MatmulEpilogue epilogue = compiler::matmul_epilogue(module, entry, fusion);
  compiler::DotProblem problem = compiler::dot_problem(*epilogue.product, epilogue.lhs_shape,
                                                       epilogue.rhs_shape, epilogue.out_shape);
  problem.has_epilogue = epilogue.graph != nullptr;
  problem.epilogue_types = epilogue.block_types();
  problem.result_types = epilogue.result_types();
  const compiler::Target target = target_of(MachineParams{}, 1);
  KernelHarness harness(target);
  std::vector<std::uint32_t> addresses;
  std::uint32_t seed = 1;
  for (hlo::InstructionId operand : fusion.operands) {
    addresses.push_back(harness.place(random_array(entry.at(operand).shape, seed++).words));
  }
  std::vector<std::uint64_t> sizes;
  for (const hlo::Shape& shape : fusion.shape.elements) {
    sizes.push_back(compiler::granules(shape));
    addresses.push_back(harness.reserve(sizes.back() * 1024));
  }
  harness.run(compiler::dot_kernel(problem, tiling, epilogue, target).kernel, addresses);
  std::vector<std::vector<float>> results;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    results.push_back(
        values_of(fusion.shape.elements[i],
                  harness.read(addresses[fusion.operands.size() + i], sizes[i] * 256)));
  }
  return results;
}

void expect_near(const std::vector<std::vector<float>>& found,
                 const std::vector<std::vector<float>>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t r = 0; r < expected.size(); ++r) {
    ASSERT_EQ(found[r].size(), expected[r].size());
    for (std::size_t i = 0; i < expected[r].size(); ++i) {
      ASSERT_NEAR(found[r][i], expected[r][i], 1e-4 * (1 + std::abs(expected[r][i])))
          << "result " << r << ", element " << i;
    }
  }
}

/// Steps that finish tiles must leave what a cut without them leaves. The product is of 19 or 20
/// row tiles, five columns, three tiles along k.
void compare_cuts(const hlo::Module& module) {
  const compiler::ScheduledModule scheduled =
      compiler::schedule(module, target_of(MachineParams{}, 1), nullptr);
  const auto kernels = kernels_of(scheduled);
  ASSERT_EQ(kernels.size(), 1U) << hlo::to_string(scheduled.module);
  compiler::DotProblem like;
  like.k = 300;
  like.has_epilogue = true;
  for (const std::uint32_t columns : {2U, 1U}) {
    for (const std::uint32_t block_m : {8U, 20U}) {
      SCOPED_TRACE(testing::Message() << columns << " columns, " << block_m << " row tiles");
      compiler::DotTiling tiling;
      tiling.block_m = block_m;
      tiling.block_n = 4;
      tiling.block_k = 3;
      tiling.chunk_m = 4;
      tiling.columns_at_once = columns;
      const auto expected = run_cut(scheduled.module, *kernels[0], tiling);
      tiling.finished_tiles = compiler::tiles_to_finish(like, tiling);
      // 8 or 20 row tiles of each column in 5 or 14 steps.
      ASSERT_EQ(tiling.finished_tiles, 2 * columns);
      expect_near(run_cut(scheduled.module, *kernels[0], tiling), expected);
    }
  }
}

TEST(MatmulEpilogue, StepsThatFinishTheColumnsBeforeHaveTheSameResults) {
  EpilogueGraph g;
  const Tensor product = g.graph.matmul(g.parameter({150, 300}), g.parameter({300, 520}));
  const Tensor bias = g.graph.broadcast(g.parameter({520}), {150, 520}, {1});
  const Tensor scale = g.graph.broadcast(g.parameter({150}), {150, 520}, {0});
  const Tensor mask =
      g.graph.convert(g.parameter({150, 520}, ElementType::kBf16), ElementType::kF32);
  const Tensor sum = g.graph.add(g.graph.multiply(g.graph.multiply(product, mask), scale), bias);
  compare_cuts(g.finish({g.graph.unary(HloOpcode::kTanh, sum),
                         g.graph.convert(sum, ElementType::kBf16), g.graph.reduce_sum(sum, {0})}));
}

TEST(MatmulEpilogue, StepsThatFinishColumnsLeaveOutPaddingBetweenMatrices) {
  EpilogueGraph g;
  const Tensor x = g.parameter({5, 30, 300}), w = g.parameter({300, 520});
  const Tensor product = g.graph.dot(x, w, {{}, {}, {2}, {0}}, ElementType::kF32);
  const Tensor sum = g.graph.add(product, g.parameter({5, 30, 520}));
  compare_cuts(g.finish({sum, g.graph.reduce_sum(sum, {0, 1})}));
}

TEST(MatmulEpilogue, StepsFinishTilesOfTheMatrixBefore) {
  EpilogueGraph g;
  const Tensor a = g.parameter({6, 64, 100}), b = g.parameter({6, 100, 260});
  const Tensor product = g.graph.dot(a, b, {{0}, {0}, {2}, {1}}, ElementType::kF32);
  const Tensor sum = g.graph.add(product, g.parameter({6, 64, 260}));
  const hlo::Module module =
      g.finish({g.graph.convert(sum, ElementType::kBf16), g.graph.reduce_sum(sum, {0, 1})});
  const compiler::ScheduledModule scheduled =
      compiler::schedule(module, target_of(MachineParams{}, 1), nullptr);
  const auto kernels = kernels_of(scheduled);
  ASSERT_EQ(kernels.size(), 1U) << hlo::to_string(scheduled.module);
  compiler::DotProblem like;
  like.k = 100;
  like.has_epilogue = true;
  // A column is one step, two or four, which finish as many tiles as they make; then two columns
  // are three steps of six tiles, of which the last one finds nothing left. A column of each matrix
  // alone, too.
  struct Cut {
    std::uint32_t block_m, block_n, chunk, columns, finished, behind;
  };
  for (const Cut& cut : {Cut{8, 3, 8, 1, 8, 1}, Cut{8, 3, 4, 1, 4, 1}, Cut{8, 3, 2, 1, 2, 1},
                         Cut{8, 1, 4, 1, 4, 1}, Cut{6, 4, 2, 2, 6, 0}}) {
    SCOPED_TRACE(cut.chunk);
    compiler::DotTiling tiling;
    tiling.block_outer = 3;
    tiling.block_m = cut.block_m;
    tiling.block_n = cut.block_n;
    tiling.chunk_m = cut.chunk;
    tiling.columns_at_once = cut.columns;
    const auto expected = run_cut(scheduled.module, *kernels[0], tiling);
    tiling.finished_tiles = compiler::tiles_to_finish(like, tiling);
    ASSERT_EQ(tiling.finished_tiles, cut.finished);
    EXPECT_EQ(compiler::runs_behind(tiling), cut.behind);
    expect_near(run_cut(scheduled.module, *kernels[0], tiling), expected);
  }
}

TEST(MatmulEpilogue, OnlyWholeSumsOfSeveralColumnsAreFinishedBySteps) {
  compiler::DotProblem problem;
  problem.m = 512;
  problem.n = 1024;
  problem.k = 512;
  problem.has_epilogue = true;
  compiler::DotTiling tiling;
  tiling.block_m = 64;
  tiling.block_n = 8;
  tiling.block_k = 4;
  tiling.chunk_m = 64;
  tiling.columns_at_once = 2;
  // 64 x 2 tiles in 4 x 1 steps.
  EXPECT_EQ(compiler::tiles_to_finish(problem, tiling), 0U);
  tiling.chunk_m = 32;
  // In 4 x 2 steps.
  EXPECT_EQ(compiler::tiles_to_finish(problem, tiling), 16U);
  tiling.block_n = 2;
  EXPECT_EQ(compiler::tiles_to_finish(problem, tiling), 0U);
  tiling.block_n = 8;
  tiling.block_k = 2;
  EXPECT_EQ(compiler::tiles_to_finish(problem, tiling), 0U);
  tiling.block_k = 4;
  problem.result_turned = true;
  EXPECT_EQ(compiler::tiles_to_finish(problem, tiling), 0U);
  problem.result_turned = false;
  problem.has_epilogue = false;
  EXPECT_EQ(compiler::tiles_to_finish(problem, tiling), 0U);
}

}  // namespace
}  // namespace tpu::test::matmul_epilogue_test
