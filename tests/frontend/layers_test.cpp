#include "workloads/frontend/layers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/frontend/gradient_check.h"
#include "workloads/frontend/attention.h"

namespace tpu::frontend::layers_test {
namespace {

using hlo::ElementType;
using hlo::HloOpcode;

/// A model whose loss is the sum of y * y, ready to be run: the loss and the gradient of each
/// weight and of the input.
struct CheckedLayer {
  hlo::Module module;
  std::vector<hlo::Shape> shapes;
};

using BuildLayer = std::function<Tensor(Model&, Tensor)>;

CheckedLayer build_layer(const Extents& input, const BuildLayer& layer) {
  Model model("layer", ElementType::kF32);
  GraphBuilder& graph = model.graph;
  const Tensor x = graph.parameter("x", hlo::array_shape(ElementType::kF32, input));
  const Tensor y = layer(model, x);
  Extents all;
  for (std::int64_t d = 0; d < graph.shape(y).rank(); ++d) all.push_back(d);
  const Tensor wave = graph.unary(HloOpcode::kSine, graph.scale(y, 1.7));
  const Tensor loss = graph.reduce_sum(wave, all);
  std::vector<Tensor> parameters;
  for (const hlo::HloInstruction& instruction : graph.entry().instructions) {
    if (instruction.opcode == HloOpcode::kParameter) parameters.push_back(Tensor{instruction.id});
  }
  CheckedLayer checked;
  for (Tensor parameter : parameters) checked.shapes.push_back(graph.shape(parameter));
  std::vector<Tensor> results = gradients(graph, loss, parameters);
  results.insert(results.begin(), loss);
  checked.module = graph.finish(graph.tuple(results), parameters);
  hlo::verify(checked.module);
  return checked;
}

/// Every weight and the input, against central differences.
void check_layer(const Extents& input, const BuildLayer& layer, double tolerance = 5e-3) {
  const CheckedLayer checked = build_layer(input, layer);
  std::mt19937 random(5);
  std::vector<reference::Value> at;
  for (const hlo::Shape& shape : checked.shapes) {
    at.push_back(random_value(shape, -0.8, 0.8, random));
  }
  const reference::Interpreter interpreter(checked.module);
  const reference::Value here = interpreter.run(at);
  constexpr float kStep = 4e-3f;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const reference::Value& gradient = here.elements[1 + i];
    const reference::Value direction = random_value(at[i].shape, -1, 1, random);
    std::vector<reference::Value> above = at, below = at;
    for (std::size_t k = 0; k < direction.numbers.size(); ++k) {
      above[i].numbers[k] += kStep * direction.numbers[k];
      below[i].numbers[k] -= kStep * direction.numbers[k];
    }
    const auto loss = [&](const std::vector<reference::Value>& values) {
      return static_cast<double>(interpreter.run(values).elements[0].numbers[0]);
    };
    const double measured = (loss(above) - loss(below)) / (2 * static_cast<double>(kStep));
    const double norm = std::sqrt(inner_product(gradient, gradient));
    EXPECT_NEAR(inner_product(gradient, direction), measured, tolerance * norm + 2e-3)
        << "parameter " << i << " " << hlo::to_string(at[i].shape);
    EXPECT_GT(norm, 0) << "parameter " << i;
  }
}

TEST(Layers, Dense) {
  check_layer({4, 3}, [](Model& model, Tensor x) { return dense(model, x, "dense", 5, true); });
}

TEST(Layers, Conv2dWithBias) {
  check_layer({2, 6, 6, 3}, [](Model& model, Tensor x) {
    return conv2d(model, x, "conv", {4, 3, 2, {1, 1}, true});
  });
}

TEST(Layers, BatchNorm) {
  check_layer({3, 4, 4, 2}, [](Model& model, Tensor x) { return batch_norm(model, x, "norm"); });
}

TEST(Layers, Pooling) {
  check_layer({2, 6, 6, 3},
              [](Model& model, Tensor x) { return max_pool(model, x, "pool", 2, 2); });
  check_layer({2, 7, 7, 3},
              [](Model& model, Tensor x) { return average_pool(model, x, "pool", 3, 2); });
  check_layer({2, 5, 4, 3},
              [](Model& model, Tensor x) { return global_average_pool(model, x, "pool"); });
}

TEST(Layers, Activations) {
  check_layer({4, 6}, [](Model& model, Tensor x) { return gelu(model.graph, x); });
  check_layer({4, 6},
              [](Model& model, Tensor x) { return relu(model.graph, model.graph.offset(x, 1)); });
}

TEST(Layers, LayerNorm) {
  check_layer({4, 6}, [](Model& model, Tensor x) { return layer_norm(model, x, "norm"); });
}

TEST(Layers, CausalAttention) {
  check_layer({2 * 4, 6}, [](Model& model, Tensor x) {
    return causal_attention(model, x, "attention", 2, 4, 3);
  });
}

TEST(Layers, AttentionOfSeveralHeads) {
  check_layer({12, 8}, [](Model& model, Tensor x) {
    const Attention options{2, 6, 6, 2, true, std::nullopt};
    return attention(model, x, x, "attention", options);
  });
  check_layer({12, 8}, [](Model& model, Tensor x) {
    GraphBuilder& graph = model.graph;
    const Tensor memory = graph.slice(x, {0, 0}, {8, 8});
    const Tensor mask = graph.splat(ElementType::kF32, {2, 4}, -0.5);
    return attention(model, x, memory, "attention", {2, 6, 4, 4, false, mask});
  });
}

/// One head per instruction or all heads in one: the same sums.
TEST(Layers, BothFormsOfCausalAttentionAgree) {
  const auto results = [](bool together) {
    Model model("attention", ElementType::kF32);
    GraphBuilder& graph = model.graph;
    const Tensor x = graph.parameter("x", hlo::array_shape(ElementType::kF32, {12, 8}));
    const Tensor y = together ? attention(model, x, x, "a", {2, 6, 6, 2, true, std::nullopt})
                              : causal_attention(model, x, "a", 2, 6, 2);
    std::vector<Tensor> parameters;
    for (const hlo::HloInstruction& instruction : graph.entry().instructions) {
      if (instruction.opcode == HloOpcode::kParameter) parameters.push_back(Tensor{instruction.id});
    }
    std::mt19937 random(3);
    std::vector<reference::Value> at;
    for (Tensor parameter : parameters) {
      at.push_back(random_value(graph.shape(parameter), -1, 1, random));
    }
    const hlo::Module module = graph.finish(y, parameters);
    return reference::Interpreter(module).run(at).numbers;
  };
  const std::vector<float> one = results(true), other = results(false);
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], other[i], 1e-5f) << i;
}

