#include <gtest/gtest.h>

#include "tests/compiler/elementwise_check.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/frontend/graph_builder.h"

namespace tpu::test {
namespace {

using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::ElementType;

struct Embedding {
  std::int64_t rows = 10, width = 100, count = 20;
  double low = 0, high = 10;  ///< Range of the indices.
};

/// Lowers a gather of rows or the scatter that adds rows, and compares.
void check(bool is_gather, const Embedding& sizes, const compiler::Target& target = {},
           ElementType type = ElementType::kF32) {
  GraphBuilder graph("test");
  const Tensor table = graph.parameter("table", hlo::array_shape(type, {sizes.rows, sizes.width}));
  const Tensor indices =
      graph.parameter("indices", hlo::array_shape(ElementType::kS32, {sizes.count}));
  std::vector<Tensor> parameters{table, indices};
  hlo::GatherDimensions dimensions;
  dimensions.offset_dims = {1};
  dimensions.collapsed_slice_dims = {0};
  dimensions.start_index_map = {0};
  dimensions.index_vector_dim = 1;
  Tensor result;
  if (is_gather) {
    dimensions.slice_sizes = {1, sizes.width};
    result = graph.gather(table, indices, dimensions);
  } else {
    parameters.push_back(
        graph.parameter("updates", hlo::array_shape(type, {sizes.count, sizes.width})));
    result = graph.scatter_add(table, indices, parameters[2], dimensions);
  }
  hlo::Module module = graph.finish(result, parameters);
  compiler::assign_layouts(module);
  const hlo::Computation& entry = module.entry_computation();
  std::vector<Array> inputs;
  for (hlo::InstructionId id : entry.parameters()) {
    const bool is_index = inputs.size() == 1;
    inputs.push_back(
        random_array(entry.at(id).shape, 7, is_index ? sizes.low : -2, is_index ? sizes.high : 2));
  }
  const hlo::HloInstruction& root = entry.at(entry.root);
  const compiler::LoweredKernel lowered = compiler::lower_embedding(module, entry, root, target);
  const std::vector<Array> expected = NaiveEvaluation(module, inputs).run();
  for (DmaTiming timing : {DmaTiming::kAtOnce, DmaTiming::kLate}) {
    const auto found = run_kernel(lowered.kernel, inputs, {root.shape}, timing);
    expect_close(expected[0], found[0], {1e-5, 1e-4}, is_gather ? "gather" : "scatter");
  }
}

TEST(Embedding, GathersRows) {
  check(true, {10, 100, 20, 0, 10});
  check(true, {300, 300, 100, 0, 300});
  check(true, {77, 128, 1100, 0, 77});
  check(true, {77, 130, 2048, 0, 77});
  check(true, {5, 20, 3, 0, 5});
}

TEST(Embedding, ClampsIndicesOfAGather) { check(true, {30, 40, 50, -20, 60}); }

TEST(Embedding, AddsRows) {
  check(false, {10, 100, 20, 0, 10});
  check(false, {300, 300, 100, 0, 300});
  check(false, {77, 128, 1100, 0, 77});
  check(false, {77, 130, 2048, 0, 77});
}

TEST(Embedding, SkipsIndicesOutsideTheTableOfAScatter) { check(false, {30, 40, 50, -20, 60}); }

TEST(Embedding, TablesLargerThanVmemAreCutIntoParts) {
  compiler::Target small;
  small.vmem_bytes = 256 << 10;
  check(false, {300, 300, 100, 0, 300}, small);
  check(false, {1000, 130, 200, 0, 1000}, small);
}

TEST(Embedding, PackedTablesAreRefused) {
  EXPECT_THROW(check(true, {10, 100, 20, 0, 10}, {}, ElementType::kBf16), WorkloadError);
}

}  // namespace
}  // namespace tpu::test
