#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "workloads/frontend/autodiff.h"
#include "workloads/reference/interpreter.h"

namespace tpu::frontend {

/// A parameter of a gradient check: its shape and the interval of its random values.
struct CheckedInput {
  Extents dimensions;
  double low = -1;
  double high = 1;
};

using BuildOutput = std::function<Tensor(GraphBuilder&, const std::vector<Tensor>&)>;

inline reference::Value random_value(const hlo::Shape& shape, double low, double high,
                                     std::mt19937& random) {
  reference::Value value = reference::make_value(shape);
  std::uniform_real_distribution<double> uniform(low, high);
  for (float& number : value.numbers) number = static_cast<float>(uniform(random));
  return value;
}

inline double inner_product(const reference::Value& a, const reference::Value& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.numbers.size(); ++i) {
    sum += static_cast<double>(a.numbers[i]) * static_cast<double>(b.numbers[i]);
  }
  return sum;
}

/// Compares the vector-Jacobian product of y = build(inputs), f32, with central differences of
/// <seed, y> along random directions, input by input.
inline void check_gradient(const std::vector<CheckedInput>& inputs, const BuildOutput& build,
                           double tolerance = 4e-3) {
  GraphBuilder graph("check");
  std::vector<Tensor> parameters;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    parameters.push_back(graph.parameter(
        "x" + std::to_string(i), hlo::array_shape(hlo::ElementType::kF32, inputs[i].dimensions)));
  }
  const Tensor y = build(graph, parameters);
  const Tensor seed = graph.parameter("seed", graph.shape(y));
  const hlo::Shape seed_shape = graph.shape(y);
  std::vector<Tensor> results = vector_jacobian_product(graph, y, seed, parameters);
  results.insert(results.begin(), y);
  std::vector<Tensor> all = parameters;
  all.push_back(seed);
  const hlo::Module module = graph.finish(graph.tuple(results), all);
  ASSERT_NO_THROW(hlo::verify(module));

  std::mt19937 random(11);
  std::vector<reference::Value> at;
  for (const CheckedInput& input : inputs) {
    at.push_back(random_value(hlo::array_shape(hlo::ElementType::kF32, input.dimensions), input.low,
                              input.high, random));
  }
  at.push_back(random_value(seed_shape, -1, 1, random));
  const reference::Interpreter interpreter(module);
  const reference::Value here = interpreter.run(at);
  const auto loss = [&](const std::vector<reference::Value>& values) {
    return inner_product(interpreter.run(values).elements[0], values.back());
  };
  constexpr double kStep = 5e-3;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    double scale = 0;
    for (int trial = 0; trial < 3; ++trial) {
      const reference::Value direction = random_value(at[i].shape, -1, 1, random);
      std::vector<reference::Value> above = at, below = at;
      for (std::size_t k = 0; k < direction.numbers.size(); ++k) {
        above[i].numbers[k] += static_cast<float>(kStep) * direction.numbers[k];
        below[i].numbers[k] -= static_cast<float>(kStep) * direction.numbers[k];
      }
      const double measured = (loss(above) - loss(below)) / (2 * kStep);
      const double computed = inner_product(here.elements[1 + i], direction);
      scale = std::sqrt(inner_product(here.elements[1 + i], here.elements[1 + i])) + 0.05;
      EXPECT_NEAR(computed, measured, tolerance * scale) << "input " << i << " trial " << trial;
    }
    EXPECT_GT(inner_product(here.elements[1 + i], here.elements[1 + i]), 0)
        << "input " << i << " gets no gradient";
  }
}

}  // namespace tpu::frontend