TEST(Layers, AKeyThatIsMaskedChangesNothing) {
  Model model("attention", ElementType::kF32);
  GraphBuilder& graph = model.graph;
  const Tensor x = graph.parameter("x", hlo::array_shape(ElementType::kF32, {4, 8}));
  const Tensor mask = graph.parameter("mask", hlo::array_shape(ElementType::kF32, {1, 4}));
  const Tensor y = attention(model, x, x, "a", {1, 4, 4, 2, false, mask});
  std::vector<Tensor> parameters;
  for (const hlo::HloInstruction& instruction : graph.entry().instructions) {
    if (instruction.opcode == HloOpcode::kParameter) parameters.push_back(Tensor{instruction.id});
  }
  std::mt19937 random(3);
  std::vector<reference::Value> at;
  for (Tensor parameter : parameters) {
    at.push_back(random_value(graph.shape(parameter), -1, 1, random));
  }
  const hlo::Module module = graph.finish(y, parameters);
  at[1].numbers = {0, 0, 0, -1e9f};
  const std::vector<float> before = reference::Interpreter(module).run(at).numbers;
  for (std::size_t i = 24; i < 32; ++i) at[0].numbers[i] += 1;
  const std::vector<float> after = reference::Interpreter(module).run(at).numbers;
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(before[i], after[i]) << i;
}

