#include "workloads/compiler/kernels/elementwise.h"

#include <gtest/gtest.h>

#include "tests/compiler/elementwise_check.h"
#include "workloads/compiler/kernels/elementwise_kernel.h"
#include "workloads/compiler/kernels/expression_graph.h"

namespace tpu::test {
namespace {

using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::ElementType;
using hlo::HloOpcode;

/// Lowers the whole entry computation of a graph as one fusion and compares it with the naive
/// evaluation on random inputs.
class FusedGraph {
 public:
  GraphBuilder graph{"test"};

  Tensor input(ElementType type, const frontend::Extents& dimensions, double low = -2,
               double high = 2) {
    ranges_.emplace_back(low, high);
    parameters_.push_back(
        graph.parameter("x" + std::to_string(ranges_.size()), hlo::array_shape(type, dimensions)));
    return parameters_.back();
  }

  /// Layout {minor_to_major} for all arrays of its rank.
  void set_layout(std::vector<std::int64_t> minor_to_major) {
    minor_to_major_ = std::move(minor_to_major);
  }

  KernelHarness::Result check(const std::vector<Tensor>& roots, const Tolerance& tolerance = {}) {
    const Tensor root = roots.size() == 1 ? roots[0] : graph.tuple(roots);
    hlo::Module module = graph.finish(root, parameters_);
    compiler::assign_layouts(module);
    hlo::Computation& entry = module.entry_computation();
    for (hlo::HloInstruction& instruction : entry.instructions) {
      if (minor_to_major_.size() >= 2 &&
          instruction.shape.dimensions.size() == minor_to_major_.size()) {
        instruction.shape.layout = compiler::tiled_layout(instruction.shape.type, minor_to_major_);
      }
    }
    std::vector<Array> inputs;
    std::uint32_t seed = 1;
    for (const hlo::HloInstruction& instruction : entry.instructions) {
      if (instruction.opcode != HloOpcode::kParameter) continue;
      const auto [low, high] = ranges_[static_cast<std::size_t>(instruction.parameter_number)];
      inputs.push_back(random_array(instruction.shape, seed++, low, high));
    }
    const compiler::ExpressionGraph expressions(module, entry, "test");
    const isa::Kernel kernel =
        compiler::ElementwiseKernel(expressions, inputs.size(), compiler::Target{}).emit();
    const std::vector<Array> expected = NaiveEvaluation(module, inputs).run();
    std::vector<hlo::Shape> shapes;
    for (const Array& array : expected) shapes.push_back(array.shape);
    KernelHarness::Result cost;
    for (DmaTiming timing : {DmaTiming::kAtOnce, DmaTiming::kLate}) {
      const std::vector<std::vector<double>> found =
          run_kernel(kernel, inputs, shapes, timing, &cost);
      for (std::size_t i = 0; i < found.size(); ++i) {
        expect_close(expected[i], found[i], tolerance, "result " + std::to_string(i));
      }
    }
    return cost;
  }

 private:
  std::vector<Tensor> parameters_;
  std::vector<std::pair<double, double>> ranges_;
  std::vector<std::int64_t> minor_to_major_;
};

TEST(Elementwise, AddsArraysOfOddExtents) {
  FusedGraph test;
  const Tensor a = test.input(ElementType::kF32, {37, 300});
  const Tensor b = test.input(ElementType::kF32, {37, 300});
  test.check({test.graph.add(a, b)});
}

TEST(Elementwise, StreamsManyBlocks) {
  FusedGraph test;
  const Tensor a = test.input(ElementType::kF32, {1003, 257});
  const Tensor b = test.input(ElementType::kF32, {1003, 257});
  test.check({test.graph.multiply(a, b), test.graph.subtract(a, b)});
}

TEST(Elementwise, ScalarsAndVectors) {
  FusedGraph test;
  const Tensor a = test.input(ElementType::kF32, {});
  const Tensor b = test.input(ElementType::kF32, {});
  test.check({test.graph.add(a, b)});
  FusedGraph vectors;
  const Tensor c = vectors.input(ElementType::kF32, {3000});
  const Tensor d = vectors.input(ElementType::kF32, {});
  vectors.check({vectors.graph.multiply(c, vectors.graph.broadcast(d, {3000}, {}))});
}

}  // namespace
}  // namespace tpu::test
