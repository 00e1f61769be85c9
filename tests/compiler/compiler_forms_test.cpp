#include <gtest/gtest.h>

#include <cstring>

#include "sim/base/error.h"
#include "workloads/compiler/buffers.h"
#include "workloads/compiler/passes/expand/canonical_forms.h"
#include "workloads/frontend/graph_builder.h"

namespace tpu::test::compiler_forms_test {
namespace {

using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::array_shape;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Module;

const HloInstruction* find(const Module& module, HloOpcode opcode) {
  for (const HloInstruction& instruction : module.entry_computation().instructions) {
    if (instruction.opcode == opcode) return &instruction;
  }
  return nullptr;
}

TEST(CanonicalForms, ContractedDimensionsThatWouldLeaveLanesEmptyBecomeOne) {
  GraphBuilder graph("projection");
  const Tensor a = graph.parameter("a", array_shape(ElementType::kF32, {8, 16, 4, 64}));
  const Tensor b = graph.parameter("b", array_shape(ElementType::kF32, {4, 64, 256}));
  const Tensor product = graph.dot(a, b, {{}, {}, {2, 3}, {0, 1}}, ElementType::kF32);
  Module module = graph.finish(product, {a, b});
  compiler::use_canonical_forms(module);
  EXPECT_NO_THROW(hlo::verify(module));
  const HloInstruction* dot = find(module, HloOpcode::kDot);
  ASSERT_NE(dot, nullptr);
  EXPECT_EQ(dot->dot->lhs_contracting, std::vector<std::int64_t>{2});
  EXPECT_EQ(dot->dot->rhs_contracting, std::vector<std::int64_t>{0});
  EXPECT_EQ(dot->shape.dimensions, (std::vector<std::int64_t>{8, 16, 256}));
}

/// Heads of attention and their features, where a product makes a matrix for each head: to have
/// both in one dimension would take a copy.
TEST(CanonicalForms, ContractedDimensionsOfWhatIsMadeInMatricesStayApart) {
  const auto contracted = [](bool is_scaled, bool turns) {
    GraphBuilder graph("heads");
    const Tensor weights = graph.parameter("p", array_shape(ElementType::kF32, {8, 4, 16, 32}));
    const Tensor values = graph.parameter("v", array_shape(ElementType::kF32, {8, 4, 32, 64}));
    const Tensor out = graph.parameter("o", array_shape(ElementType::kF32, {4, 64, 256}));
    // [example, head, query, feature] becomes [example, query, head, feature].
    Tensor heads = graph.dot(weights, values, {{0, 1}, {0, 1}, {3}, {2}}, ElementType::kF32);
    if (is_scaled) heads = graph.scale(heads, 2);
    if (turns) heads = graph.transpose(heads, {0, 2, 1, 3});
    const std::int64_t head = turns ? 2 : 1;
    const Tensor product = graph.dot(heads, out, {{}, {}, {head, 3}, {0, 1}}, ElementType::kF32);
    Module module = graph.finish(product, {weights, values, out});
    compiler::use_canonical_forms(module);
    EXPECT_NO_THROW(hlo::verify(module));
    const hlo::Computation& entry = module.entry_computation();
    const HloInstruction& root = entry.at(entry.root);
    return root.opcode == HloOpcode::kDot ? root.dot->lhs_contracting : std::vector<std::int64_t>{};
  };
  EXPECT_EQ(contracted(false, true), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(contracted(true, true), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(contracted(true, false), (std::vector<std::int64_t>{1, 3}));
}

TEST(CanonicalForms, OtherDimensionsOfADotStayAsTheyAre) {
  GraphBuilder graph("attention");
  const Tensor a = graph.parameter("a", array_shape(ElementType::kF32, {4, 16, 3, 32}));
  const Tensor b = graph.parameter("b", array_shape(ElementType::kF32, {4, 24, 3, 32}));
  const Tensor scores = graph.dot(a, b, {{0, 2}, {0, 2}, {3}, {3}}, ElementType::kF32);
  Module module = graph.finish(scores, {a, b});
  compiler::use_canonical_forms(module);
  EXPECT_NO_THROW(hlo::verify(module));
  EXPECT_EQ(module.entry_computation().instructions.size(), 3U);
  EXPECT_EQ(find(module, HloOpcode::kDot)->dot->lhs_batch, (std::vector<std::int64_t>{0, 2}));
}

TEST(CanonicalForms, SumsOfBf16AreMadeInF32) {
  GraphBuilder graph("sums");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kBf16, {32, 64}));
  Module module = graph.finish(graph.reduce_sum(x, {0}), {x});
  compiler::use_canonical_forms(module);
  EXPECT_NO_THROW(hlo::verify(module));
  EXPECT_EQ(find(module, HloOpcode::kReduce)->shape.type, ElementType::kF32);
}

isa::Buffer vector_buffer() {
  isa::Buffer buffer;
  buffer.name = "bias";
  buffer.role = isa::BufferRole::kParameter;
  buffer.bytes = 4096;
  buffer.shape = "f32[3]{0:T(1024)}";
  return buffer;
}

TEST(Buffers, ABf16VectorIsStoredAsF32) {
  // 1, 2 and -0.5 in bf16.
  const compiler::HostArray array{array_shape(ElementType::kBf16, {3}),
                                  {0x80, 0x3f, 0x00, 0x40, 0x00, 0xbf}};
  const std::vector<std::uint32_t> words = compiler::words_for(vector_buffer(), array);
  ASSERT_GE(words.size(), 3U);
  EXPECT_EQ(words[0], 0x3f800000U);
  EXPECT_EQ(words[1], 0x40000000U);
  EXPECT_EQ(words[2], 0xbf000000U);
  const compiler::HostArray back = compiler::array_from(vector_buffer(), words);
  EXPECT_EQ(compiler::converted(back, ElementType::kBf16).bytes, array.bytes);
}

TEST(Buffers, ArraysOfOtherExtentsAreRefusedByName) {
  const compiler::HostArray array{array_shape(ElementType::kF32, {4}),
                                  std::vector<std::uint8_t>(16)};
  try {
    compiler::words_for(vector_buffer(), array);
    FAIL() << "expected a WorkloadError";
  } catch (const WorkloadError& error) {
    EXPECT_STREQ(error.what(), "bias: expected an array f32[3], found f32[4]");
  }
}

}  // namespace
}  // namespace tpu::test::compiler_forms_test