TEST(Layers, ALaterTokenDoesNotChangeAnEarlierResult) {
  Model model("layer", ElementType::kF32);
  GraphBuilder& graph = model.graph;
  const Tensor x = graph.parameter("x", hlo::array_shape(ElementType::kF32, {4, 4}));
  const Tensor y = causal_attention(model, x, "attention", 1, 4, 2);
  std::vector<Tensor> parameters;
  std::vector<reference::Value> values;
  std::mt19937 random(3);
  for (const hlo::HloInstruction& instruction : graph.entry().instructions) {
    if (instruction.opcode != HloOpcode::kParameter) continue;
    parameters.push_back(Tensor{instruction.id});
    values.push_back(random_value(instruction.shape, -1, 1, random));
  }
  const hlo::Module module = graph.finish(y, parameters);
  const reference::Interpreter interpreter(module);
  const reference::Value before = interpreter.run(values);
  for (std::size_t k = 8; k < 12; ++k) values[0].numbers[k] += 1;
  const reference::Value after = interpreter.run(values);
  for (std::size_t k = 0; k < 16; ++k) {
    if (k < 8) {
      EXPECT_EQ(after.numbers[k], before.numbers[k]) << k;
    } else {
      EXPECT_NE(after.numbers[k], before.numbers[k]) << k;
    }
  }
}

TEST(Layers, BatchNormMakesMeanZeroAndVarianceOne) {
  Model model("layer", ElementType::kF32);
  GraphBuilder& graph = model.graph;
  const Tensor x = graph.parameter("x", hlo::array_shape(ElementType::kF32, {4, 3, 3, 2}));
  const Tensor y = batch_norm(model, x, "norm");
  std::vector<Tensor> parameters;
  for (const hlo::HloInstruction& instruction : graph.entry().instructions) {
    if (instruction.opcode == HloOpcode::kParameter) parameters.push_back(Tensor{instruction.id});
  }
  const hlo::Module module = graph.finish(y, parameters);
  std::mt19937 random(9);
  reference::Value scale = reference::make_value(hlo::array_shape(ElementType::kF32, {2}));
  scale.numbers = {1, 1};
  const reference::Value bias = reference::make_value(hlo::array_shape(ElementType::kF32, {2}));
  const reference::Value result = reference::Interpreter(module).run(
      {random_value(hlo::array_shape(ElementType::kF32, {4, 3, 3, 2}), 2, 5, random), scale, bias});
  for (std::size_t channel = 0; channel < 2; ++channel) {
    double sum = 0, squares = 0;
    for (std::size_t i = channel; i < 72; i += 2) {
      sum += static_cast<double>(result.numbers[i]);
      squares += static_cast<double>(result.numbers[i]) * static_cast<double>(result.numbers[i]);
    }
    EXPECT_NEAR(sum / 36, 0, 1e-5);
    EXPECT_NEAR(squares / 36, 1, 1e-3);
  }
}

