#include "workloads/frontend/model.h"

#include "sim/base/error.h"
#include "workloads/frontend/autodiff.h"

namespace tpu::frontend {

using hlo::ElementType;
using hlo::HloOpcode;

Tensor Model::weight(const std::string& name, const Extents& dimensions,
                     const Initializer& initializer, bool decays) {
  Weight weight;
  weight.tensor = graph.parameter(name, hlo::array_shape(ElementType::kF32, dimensions));
  const std::string& path = graph.entry().at(weight.tensor.id).metadata.op_name;
  weight.path = path.substr(path.find('/') + 1);
  weight.initializer = initializer;
  weight.decays = decays;
  weights_.push_back(weight);
  return weight.tensor;
}

Tensor Model::input(const std::string& name, const hlo::Shape& shape,
                    const Initializer& initializer) {
  const Tensor tensor = graph.parameter(name, shape);
  inputs_.push_back({tensor, initializer});
  return tensor;
}

Tensor Model::slot(const std::string& name, const hlo::Shape& shape, double value) {
  Slot slot;
  slot.before = graph.parameter(name, shape);
  slot.initializer.value = value;
  slots_.push_back(slot);
  return slot.before;
}

void Model::average_over_replicas(std::vector<Tensor>& gradients, Tensor& loss,
                                  std::int64_t replicas) {
  GraphBuilder::Scope scope(graph, "average_over_replicas");
  std::vector<Tensor> values = gradients;
  values.push_back(loss);
  values = graph.all_reduce_sum(values);
  for (Tensor& value : values) value = graph.scale(value, 1.0 / static_cast<double>(replicas));
  loss = values.back();
  values.pop_back();
  gradients = values;
}

std::vector<Tensor> Model::sgd(const Optimizer& optimizer, const std::vector<Tensor>& gradients) {
  std::vector<Tensor> updated;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    GraphBuilder::Scope scope(graph, weights_[i].path);
    const Tensor weight = weights_[i].tensor;
    const Tensor velocity = slot("momentum", graph.shape(weight), 0);
    Tensor gradient = gradients[i];
    if (weights_[i].decays && optimizer.weight_decay != 0) {
      gradient = graph.add(gradient, graph.scale(weight, optimizer.weight_decay));
    }
    const Tensor next = graph.add(graph.scale(velocity, optimizer.momentum), gradient);
    slots_.back().after = next;
    updated.push_back(graph.subtract(weight, graph.scale(next, optimizer.learning_rate)));
  }
  return updated;
}

/// Adam with the powers of beta1 and beta2 as state, so that a step needs no logarithm.
std::vector<Tensor> Model::adam(const Optimizer& optimizer, const std::vector<Tensor>& gradients) {
  const hlo::Shape scalar = hlo::array_shape(ElementType::kF32, {});
  const auto power = [&](const char* name, double beta) {
    const Tensor now = graph.scale(slot(name, scalar, 1), beta);
    slots_.back().after = now;
    return graph.subtract(graph.constant(ElementType::kF32, 1), now);
  };
  const Tensor bias1 = power("beta1_power", optimizer.beta1);
  const Tensor bias2 = power("beta2_power", optimizer.beta2);
  const Tensor rate = graph.scale(graph.divide(graph.unary(HloOpcode::kSqrt, bias2), bias1),
                                  optimizer.learning_rate);
  std::vector<Tensor> updated;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    GraphBuilder::Scope scope(graph, weights_[i].path);
    const Tensor weight = weights_[i].tensor;
    const hlo::Shape shape = graph.shape(weight);
    const Tensor gradient = gradients[i];
    const auto moving = [&](const char* name, Tensor value, double beta) {
      const Tensor before = slot(name, shape, 0);
      const Tensor after = graph.add(graph.scale(before, beta), graph.scale(value, 1 - beta));
      slots_.back().after = after;
      return after;
    };
    const Tensor mean = moving("mean", gradient, optimizer.beta1);
    const Tensor square = moving("square", graph.multiply(gradient, gradient), optimizer.beta2);
    const Tensor root = graph.offset(graph.unary(HloOpcode::kSqrt, square), optimizer.epsilon);
    const Tensor step =
        graph.multiply(graph.divide(mean, root), graph.broadcast(rate, shape.dimensions, {}));
    updated.push_back(graph.subtract(weight, step));
  }
  return updated;
}

