#include "workloads/compiler/compiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/compiler/run_compiled.h"
#include "workloads/frontend/graph_builder.h"
#include "workloads/frontend/zoo.h"

namespace tpu::test::compiler_test {
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
/// reference interpreter. `rounds`: products are the MXU's.
void expect_reference(const Module& module, double tolerance, std::uint32_t seed,
                      const MachineParams& params = {}, bool rounds = true) {
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
  options.round_matmul_operands_to_bf16 = rounds;
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

// Training steps of the zoo.

/// A workload, its first values and the inputs of its steps, for as many replicas as it has.
struct Training {
  Training(const std::string& name, const frontend::WorkloadOptions& options, std::uint32_t steps)
      : workload(frontend::build_workload(name, options)), steps(steps) {
    for (std::int64_t replica = 0; replica < options.replicas; ++replica) {
      CoreArguments core;
      core.parameters = frontend::initial_values(workload, kSeed, replica);
      for (std::uint32_t step = 0; step < steps; ++step) {
        core.steps.push_back(frontend::step_inputs(workload, kSeed, step, replica));
      }
      arguments.push_back(std::move(core));
    }
  }

  const hlo::HloInstruction& parameter(std::size_t number) const {
    const hlo::Computation& entry = workload.module.entry_computation();
    return entry.at(entry.parameters()[number]);
  }
  const Shape& shape(std::size_t number) const { return parameter(number).shape; }

  /// The results of the last step by the reference interpreter, by replica; the weights and inputs
  /// it starts with may be moved by a part of themselves.
  std::vector<reference::Value> reference(double moved_by = 0) const {
    reference::InterpreterOptions options;
    options.round_matmul_operands_to_bf16 = true;
    const reference::Interpreter interpreter(workload.module, options);
    std::vector<std::vector<reference::Value>> values;
    for (const CoreArguments& core : arguments) {
      values.emplace_back();
      for (std::size_t i = 0; i < core.parameters.size(); ++i) {
        values.back().push_back(reference::from_bytes(shape(i), core.parameters[i]));
        const ElementType type = shape(i).type;
        double factor = 1 + moved_by;
        for (float& number : values.back().back().numbers) {
          number = reference::round_to(type, number * factor);
          factor = 2 - factor;
        }
      }
    }
    const auto state = static_cast<std::size_t>(workload.state_tensors);
    std::vector<reference::Value> results;
    for (std::uint32_t step = 0; step < steps; ++step) {
      for (std::size_t replica = 0; replica < values.size(); ++replica) {
        const std::vector<Bytes>& inputs = arguments[replica].steps[step];
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          values[replica][state + i] = reference::from_bytes(shape(state + i), inputs[i]);
        }
      }
      results = interpreter.run_replicas(values);
      for (std::size_t replica = 0; replica < values.size(); ++replica) {
        for (std::size_t i = 0; i < state; ++i) values[replica][i] = results[replica].elements[i];
      }
    }
    return results;
  }

  static constexpr std::uint64_t kSeed = 1;
  frontend::Workload workload;
  std::uint32_t steps;
  std::vector<CoreArguments> arguments;
};

std::vector<double> minus(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

/// What a training is compared with. The operands of every product are rounded to bf16, and a value
/// that differs in its last bit may be rounded the other way: that noise shows when the reference
/// is run again with its weights moved by 1e-6, which happens when a tensor is first seen to be
/// further away than the floor.
class Yardstick {
 public:
  Yardstick(const Training& training, double floor, double weight_floor)
      : training_(training),
        floor_(floor),
        weight_floor_(weight_floor),
        wanted_(training.reference()) {}

  void expect_tensor(std::size_t core, std::size_t i, const std::vector<double>& found) {
    const std::vector<double> before =
        numbers_of(host_array(training_.shape(i), training_.arguments[core].parameters[i]));
    const auto change = [&](const std::vector<reference::Value>& results) {
      return minus(numbers_of(results[core].elements[i]), before);
    };
    const std::string& name = training_.parameter(i).name;
    const double floor = name.find("optimizer") == std::string::npos ? weight_floor_ : floor_;
    const double away = distance(minus(found, before), change(wanted_));
    if (away <= floor) return;
    const double noise = distance(change(moved()), change(wanted_));
    EXPECT_LE(away, floor + 4 * noise) << "core " << core << " " << name << " "
                                       << to_string(training_.shape(i)) << ", noise " << noise;
  }

  void expect_loss(std::size_t core, const std::vector<double>& found) {
    const std::vector<double> loss = numbers_of(wanted_[core].elements.back());
    const double away = distance(found, loss);
    if (away <= floor_ / 10) return;
    const double noise = distance(numbers_of(moved()[core].elements.back()), loss);
    EXPECT_LE(away, floor_ / 10 + 4 * noise) << "loss " << found[0] << " of " << loss[0];
  }

 private:
  const std::vector<reference::Value>& moved() {
    if (moved_.empty()) moved_ = training_.reference(1e-6);
    return moved_;
  }

  const Training& training_;
  double floor_, weight_floor_;
  std::vector<reference::Value> wanted_, moved_;
};

/// Trains on the machine and expects, tensor by tensor, the change that the reference computes:
/// `floor` away (weights: `weight_floor`) or four times as far as its noise.
void expect_training(const Training& training, double floor, double weight_floor,
                     const MachineParams& params = {}) {
  const CompiledRun run =
      run_compiled(training.workload.module, training.arguments, training.steps, params);
  Yardstick yardstick(training, floor, weight_floor);
  const auto state = static_cast<std::size_t>(training.workload.state_tensors);
  for (std::size_t core = 0; core < run.outputs.size(); ++core) {
    for (std::size_t i = 0; i < state; ++i) {
      yardstick.expect_tensor(core, i, numbers_of(run.outputs[core][i]));
    }
    yardstick.expect_loss(core, numbers_of(run.outputs[core][state]));
  }
}

frontend::WorkloadOptions with_batch(std::int64_t batch) {
  frontend::WorkloadOptions options;
  options.batch = batch;
  return options;
}

TEST(Compiler, MatmulsComputeWhatTheReferenceComputes) {
  for (const char* shape : {"64x128x256", "100x300x70", "1x784x10"}) {
    for (const char* dtype : {"f32", "bf16"}) {
      SCOPED_TRACE(std::string(shape) + " " + dtype);
      frontend::WorkloadOptions options;
      options.shape = shape;
      options.dtype = dtype;
      // A vector times a matrix is the vector unit's, exact in fp32.
      const bool rounds = std::string(shape).rfind("1x", 0) != 0;
      expect_reference(frontend::build_workload("matmul", options).module,
                       std::string(dtype) == "f32" ? 1e-5 : 3e-3, 5, {}, rounds);
    }
  }
}

TEST(Compiler, DotsContractAnyOfTheirMinorDimensions) {
  for (const auto& [left, right] :
       {std::pair<std::int64_t, std::int64_t>{0, 0}, {0, 1}, {1, 0}, {1, 1}}) {
    SCOPED_TRACE(std::to_string(left) + " " + std::to_string(right));
    GraphBuilder graph("dot");
    const auto side = [](std::int64_t contracting, std::int64_t free) {
      return array_shape(ElementType::kF32, contracting == 0 ? frontend::Extents{10, free}
                                                             : frontend::Extents{free, 10});
    };
    const Tensor a = graph.parameter("a", side(left, 24));
    const Tensor b = graph.parameter("b", side(right, 1024));
    const Tensor product = graph.dot(a, b, {{}, {}, {left}, {right}}, ElementType::kF32);
    expect_reference(graph.finish(product, {a, b}), 1e-5, 3);
  }
}

TEST(Compiler, MlpStepsAreTheReferences) {
  expect_training(Training("mlp", with_batch(24), 1), 1e-3, 1e-3);
  expect_training(Training("mlp", with_batch(20), 3), 1e-3, 1e-3);
  expect_training(Training("mlp", with_batch(24), 1), 1e-3, 1e-3, v2_8());
}

/// A convolution with a bias, and sums of its results and of their squares over all but the
/// features, as a batch normalisation needs them.
Module convolution_with_sums(std::int64_t batch, ElementType type, std::int64_t size = 3,
                             std::int64_t features = 20, std::int64_t stride = 1) {
  GraphBuilder graph("sums");
  const Tensor x = graph.parameter("x", array_shape(type, {batch, 5, 7, 5}));
  const Tensor w = graph.parameter("w", array_shape(type, {size, size, 5, features}));
  const Tensor b = graph.parameter("b", array_shape(ElementType::kF32, {features}));
  hlo::WindowDimension window;
  window.size = size;
  window.stride = stride;
  window.padding_low = window.padding_high = size / 2;
  const Tensor y = graph.convolution(x, w, frontend::nhwc_dimensions(), {window, window});
  const frontend::Extents extents{batch, (5 - 1) / stride + 1, (7 - 1) / stride + 1, features};
  const Tensor z = graph.add(graph.convert(y, ElementType::kF32), graph.broadcast(b, extents, {3}));
  const Tensor sum = graph.reduce_sum(z, {0, 1, 2});
  const Tensor squares = graph.reduce_sum(graph.multiply(z, z), {0, 1, 2});
  return graph.finish(graph.tuple({graph.convert(z, type), sum, squares}), {x, w, b});
}

TEST(Compiler, SumsBehindAConvolutionWithItsBatchInTheLanes) {
  // Whole and partial tiles of lanes; 5 rows and 7 columns of pixels fill no block.
  for (std::int64_t batch : {128, 100, 130}) {
    SCOPED_TRACE(batch);
    expect_reference(convolution_with_sums(batch, ElementType::kF32), 1e-4, 1);
    expect_reference(convolution_with_sums(batch, ElementType::kBf16), 1e-2, 2);
  }
}

/// One kernel makes the result and its sums; what lies in padding adds nothing.
TEST(Compiler, SumsBehindAConvolutionWithItsFeaturesInTheLanes) {
  for (std::int64_t batch : {1, 3, 8, 12}) {
    for (std::int64_t size : {1, 3}) {
      SCOPED_TRACE(std::to_string(batch) + ", window " + std::to_string(size));
      const Module f32 = convolution_with_sums(batch, ElementType::kF32, size, 130);
      compiler::CompileReport report;
      compiler::compile(f32, target_of({}, 1), &report);
      if (batch > 1) {  // A batch of 1 is no dimension.
        EXPECT_EQ(report.call_sites, 1U);
      }
      expect_reference(f32, 1e-4, 1);
      expect_reference(convolution_with_sums(batch, ElementType::kBf16, size, 130), 1e-2, 2);
      expect_reference(convolution_with_sums(batch, ElementType::kF32, size, 130, 2), 1e-4, 3);
    }
  }
}

TEST(Compiler, LenetStepsAreTheReferences) {
  expect_training(Training("lenet", with_batch(12), 2), 1e-3, 1e-3);
}

// bf16 activations: a fused kernel keeps f32 where the graph rounds between two of its operations.

TEST(Compiler, TransformerStepsAreTheReferences) {
  // Adam's first step is the sign of each gradient: of 256 elements one whose gradient is next to
  // nothing and falls on the other side is 0.125.
  expect_training(Training("transformer", with_batch(2), 1), 3e-2, 0.25);
}

TEST(Compiler, EncodersAndTranslationAreTheReferences) {
  frontend::WorkloadOptions options = with_batch(3);
  options.layers = 1;
  options.width = 64;
  options.heads = 2;
  options.sequence = 12;
  options.vocabulary = 200;
  for (const char* name : {"bert", "fairseq-transformer"}) {
    SCOPED_TRACE(name);
    expect_training(Training(name, options, 1), 3e-2, 0.3);
  }
}

/// From 129 images on, two arrays behind the last gradient of a kernel leave it no room.
TEST(Compiler, ResNet50CompilesWhateverItsBatch) {
  for (const std::int64_t batch : {9, 129, 150, 207, 255, 271}) {
    SCOPED_TRACE(batch);
    EXPECT_NO_THROW(compiler::compile(
        frontend::build_workload("resnet50", with_batch(batch)).module, target_of({}, 1)));
  }
}

/// Some of its kernels' gradients use nearly all scalar registers.
TEST(Compiler, BigGanCompiles) {
  EXPECT_NO_THROW(compiler::compile(frontend::build_workload("biggan", with_batch(8)).module,
                                    target_of({}, 1)));
}

TEST(Compiler, ReducedResNet50StepsAreTheReferences) {
  frontend::WorkloadOptions options = with_batch(8);
  options.image = 32;
  options.classes = 10;
  expect_training(Training("resnet50", options, 1), 3e-2, 3e-2);
}

TEST(Compiler, TheLossFalls) {
  for (const auto& [name, steps, part] :
       {std::tuple<const char*, std::uint32_t, double>{"mlp", 12, 0.5},
        {"lenet", 4, 0.98},
        {"transformer", 6, 0.98}}) {
    const Training first(name, with_batch(name == std::string("transformer") ? 1 : 12), 1);
    const Training training(name, with_batch(name == std::string("transformer") ? 1 : 12), steps);
    const double before = numbers_of(first.reference()[0].elements.back())[0];
    const CompiledRun run = run_compiled(training.workload.module, training.arguments, steps);
    const double after = numbers_of(run.outputs[0].back())[0];
    EXPECT_LT(after, part * before) << name;
  }
}

TEST(Compiler, EightCoresTrainLikeOneOnTheWholeBatch) {
  frontend::WorkloadOptions options = with_batch(2);
  options.replicas = 8;
  expect_training(Training("mlp", options, 1), 1e-3, 1e-3);
}

TEST(Compiler, AnOperationWithoutAKernelIsRefusedByNameAndShape) {
  GraphBuilder graph("sines");  // Of integers.
  const Tensor x = graph.parameter("x", array_shape(ElementType::kS32, {16, 128}));
  const Tensor y = graph.parameter("y", array_shape(ElementType::kS32, {32, 64}));
  const Module module = graph.finish(
      graph.tuple({graph.unary(HloOpcode::kSine, x), graph.unary(HloOpcode::kCbrt, y)}), {x, y});
  try {
    compiler::compile(module, target_of({}, 1));
    FAIL() << "expected a WorkloadError";
  } catch (const WorkloadError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("2 operations have no kernel"), std::string::npos) << text;
    EXPECT_NE(text.find("cbrt"), std::string::npos) << text;
    EXPECT_NE(text.find("s32[32,64]"), std::string::npos) << text;
  }
}

TEST(Compiler, TheSameModuleGivesTheSameProgram) {
  const Module module = frontend::build_workload("transformer").module;
  const isa::Program a = compiler::compile(module, target_of({}, 1));
  const isa::Program b = compiler::compile(module, target_of({}, 1));
  ASSERT_EQ(a.kernels.size(), b.kernels.size());
  for (std::size_t i = 0; i < a.kernels.size(); ++i) {
    EXPECT_EQ(a.kernels[i].instructions, b.kernels[i].instructions);
  }
  // Equal fusions share a kernel: those of one layer serve the others.
  // The first kernel is the top-level program.
  EXPECT_LT(a.kernels.size() - 1, a.call_sites.size());
}

}  // namespace
}  // namespace tpu::test::compiler_test