TEST(Layers, CrossEntropyIsMinusLogSoftmaxOfTheLabel) {
  GraphBuilder graph("loss");
  const Tensor logits = graph.parameter("logits", hlo::array_shape(ElementType::kF32, {2, 3}));
  const Tensor labels = graph.parameter("labels", hlo::array_shape(ElementType::kS32, {2}));
  const Tensor loss = softmax_cross_entropy(graph, logits, labels);
  const Tensor g = gradients(graph, loss, {logits})[0];
  const hlo::Module module = graph.finish(graph.tuple({loss, g}), {logits, labels});
  reference::Value scores = reference::make_value(hlo::array_shape(ElementType::kF32, {2, 3}));
  scores.numbers = {1, 2, 3, 100, 0, -100};
  reference::Value classes = reference::make_value(hlo::array_shape(ElementType::kS32, {2}));
  classes.integers = {1, 0};
  const reference::Value result = reference::Interpreter(module).run({scores, classes});
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_NEAR(static_cast<double>(result.elements[0].numbers[0]), (std::log(sum) - 2) / 2, 1e-6);
  const std::vector<double> expected = {
      std::exp(1.0) / sum / 2, (std::exp(2.0) / sum - 1) / 2, std::exp(3.0) / sum / 2, 0, 0, 0};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(static_cast<double>(result.elements[1].numbers[i]), expected[i], 1e-6) << i;
  }
}

TEST(Layers, SamePaddingIsTensorFlows) {
  EXPECT_EQ(same_padding(56, 3, 1).low, 1);
  EXPECT_EQ(same_padding(56, 3, 1).high, 1);
  EXPECT_EQ(same_padding(56, 3, 2).low, 0);
  EXPECT_EQ(same_padding(56, 3, 2).high, 1);
  EXPECT_EQ(same_padding(112, 7, 2).low, 2);
  EXPECT_EQ(same_padding(112, 7, 2).high, 3);
  EXPECT_EQ(same_padding(56, 1, 2).high, 0);
}

TEST(Optimizers, SgdWithMomentumAndAdamFollowTheirFormulas) {
  for (const Optimizer::Kind kind : {Optimizer::Kind::kSgdMomentum, Optimizer::Kind::kAdam}) {
    Model model("one", ElementType::kF32);
    GraphBuilder& graph = model.graph;
    const Tensor w = model.weight("w", {2}, {Fill::kConstant, 1}, true);
    const Tensor x =
        model.input("x", hlo::array_shape(ElementType::kF32, {2}), {Fill::kConstant, 2});
    const Tensor loss = graph.reduce_sum(graph.multiply(graph.multiply(w, w), x), {0});
    Optimizer optimizer;
    optimizer.kind = kind;
    optimizer.learning_rate = 0.125;
    optimizer.momentum = 0.5;
    optimizer.weight_decay = 0.25;
    const Workload workload = model.training_step(loss, optimizer, 1, {});
    const std::vector<hlo::InstructionId> parameters =
        workload.module.entry_computation().parameters();
    std::vector<reference::Value> state;
    const std::vector<std::vector<std::uint8_t>> values = initial_values(workload, 1);
    for (std::size_t i = 0; i < values.size(); ++i) {
      state.push_back(reference::from_bytes(
          workload.module.entry_computation().at(parameters[i]).shape, values[i]));
    }
    double weight = 1, velocity = 0, mean = 0, square = 0;
    for (int step = 1; step <= 4; ++step) {
      const reference::Value result = reference::Interpreter(workload.module).run(state);
      const double gradient = 4 * weight;
      EXPECT_NEAR(static_cast<double>(result.elements.back().numbers[0]), 4 * weight * weight,
                  1e-4);
      if (kind == Optimizer::Kind::kSgdMomentum) {
        velocity = 0.5 * velocity + gradient + 0.25 * weight;
        weight -= 0.125 * velocity;
      } else {
        mean = 0.9 * mean + 0.1 * gradient;
        square = 0.999 * square + 0.001 * gradient * gradient;
        weight -= 0.125 * (mean / (1 - std::pow(0.9, step))) /
                  (std::sqrt(square / (1 - std::pow(0.999, step))) + 1e-8);
      }
      for (std::int64_t i = 0; i < workload.state_tensors; ++i) {
        state[static_cast<std::size_t>(i)] = result.elements[static_cast<std::size_t>(i)];
      }
      EXPECT_NEAR(static_cast<double>(state[0].numbers[0]), weight, 1e-4) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace tpu::frontend::layers_test