Workload Model::training_step(Tensor loss, const Optimizer& optimizer, std::int64_t examples,
                              const StepForm& form) {
  return training_step({{loss, ""}}, optimizer, examples, form);
}

/// By weight. Each weight has to follow one objective.
std::vector<Tensor> Model::gradients_of(const std::vector<Objective>& objectives) {
  std::vector<Tensor> result(weights_.size());
  std::size_t found = 0;
  for (const Objective& objective : objectives) {
    TPU_CHECK(
        graph.type(objective.loss) == ElementType::kF32 && graph.shape(objective.loss).rank() == 0,
        hlo::to_string(graph.shape(objective.loss)));
    std::vector<Tensor> of;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (weights_[i].path.rfind(objective.scope, 0) != 0) continue;
      of.push_back(weights_[i].tensor);
      places.push_back(i);
    }
    const std::vector<Tensor> part = gradients(graph, objective.loss, of);
    for (std::size_t i = 0; i < places.size(); ++i) result[places[i]] = part[i];
    found += places.size();
  }
  TPU_CHECK(found == weights_.size(), found << " of " << weights_.size() << " weights");
  return result;
}

Workload Model::training_step(const std::vector<Objective>& objectives, const Optimizer& optimizer,
                              std::int64_t examples, const StepForm& form) {
  Tensor loss = objectives.at(0).loss;
  for (std::size_t i = 1; i < objectives.size(); ++i) loss = graph.add(loss, objectives[i].loss);
  if (form.forward_only) return evaluation_step(loss, examples, form.replicas);
  std::vector<Tensor> means = gradients_of(objectives);
  if (form.replicas > 1) average_over_replicas(means, loss, form.replicas);
  std::vector<Tensor> results;
  {
    GraphBuilder::Scope scope(graph, "optimizer");
    results =
        optimizer.kind == Optimizer::Kind::kAdam ? adam(optimizer, means) : sgd(optimizer, means);
  }
  Workload workload;
  std::vector<Tensor> parameters;
  const auto add = [&](Tensor tensor, const Initializer& initializer) {
    parameters.push_back(tensor);
    workload.initializers.push_back(initializer);
  };
  for (const Weight& weight : weights_) add(weight.tensor, weight.initializer);
  for (const Slot& slot : slots_) add(slot.before, slot.initializer);
  for (const Slot& slot : slots_) results.push_back(slot.after);
  workload.state_tensors = static_cast<std::int64_t>(results.size());
  results.push_back(loss);
  workload.module.examples_per_step = examples;
  workload.module.replicas = form.replicas;
  return finish_step(std::move(parameters), results, std::move(workload));
}

Workload Model::evaluation_step(Tensor loss, std::int64_t examples, std::int64_t replicas) {
  std::vector<Tensor> none;
  if (replicas > 1) average_over_replicas(none, loss, replicas);
  Workload workload;
  std::vector<Tensor> parameters;
  for (const Weight& weight : weights_) {
    parameters.push_back(weight.tensor);
    workload.initializers.push_back(weight.initializer);
  }
  workload.module.examples_per_step = examples;
  workload.module.replicas = replicas;
  return finish_step(std::move(parameters), {loss}, std::move(workload));
}

Workload Model::finish_step(std::vector<Tensor> parameters, const std::vector<Tensor>& results,
                            Workload workload) {
  const auto first_input = static_cast<std::int64_t>(parameters.size());
  for (const Input& input : inputs_) {
    parameters.push_back(input.tensor);
    workload.initializers.push_back(input.initializer);
  }
  hlo::Module module = graph.finish(graph.tuple(results), parameters);
  for (std::int64_t i = 0; i < workload.state_tensors; ++i) module.aliases.push_back({i, i});
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    module.infeed_parameters.push_back(first_input + static_cast<std::int64_t>(i));
  }
  module.examples_per_step = workload.module.examples_per_step;
  module.replicas = workload.module.replicas;
  workload.module = std::move(module);
  return workload;
}

}  // namespace tpu::frontend
