#include <algorithm>

#include "sim/base/error.h"
#include "workloads/frontend/autodiff.h"
#include "workloads/frontend/layers.h"
#include "workloads/frontend/zoo_models.h"
#include "workloads/frontend/zoo_options.h"

namespace tpu::frontend {

using hlo::ElementType;

namespace {

Initializer images_of(std::int64_t classes) { return {Fill::kImages, 0, classes}; }
Initializer labels_of(std::int64_t classes) { return {Fill::kLabels, 0, classes}; }

/// A program whose parameters are given once and stay on the chip.
Workload single_operation(GraphBuilder& graph, Tensor result, const std::vector<Tensor>& inputs,
                          std::int64_t examples, const WorkloadOptions& options) {
  Workload workload;
  workload.module = graph.finish(result, inputs);
  workload.module.examples_per_step = examples;
  workload.module.replicas = options.replicas;
  workload.initializers.assign(inputs.size(), {Fill::kNormal, 1});
  return workload;
}

}  // namespace

/// Widths of inputs, layers and classes; "784x1024x1024x10".
Workload build_mlp(const WorkloadOptions& options) {
  const std::string text = options.shape.value_or("784x1024x1024x10");
  const auto given = static_cast<std::size_t>(std::count(text.begin(), text.end(), 'x')) + 1;
  const Extents widths = parse_extents("shape", text, std::clamp<std::size_t>(given, 2, 1026),
                                       "INPUTSxWIDTHx...xCLASSES, up to 1026 of them");
  const std::int64_t classes = checked("shape", widths.back(), 2, 1 << 20);
  const std::int64_t batch = checked("batch", options.batch, 128, 1, kLargestBatch);
  Model model("mlp", element_type(options.dtype, ElementType::kF32),
              checked_feature_multiple(options));
  GraphBuilder& graph = model.graph;
  const Tensor images = model.input(
      "images", hlo::array_shape(model.compute_type(), {batch, widths[0]}), images_of(classes));
  const Tensor labels =
      model.input("labels", hlo::array_shape(ElementType::kS32, {batch}), labels_of(classes));
  Tensor x = images;
  for (std::size_t layer = 1; layer + 1 < widths.size(); ++layer) {
    x = relu(graph, dense(model, x, "dense" + std::to_string(layer), widths[layer], true));
  }
  const Tensor logits =
      dense(model, x, "dense" + std::to_string(widths.size() - 1), classes, false);
  Optimizer optimizer;
  optimizer.learning_rate = checked_rate(options.learning_rate, 0.01);
  return model.training_step(softmax_cross_entropy(graph, logits, labels), optimizer, batch,
                             options.form());
}

/// LeCun's layers with rectifiers and maxima: the third convolution covers all of its input, which
/// makes it a dense layer without a reshape from rows and columns into features.
Workload build_lenet(const WorkloadOptions& options) {
  constexpr std::int64_t kImage = 28, kClasses = 10;
  const std::int64_t batch = checked("batch", options.batch, 128, 1, kLargestBatch);
  Model model("lenet", element_type(options.dtype, ElementType::kF32),
              checked_feature_multiple(options));
  GraphBuilder& graph = model.graph;
  const Tensor images =
      model.input("images", hlo::array_shape(model.compute_type(), {batch, kImage, kImage, 1}),
                  images_of(kClasses));
  const Tensor labels =
      model.input("labels", hlo::array_shape(ElementType::kS32, {batch}), labels_of(kClasses));
  Tensor x = relu(graph, conv2d(model, images, "conv1", {6, 5, 1, {2, 2}, true}));
  x = max_pool(model, x, "pool1", 2, 2);
  x = relu(graph, conv2d(model, x, "conv2", {16, 5, 1, {}, true}));
  x = max_pool(model, x, "pool2", 2, 2);
  x = relu(graph, conv2d(model, x, "dense1", {120, 5, 1, {}, true}));
  x = graph.reshape(x, {batch, model.features(120)});
  x = relu(graph, dense(model, x, "dense2", 84, true));
  const Tensor logits = dense(model, x, "dense3", kClasses, false);
  Optimizer optimizer;
  optimizer.learning_rate = checked_rate(options.learning_rate, 0.01);
  return model.training_step(softmax_cross_entropy(graph, logits, labels), optimizer, batch,
                             options.form());
}

Workload build_matmul(const WorkloadOptions& options) {
  Extents shape = parse_extents("shape", options.shape.value_or("2048x2048x2048"), 3, "MxKxN");
  for (std::size_t d = 1; d < 3; ++d) {
    shape[d] = round_up(shape[d], checked_feature_multiple(options));
  }
  const ElementType type = element_type(options.dtype, ElementType::kF32);
  GraphBuilder graph("matmul");
  const Tensor lhs = graph.parameter("lhs", hlo::array_shape(type, {shape[0], shape[1]}));
  const Tensor rhs = graph.parameter("rhs", hlo::array_shape(type, {shape[1], shape[2]}));
  return single_operation(graph, graph.matmul(lhs, rhs), {lhs, rhs}, 1, options);
}

namespace {

/// Of a longer window parts would never meet the image, of a longer stride every step but the
/// first.
void check_window(const Extents& shape, const Extents& kernel, const Extents& stride) {
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t image = shape[d + 1];
    if (kernel[d] >= 2 * image) {
      throw UsageError("option kernel: expected less than twice the image, " +
                       std::to_string(2 * image) + ", found " + std::to_string(kernel[d]));
    }
    if (stride[d] > image) {
      throw UsageError("option stride: expected at most the image, " + std::to_string(image) +
                       ", found " + std::to_string(stride[d]));
    }
  }
}

}  // namespace

