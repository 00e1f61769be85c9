#include <gtest/gtest.h>

#include <functional>

#include "tests/compiler/elementwise_check.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/frontend/graph_builder.h"

namespace tpu::test {
namespace {

using frontend::Extents;
using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::ElementType;
using hlo::Shape;

/// One operation that moves elements of some arrays.
struct Move {
  std::vector<Extents> inputs;
  std::function<Tensor(GraphBuilder&, const std::vector<Tensor>&)> build;
  std::vector<std::int64_t> source_layout;  ///< Minor to major; empty: row-major.
  std::vector<std::int64_t> target_layout;
};

KernelHarness::Result check(const Move& move, ElementType type = ElementType::kF32,
                            const compiler::Target& target = {}) {
  GraphBuilder graph("test");
  std::vector<Tensor> parameters;
  for (const Extents& extents : move.inputs) {
    parameters.push_back(graph.parameter("x", hlo::array_shape(type, extents)));
  }
  const Tensor result = move.build(graph, parameters);
  hlo::Module module = graph.finish(result, parameters);
  hlo::Computation& entry = module.entry_computation();
  std::vector<Array> inputs;
  for (hlo::HloInstruction& instruction : entry.instructions) {
    const bool is_root = instruction.id == entry.root;
    const std::vector<std::int64_t>& order = is_root ? move.target_layout : move.source_layout;
    Shape& shape = instruction.shape;
    shape.layout = order.empty() || shape.rank() != static_cast<std::int64_t>(order.size())
                       ? compiler::row_major_layout(shape.type, shape.rank())
                       : compiler::tiled_layout(shape.type, order);
  }
  for (hlo::InstructionId id : entry.parameters()) {
    inputs.push_back(
        random_array(entry.at(id).shape, static_cast<std::uint32_t>(inputs.size() + 1), -9, 9));
  }
  const hlo::HloInstruction& root = entry.at(entry.root);
  const compiler::LoweredKernel lowered = compiler::lower_relayout(module, entry, root, target);
  const std::vector<Array> expected = NaiveEvaluation(module, inputs).run();
  KernelHarness::Result cost;
  for (DmaTiming timing : {DmaTiming::kAtOnce, DmaTiming::kLate}) {
    std::vector<Array> operands = inputs;
    // A padding value is an operand without a buffer.
    while (operands.size() < root.operands.size()) {
      operands.push_back({hlo::array_shape(ElementType::kF32, {}), {0}});
    }
    const auto found = run_kernel(lowered.kernel, operands, {root.shape}, timing, &cost);
    expect_close(expected[0], found[0], {0, 0}, std::string(hlo::to_string(root.opcode)));
  }
  return cost;
}

Move slice(const Extents& input, const Extents& starts, const Extents& limits,
           const Extents& strides = {}) {
  return {{input},
          [=](GraphBuilder& g, const std::vector<Tensor>& x) {
            return g.slice(x[0], starts, limits, strides);
          },
          {},
          {}};
}

Move concatenate(const std::vector<Extents>& inputs, std::int64_t dimension) {
  return {
      inputs,
      [=](GraphBuilder& g, const std::vector<Tensor>& x) { return g.concatenate(x, dimension); },
      {},
      {}};
}

Move pad(const Extents& input, const std::vector<hlo::PaddingDimension>& padding, double value) {
  return {
      {input},
      [=](GraphBuilder& g, const std::vector<Tensor>& x) { return g.pad(x[0], padding, value); },
      {},
      {}};
}

TEST(Relayout, SlicesOfWholeTilesAreDmas) {
  check(slice({100, 700}, {0, 256}, {100, 384}));
  check(slice({100, 700}, {16, 128}, {90, 700}));
  check(slice({100, 700}, {16, 128}, {90, 700}), ElementType::kBf16);
  check(slice({6, 20, 300}, {1, 8, 0}, {5, 20, 300}, {2, 1, 1}));
  check(slice({3000}, {1024}, {2900}));
  check(slice({2000, 130}, {8, 128}, {2000, 130}));
}

TEST(Relayout, ConcatenationsOfWholeTilesAreDmas) {
  check(concatenate({{50, 128}, {50, 256}, {50, 30}}, 1));
  check(concatenate({{50, 128}, {50, 256}, {50, 30}}, 1), ElementType::kBf16);
  check(concatenate({{16, 100}, {8, 100}, {21, 100}}, 0));
  check(concatenate({{3, 10, 50}, {2, 10, 50}}, 0));
}

TEST(Relayout, PaddingOfMajorDimensionsAreDmas) {
  check(pad({3, 4, 10, 50}, {{1, 2, 0}, {2, 0, 1}, {0, 0, 0}, {0, 0, 0}}, 1.5));
  check(pad({3, 4, 10, 50}, {{1, 2, 0}, {-1, 0, 0}, {0, 0, 0}, {0, 0, 0}}, -2), ElementType::kBf16);
  check(pad({16, 128}, {{8, 3, 0}, {128, 5, 0}}, 4));
}

}  // namespace
}  // namespace tpu::test
