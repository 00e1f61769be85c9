#include "workloads/compiler/passes/simplify/padded_results.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/compiler/pass_check.h"
#include "workloads/frontend/graph_builder.h"

namespace tpu::test::padded_results_test {
namespace {

using frontend::Extents;
using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::array_shape;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Module;

constexpr std::int64_t kBatch = 3, kWords = 20, kClasses = 40;

/// What differs from the gradient of a loss over all words but the last.
struct Variant {
  std::int64_t first = 0;          ///< Word at which the slice begins.
  std::int64_t low = 0, high = 1;  ///< Of the padding.
  bool is_read = false;            ///< Something else needs the gradient.
  bool counts_words = false;       ///< It depends on the number of the word within the slice.
};

/// exp(scores - largest of the word) * weight of the word + labels at their places, padded with 2.
Module gradient(const Variant& variant) {
  GraphBuilder graph("gradient");
  const std::int64_t kept = kWords - variant.low - variant.high;
  const Extents part{kBatch, kept, kClasses};
  const Tensor scores =
      graph.parameter("scores", array_shape(ElementType::kF32, {kBatch, kWords, kClasses}));
  const Tensor weights = graph.parameter("weights", array_shape(ElementType::kF32, {kBatch, kept}));
  const Tensor bias = graph.parameter("bias", array_shape(ElementType::kF32, {kClasses}));
  const Tensor cut =
      graph.slice(scores, {0, variant.first, 0}, {kBatch, variant.first + kept, kClasses});
  const Tensor largest = graph.broadcast(graph.reduce_max(cut, {2}), part, {0, 1});
  const Tensor e = graph.unary(HloOpcode::kExponential, graph.subtract(cut, largest));
  const Tensor sum = graph.reduce_sum(e, {2});
  Tensor value = graph.multiply(e, graph.broadcast(weights, part, {0, 1}));
  value = graph.add(value, graph.broadcast(bias, part, {2}));
  value = graph.add(value, graph.iota(ElementType::kF32, part, variant.counts_words ? 1 : 2));
  const Tensor padded = graph.pad(value, {{}, {variant.low, variant.high, 0}, {}}, 2.0);
  const Tensor other = variant.is_read ? graph.reduce_sum(value, {0, 1}) : sum;
  return graph.finish(graph.tuple({padded, sum, other}), {scores, weights, bias});
}

/// Elements of the largest array that is padded.
std::int64_t largest_padded(const Module& module) {
  std::int64_t largest = 0;
  for (const HloInstruction& each : module.entry_computation().instructions) {
    if (each.opcode == HloOpcode::kPad) largest = std::max(largest, each.shape.element_count());
  }
  return largest;
}

Module passed(Module module) {
  return simplified_around(std::move(module), compiler::pad_operands);
}

TEST(PaddedResults, TheGradientOfAPartIsMadeForAllOfIt) {
  for (const Variant& variant :
       {Variant{}, Variant{1, 1, 0}, Variant{2, 2, 1}, Variant{0, 0, 1, false, true}}) {
    EXPECT_EQ(largest_padded(passed(gradient(variant))), kBatch * kWords);
  }
}

TEST(PaddedResults, ValuesStayTheSame) {
  for (const Variant& variant :
       {Variant{}, Variant{1, 1, 0}, Variant{2, 2, 1}, Variant{0, 0, 1, false, true}}) {
    expect_values_kept(case_of(gradient(variant), 7), compiler::pad_operands);
  }
}

/// A slice that is not where the padding leaves it, a result that others read, much padding,
/// numbers of words that would not be those of the whole.
TEST(PaddedResults, OthersArePadded) {
  for (const Variant& variant : {Variant{1, 0, 1}, Variant{0, 0, 1, true}, Variant{0, 0, 12},
                                 Variant{1, 1, 0, false, true}}) {
    EXPECT_EQ(largest_padded(passed(gradient(variant))), kBatch * kWords * kClasses);
  }
}

}  // namespace
}  // namespace tpu::test::padded_results_test