Workload build_conv(const WorkloadOptions& options) {
  Extents shape =
      parse_extents("shape", options.shape.value_or("128x56x56x64x64"), 5, "NxHxWxCixCo");
  for (std::size_t d = 3; d < 5; ++d) {
    shape[d] = round_up(shape[d], checked_feature_multiple(options));
  }
  const Extents kernel_size = parse_pair("kernel", options.kernel.value_or("3x3"));
  const Extents stride = parse_pair("stride", options.stride.value_or("1"));
  check_window(shape, kernel_size, stride);
  const std::vector<Padding> padding =
      parse_padding(options.padding.value_or("same"), {shape[1], shape[2]}, kernel_size, stride);
  const std::string pass = options.pass.value_or("fwd");
  if (pass != "fwd" && pass != "dgrad" && pass != "wgrad") {
    throw UsageError("option pass: expected fwd, dgrad or wgrad, found \"" + pass + "\"");
  }
  std::vector<hlo::WindowDimension> window(2);
  for (std::size_t d = 0; d < 2; ++d) {
    window[d].size = kernel_size[d];
    window[d].stride = stride[d];
    window[d].padding_low = padding[d].low;
    window[d].padding_high = padding[d].high;
    if (shape[d + 1] + padding[d].low + padding[d].high < kernel_size[d]) {
      throw UsageError("option kernel: expected at most the padded image, " +
                       std::to_string(shape[d + 1] + padding[d].low + padding[d].high) +
                       ", found " + std::to_string(kernel_size[d]));
    }
  }
  const ElementType type = element_type(options.dtype, ElementType::kBf16);
  GraphBuilder graph("conv");
  const Tensor input =
      graph.parameter("input", hlo::array_shape(type, {shape[0], shape[1], shape[2], shape[3]}));
  const Tensor kernel = graph.parameter(
      "kernel", hlo::array_shape(type, {kernel_size[0], kernel_size[1], shape[3], shape[4]}));
  const Tensor output = graph.convolution(input, kernel, nhwc_dimensions(), window);
  if (pass == "fwd") return single_operation(graph, output, {input, kernel}, shape[0], options);
  const Tensor gradient = graph.parameter("gradient", graph.shape(output));
  const bool of_input = pass == "dgrad";
  const Tensor of = of_input ? input : kernel;
  const Tensor with = of_input ? kernel : input;
  const Tensor result = vector_jacobian_product(graph, output, gradient, {of})[0];
  return single_operation(graph, result, {with, gradient}, shape[0], options);
}

}  // namespace tpu::frontend
