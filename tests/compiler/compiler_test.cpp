#include "workloads/compiler/compiler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/compiler/run_compiled.h"
#include "workloads/frontend/graph_builder.h"
#include "workloads/frontend/zoo.h"

namespace tpu::test {
namespace {

using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::array_shape;
using hlo::ElementType;
using hlo::HloOpcode;
using hlo::Module;
using hlo::Shape;

Bytes floats(std::size_t count, std::mt19937& engine, float low = -2, float high = 2) {
  std::uniform_real_distribution<float> uniform(low, high);
  Bytes bytes(count * sizeof(float));
  for (std::size_t i = 0; i < count; ++i) {
    const float value = uniform(engine);
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  return bytes;
}

/// Random values in the type of the shape.
Bytes random_bytes(const Shape& shape, std::mt19937& engine) {
  const auto count = static_cast<std::size_t>(shape.element_count());
  const Shape wide = array_shape(ElementType::kF32, shape.dimensions);
  if (shape.type == ElementType::kS32) {
    Bytes bytes(count * 4);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t value = static_cast<std::int32_t>(engine() % 100) - 50;
      std::memcpy(bytes.data() + 4 * i, &value, sizeof value);
    }
    return bytes;
  }
  return compiler::converted({wide, floats(count, engine)}, shape.type).bytes;
}

/// Runs a module once, on one core with random parameters, and compares every result with the
/// reference interpreter.
void expect_reference(const Module& module, double tolerance, std::uint32_t seed,
                      const MachineParams& params = {}) {
  std::mt19937 engine(seed);
  CoreArguments arguments;
  std::vector<reference::Value> values;
  const hlo::Computation& entry = module.entry_computation();
  for (hlo::InstructionId parameter : entry.parameters()) {
    const Shape& shape = entry.at(parameter).shape;
    arguments.parameters.push_back(random_bytes(shape, engine));
    values.push_back(reference::from_bytes(shape, arguments.parameters.back()));
  }
  reference::InterpreterOptions options;
  options.round_matmul_operands_to_bf16 = true;
  const reference::Value expected = reference::Interpreter(module, options).run(values);
  const CompiledRun run = run_compiled(module, {arguments}, 1, params);
  for (std::size_t i = 0; i < run.outputs[0].size(); ++i) {
    const reference::Value& wanted = expected.elements.empty() ? expected : expected.elements[i];
    EXPECT_LE(distance(numbers_of(run.outputs[0][i]), numbers_of(wanted)), tolerance)
        << "result " << i << " of " << hlo::to_string(module);
  }
}

// Small graphs.

TEST(Compiler, AnElementwiseGraphComputesWhatTheReferenceComputes) {
  GraphBuilder graph("saxpy");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {37, 200}));
  const Tensor y = graph.parameter("y", array_shape(ElementType::kF32, {200}));
  const Tensor scaled = graph.scale(x, 3);
  const Tensor sum = graph.add(scaled, graph.broadcast(y, {37, 200}, {1}));
  expect_reference(graph.finish(sum, {x, y}), 1e-6, 1);
}

/// Writes random elementwise graphs with reductions and broadcasts, over sizes that are no
/// multiples of tiles.
class RandomGraph {
 public:
  explicit RandomGraph(std::uint32_t seed) : engine_(seed), graph_("random") {}

  Module make() {
    const std::int64_t rows = 1 + pick(40), columns = 1 + pick(300);
    dimensions_ = pick(3) == 0 ? frontend::Extents{1 + pick(4), rows, columns}
                               : frontend::Extents{rows, columns};
    std::vector<Tensor> parameters;
    for (int i = 0; i < 3; ++i) {
      const ElementType type = pick(3) == 0 ? ElementType::kBf16 : ElementType::kF32;
      parameters.push_back(
          graph_.parameter("p" + std::to_string(i), array_shape(type, dimensions_)));
      full_.push_back(graph_.convert(parameters.back(), ElementType::kF32));
    }
    parameters.push_back(
        graph_.parameter("v", array_shape(ElementType::kF32, {dimensions_.back()})));
    vectors_.push_back(parameters.back());
    for (int i = 0; i < 12; ++i) grow();
    std::vector<Tensor> results{full_.back(), vectors_.back()};
    if (pick(2) == 0) results.push_back(graph_.convert(any(full_), ElementType::kBf16));
    if (pick(2) == 0) results.push_back(any(full_));
    if (pick(2) == 0) results.push_back(graph_.reduce_sum(any(full_), all_dimensions()));
    return graph_.finish(graph_.tuple(results), parameters);
  }

 private:
  int pick(int below) { return static_cast<int>(engine_() % static_cast<unsigned>(below)); }
  Tensor any(const std::vector<Tensor>& from) {
    return from[static_cast<std::size_t>(pick(static_cast<int>(from.size())))];
  }
  frontend::Extents all_dimensions() const {
    frontend::Extents all;
    for (std::size_t d = 0; d < dimensions_.size(); ++d) all.push_back(static_cast<int>(d));
    return all;
  }
  Tensor spread(Tensor vector) {
    return graph_.broadcast(vector, dimensions_,
                            {static_cast<std::int64_t>(dimensions_.size()) - 1});
  }

  void grow() {
    switch (pick(9)) {
      case 0:
        return full_.push_back(graph_.add(any(full_), any(full_)));
      case 1:
        return full_.push_back(graph_.multiply(any(full_), graph_.scale(any(full_), 0.25)));
      case 2:
        return full_.push_back(graph_.unary(HloOpcode::kTanh, any(full_)));
      case 3:
        return full_.push_back(graph_.subtract(any(full_), spread(any(vectors_))));
      case 4: {
        const Tensor a = any(full_), b = any(full_);
        const Tensor is_greater = graph_.compare(a, b, hlo::ComparisonDirection::kGt);
        return full_.push_back(graph_.select(is_greater, any(full_), graph_.scale(b, -1)));
      }
      case 5: {
        frontend::Extents rows = all_dimensions();
        rows.pop_back();
        const Tensor sum = graph_.reduce_sum(any(full_), rows);
        return vectors_.push_back(graph_.scale(sum, 0.05));
      }
      case 6:
        return vectors_.push_back(graph_.multiply(any(vectors_), any(vectors_)));
      case 7: {
        // Normalises along the minor dimension: a reduction whose result is spread again.
        const Tensor x = any(full_);
        const std::int64_t last = static_cast<std::int64_t>(dimensions_.size()) - 1;
        const Tensor greatest = graph_.reduce_max(x, {last});
        frontend::Extents kept;
        for (std::int64_t d = 0; d < last; ++d) kept.push_back(d);
        const Tensor spread_again = graph_.broadcast(greatest, dimensions_, kept);
        return full_.push_back(graph_.subtract(x, spread_again));
      }
      default:
        return full_.push_back(
            graph_.binary(HloOpcode::kMaximum, any(full_), graph_.splat_like(full_[0], -0.5)));
    }
  }

  std::mt19937 engine_;
  GraphBuilder graph_;
  frontend::Extents dimensions_;
  std::vector<Tensor> full_, vectors_;
};

TEST(Compiler, RandomElementwiseGraphsComputeWhatTheReferenceComputes) {
  // f32 throughout but for results in bf16, of which one rounding may go the other way: 2^-8.
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_reference(RandomGraph(seed).make(), 4e-3, seed);
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace tpu::test
