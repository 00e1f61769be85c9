#pragma once

#include <string>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "workloads/frontend/graph_builder.h"
#include "workloads/frontend/workload.h"

namespace tpu::frontend {

/// How weights follow their gradients.
struct Optimizer {
  enum class Kind : std::uint8_t { kSgdMomentum, kAdam };
  Kind kind = Kind::kSgdMomentum;
  double learning_rate = 0.1;
  double momentum = 0.9;    ///< SGD.
  double weight_decay = 0;  ///< SGD: added to the gradient of weights that decay.
  double beta1 = 0.9;       ///< Adam.
  double beta2 = 0.999;     ///< Adam.
  double epsilon = 1e-8;    ///< Adam.
};

/// A model in the making: the graph, its weights (fp32 masters, converted to the compute type where
/// they are used) and the inputs of a step.
class Model {
 public:
  /// Layers have their features rounded up to a multiple of `feature_multiple`.
  Model(const std::string& name, hlo::ElementType compute_type, std::int64_t feature_multiple = 1)
      : graph(name), compute_type_(compute_type), feature_multiple_(feature_multiple) {}

  GraphBuilder graph;

  hlo::ElementType compute_type() const { return compute_type_; }
  /// The features of a layer that asks for so many.
  std::int64_t features(std::int64_t asked) const { return round_up(asked, feature_multiple_); }

  /// A trained tensor in f32, named after the scope.
  Tensor weight(const std::string& name, const Extents& dimensions, const Initializer& initializer,
                bool decays = false);
  /// The weight in the compute type.
  Tensor in_compute_type(Tensor weight) { return graph.convert(weight, compute_type_); }
  /// An array that the host feeds each step.
  Tensor input(const std::string& name, const hlo::Shape& shape, const Initializer& initializer);

  /// One training step: gradients of the loss (the mean over this replica's examples), their mean
  /// over the replicas, the optimiser's update. Parameters: weights, optimiser state, inputs;
  /// results: the new weights and state in the same order, aliased, then the loss.
  ///
  /// A step that only goes forward has the weights and inputs as parameters and the loss as result.
  ///
  /// With several replicas one all-reduce sums all gradients and the loss (as XLA's combiner would
  /// make of one per tensor).
  Workload training_step(Tensor loss, const Optimizer& optimizer, std::int64_t examples,
                         const StepForm& form);

  /// A loss and the weights that follow it: those whose path begins with the scope.
  struct Objective {
    Tensor loss;
    std::string scope;
  };
  /// The same where parts of the model follow losses of their own, in one step. The loss that the
  /// step returns is their sum.
  Workload training_step(const std::vector<Objective>& objectives, const Optimizer& optimizer,
                         std::int64_t examples, const StepForm& form);

 private:
  struct Weight {
    Tensor tensor;
    std::string path;
    Initializer initializer;
    bool decays = false;
  };
  struct Slot {
    Tensor before, after;
    Initializer initializer;
  };
  struct Input {
    Tensor tensor;
    Initializer initializer;
  };

  Workload evaluation_step(Tensor loss, std::int64_t examples, std::int64_t replicas);
  /// The inputs behind `parameters`, which have their initialisers in the workload.
  Workload finish_step(std::vector<Tensor> parameters, const std::vector<Tensor>& results,
                       Workload workload);
  std::vector<Tensor> gradients_of(const std::vector<Objective>& objectives);
  Tensor slot(const std::string& name, const hlo::Shape& shape, double value);
  void average_over_replicas(std::vector<Tensor>& gradients, Tensor& loss, std::int64_t replicas);
  std::vector<Tensor> sgd(const Optimizer& optimizer, const std::vector<Tensor>& gradients);
  std::vector<Tensor> adam(const Optimizer& optimizer, const std::vector<Tensor>& gradients);

  hlo::ElementType compute_type_;
  std::int64_t feature_multiple_;
  std::vector<Weight> weights_;
  std::vector<Slot> slots_;
  std::vector<Input> inputs_;
};

}  // namespace tpu::frontend
