#pragma once

#include <cstdint>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::frontend {

/// What the values of a parameter are before the first step.
enum class Fill : std::uint8_t {
  kConstant,    ///< `value` everywhere.
  kNormal,      ///< About normal, with standard deviation `value`.
  kImages,      ///< A fixed random pattern per class plus noise; dimension 0 counts the examples.
  kLabels,      ///< The class of each example, below `count`.
  kTokens,      ///< Sequences of `length` tokens below `count` with a rule to learn.
  kNextTokens,  ///< The token that follows each of kTokens.
};

struct Initializer {
  Fill fill = Fill::kConstant;
  double value = 0;
  std::int64_t count = 0;
  std::int64_t length = 0;
};

/// Which step is made of a model.
struct StepForm {
  std::int64_t replicas = 1;
  bool forward_only = false;  ///< An evaluation: the loss alone, no gradients, nothing changes.
};

/// A program of the zoo and how its parameters begin.
struct Workload {
  hlo::Module module;
  std::vector<Initializer> initializers;  ///< By parameter number.
  std::int64_t state_tensors = 0;  ///< Parameters 0 to state_tensors - 1 are results 0 to ... too.
};

/// Row-major bytes of every parameter, in order: equal seeds give equal bytes on every machine.
/// Weights and optimiser state are the same on all replicas, the step's inputs differ by replica
/// and step; images and tokens follow a fixed rule, so that the loss falls.
std::vector<std::vector<std::uint8_t>> initial_values(const Workload& workload, std::uint64_t seed,
                                                      std::int64_t replica = 0);

/// The inputs of one step: the parameters from state_tensors on.
std::vector<std::vector<std::uint8_t>> step_inputs(const Workload& workload, std::uint64_t seed,
                                                   std::int64_t step, std::int64_t replica = 0);

/// One parameter's values: of the state before the first step, or an input of the given step.
std::vector<std::uint8_t> parameter_value(const Workload& workload, std::int64_t number,
                                          std::uint64_t seed, std::int64_t step,
                                          std::int64_t replica = 0);

}  // namespace tpu::frontend
