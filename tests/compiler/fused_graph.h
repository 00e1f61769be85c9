#pragma once

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "tests/compiler/elementwise_check.h"
#include "workloads/compiler/kernels/elementwise/elementwise_kernel.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"
#include "workloads/compiler/passes/layout/layouts.h"
#include "workloads/frontend/graph_builder.h"

namespace tpu::test {

/// Lowers the whole entry computation of a graph as one fusion and compares it with the naive
/// evaluation on random inputs.
class FusedGraph {
 public:
  frontend::GraphBuilder graph{"test"};
  compiler::Target target;  ///< What the kernel is made for.

  frontend::Tensor input(hlo::ElementType type, const frontend::Extents& dimensions,
                         double low = -2, double high = 2) {
    ranges_.emplace_back(low, high);
    parameters_.push_back(
        graph.parameter("x" + std::to_string(ranges_.size()), hlo::array_shape(type, dimensions)));
    return parameters_.back();
  }

  /// Layout {minor_to_major} for all arrays of its rank.
  void set_layout(std::vector<std::int64_t> minor_to_major) {
    minor_to_major_[minor_to_major.size()] = std::move(minor_to_major);
  }

  KernelHarness::Result check(const std::vector<frontend::Tensor>& roots,
                              const Tolerance& tolerance = {}) {
    const frontend::Tensor root = roots.size() == 1 ? roots[0] : graph.tuple(roots);
    hlo::Module module = graph.finish(root, parameters_);
    compiler::assign_layouts(module);
    hlo::Computation& entry = module.entry_computation();
    for (hlo::HloInstruction& instruction : entry.instructions) {
      const auto layout = minor_to_major_.find(instruction.shape.dimensions.size());
      if (layout == minor_to_major_.end()) continue;
      instruction.shape.layout = compiler::tiled_layout(instruction.shape.type, layout->second);
    }
    std::vector<Array> inputs;
    std::uint32_t seed = 1;
    for (const hlo::HloInstruction& instruction : entry.instructions) {
      if (instruction.opcode != hlo::HloOpcode::kParameter) continue;
      const auto [low, high] = ranges_[static_cast<std::size_t>(instruction.parameter_number)];
      inputs.push_back(random_array(instruction.shape, seed++, low, high));
    }
    std::vector<compiler::ElementwisePiece> pieces =
        compiler::find_elementwise_pieces(compiler::ExpressionGraph(module, entry, "test"),
                                          inputs.size(), target)
            .value();
    compiler::KernelBuilder builder("test", target);
    for (compiler::ElementwisePiece& piece : pieces) {
      if (builder.vmem_bytes() > 0) builder.begin_anew();
      compiler::ElementwiseKernel(builder, piece.graph, inputs.size(), std::move(piece.plan))
          .emit();
    }
    const isa::Kernel kernel = builder.finish();
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
  std::vector<frontend::Tensor> parameters_;
  std::vector<std::pair<double, double>> ranges_;
  std::map<std::size_t, std::vector<std::int64_t>> minor_to_major_;  ///< By rank.
};

}  // namespace tpu::test
