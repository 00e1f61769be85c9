#include "workloads/frontend/layers.h"

#include <cmath>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"

namespace tpu::frontend {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloOpcode;

namespace {

/// Added to a variance before its root is taken: of torch and flax.
constexpr double kBatchNormEpsilon = 1e-5;
constexpr double kLayerNormEpsilon = 1e-5;
/// Score of a masked position.
constexpr double kMasked = -1e9;

Initializer normal(double deviation) { return {Fill::kNormal, deviation}; }
Initializer everywhere(double value) { return {Fill::kConstant, value}; }

/// Deviation by He et al. (fan in, before relu) or Glorot and Bengio.
double deviation(std::int64_t in, std::int64_t out, bool before_relu) {
  return before_relu ? std::sqrt(2.0 / static_cast<double>(in))
                     : std::sqrt(2.0 / static_cast<double>(in + out));
}

Extents all_but_last(const hlo::Shape& shape) {
  Extents dimensions;
  for (std::int64_t d = 0; d + 1 < shape.rank(); ++d) dimensions.push_back(d);
  return dimensions;
}

std::vector<hlo::WindowDimension> pooling_window(std::int64_t size, std::int64_t stride,
                                                 Padding padding) {
  std::vector<hlo::WindowDimension> window(4);
  for (std::size_t d : {std::size_t{1}, std::size_t{2}}) {
    window[d].size = size;
    window[d].stride = stride;
    window[d].padding_low = padding.low;
    window[d].padding_high = padding.high;
  }
  return window;
}

}  // namespace

Tensor dense(Model& model, Tensor x, const std::string& name, std::int64_t asked,
             bool before_relu) {
  const std::int64_t outputs = model.features(asked);
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, name);
  const std::int64_t inputs = graph.shape(x).dimensions.at(1);
  const Tensor kernel = model.weight("kernel", {inputs, outputs},
                                     normal(deviation(inputs, outputs, before_relu)), true);
  const Tensor bias = model.weight("bias", {outputs}, everywhere(0));
  const Tensor product =
      graph.dot(x, model.in_compute_type(kernel), {{}, {}, {1}, {0}}, ElementType::kF32);
  return graph.convert(graph.add(product, graph.broadcast_vector(bias, product, 1)),
                       model.compute_type());
}

Padding same_padding(std::int64_t extent, std::int64_t size, std::int64_t stride) {
  const std::int64_t outputs = ceil_divide(extent, stride);
  const std::int64_t total = std::max<std::int64_t>((outputs - 1) * stride + size - extent, 0);
  return {total / 2, total - total / 2};
}

Tensor conv2d(Model& model, Tensor x, const std::string& name, const Convolution& options) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, name);
  const std::int64_t inputs = graph.shape(x).dimensions.at(3);
  const std::int64_t outputs = model.features(options.outputs);
  const std::int64_t fan_in = options.size * options.size * inputs;
  const Tensor kernel = model.weight("kernel", {options.size, options.size, inputs, outputs},
                                     normal(deviation(fan_in, outputs, true)), true);
  hlo::WindowDimension dimension;
  dimension.size = options.size;
  dimension.stride = options.stride;
  dimension.padding_low = options.padding.low;
  dimension.padding_high = options.padding.high;
  const Tensor y = graph.convolution(x, model.in_compute_type(kernel), nhwc_dimensions(),
                                     {dimension, dimension});
  if (!options.bias) return y;
  const Tensor bias = model.weight("bias", {outputs}, everywhere(0));
  const Tensor wide = graph.convert(y, ElementType::kF32);
  return graph.convert(graph.add(wide, graph.broadcast_vector(bias, wide, 3)),
                       model.compute_type());
}

Tensor batch_norm(Model& model, Tensor x, const std::string& name, double initial_scale) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, name);
  const hlo::Shape shape = graph.shape(x);
  const std::int64_t channel = shape.rank() - 1;
  const Extents channels = {shape.dimensions.back()};
  const Tensor gamma = model.weight("scale", channels, everywhere(initial_scale));
  const Tensor beta = model.weight("bias", channels, everywhere(0));
  const double share =
      static_cast<double>(channels[0]) / static_cast<double>(shape.element_count());

  const Tensor wide = graph.convert(x, ElementType::kF32);
  const Tensor mean = graph.scale(graph.reduce_sum(wide, all_but_last(shape)), share);
  const Tensor mean_square =
      graph.scale(graph.reduce_sum(graph.multiply(wide, wide), all_but_last(shape)), share);
  const Tensor variance =
      graph.binary(HloOpcode::kMaximum, graph.subtract(mean_square, graph.multiply(mean, mean)),
                   graph.splat(ElementType::kF32, channels, 0));
  const Tensor inverse = graph.unary(HloOpcode::kRsqrt, graph.offset(variance, kBatchNormEpsilon));
  const Tensor factor = graph.multiply(gamma, inverse);
  const Tensor shift = graph.subtract(beta, graph.multiply(mean, factor));
  const Tensor y = graph.add(graph.multiply(wide, graph.broadcast_vector(factor, wide, channel)),
                             graph.broadcast_vector(shift, wide, channel));
  return graph.convert(y, shape.type);
}

Tensor max_pool(Model& model, Tensor x, const std::string& name, std::int64_t size,
                std::int64_t stride, Padding padding) {
  GraphBuilder::Scope scope(model.graph, name);
  return model.graph.reduce_window_max(x, pooling_window(size, stride, padding));
}

Tensor average_pool(Model& model, Tensor x, const std::string& name, std::int64_t size,
                    std::int64_t stride) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, name);
  const ElementType type = graph.type(x);
  const Tensor sum = graph.reduce_window_sum(graph.convert(x, ElementType::kF32),
                                             pooling_window(size, stride, {}));
  return graph.convert(graph.scale(sum, 1.0 / static_cast<double>(size * size)), type);
}

Tensor global_average_pool(Model& model, Tensor x, const std::string& name) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, name);
  const hlo::Shape shape = graph.shape(x);
  const double share = 1.0 / static_cast<double>(shape.dimensions.at(1) * shape.dimensions.at(2));
  const Tensor sum = graph.reduce_sum(graph.convert(x, ElementType::kF32), {1, 2});
  return graph.convert(graph.scale(sum, share), shape.type);
}

Tensor relu(GraphBuilder& graph, Tensor x) {
  GraphBuilder::Scope scope(graph, "relu");
  return graph.binary(HloOpcode::kMaximum, x, graph.splat_like(x, 0));
}

Tensor gelu(GraphBuilder& graph, Tensor x) {
  GraphBuilder::Scope scope(graph, "gelu");
  const ElementType type = graph.type(x);
  x = graph.convert(x, ElementType::kF32);
  const Tensor cube = graph.multiply(x, graph.multiply(x, x));
  const Tensor inner = graph.scale(graph.add(x, graph.scale(cube, 0.044715)), std::sqrt(2 / M_PI));
  const Tensor gate = graph.offset(graph.unary(HloOpcode::kTanh, inner), 1);
  return graph.convert(graph.multiply(graph.scale(x, 0.5), gate), type);
}

Tensor softmax_cross_entropy(GraphBuilder& graph, Tensor logits, Tensor labels) {
  GraphBuilder::Scope scope(graph, "softmax_cross_entropy");
  const Tensor wide = graph.convert(logits, ElementType::kF32);
  const Extents shape = graph.shape(wide).dimensions;
  const Tensor highest = graph.stop_gradient(graph.reduce_max(wide, {1}));
  const Tensor shifted = graph.subtract(wide, graph.broadcast(highest, shape, {0}));
  const Tensor sum = graph.reduce_sum(graph.unary(HloOpcode::kExponential, shifted), {1});
  const Tensor classes = graph.iota(ElementType::kS32, shape, 1);
  const Tensor chosen =
      graph.compare(classes, graph.broadcast(labels, shape, {0}), ComparisonDirection::kEq);
  const Tensor one_hot = graph.convert(chosen, ElementType::kF32);
  const Tensor score = graph.reduce_sum(graph.multiply(one_hot, shifted), {1});
  const Tensor loss = graph.subtract(graph.unary(HloOpcode::kLog, sum), score);
  return graph.scale(graph.reduce_sum(loss, {0}), 1.0 / static_cast<double>(shape[0]));
}

Tensor embedding(Model& model, Tensor table, Tensor indices, const std::string& name) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, name);
  hlo::GatherDimensions dims;
  dims.offset_dims = {1};
  dims.collapsed_slice_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  dims.slice_sizes = {1, graph.shape(table).dimensions.at(1)};
  return model.in_compute_type(graph.gather(table, indices, dims));
}

Tensor layer_norm(Model& model, Tensor x, const std::string& name) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, name);
  const hlo::Shape shape = graph.shape(x);
  const std::int64_t last = shape.rank() - 1;
  const Extents width = {shape.dimensions.back()};
  const Tensor gamma = model.weight("scale", width, everywhere(1));
  const Tensor beta = model.weight("bias", width, everywhere(0));
  const double share = 1.0 / static_cast<double>(width[0]);
  const Extents kept = all_but_last(shape);

  const Tensor wide = graph.convert(x, ElementType::kF32);
  const Tensor mean = graph.scale(graph.reduce_sum(wide, {last}), share);
  const Tensor centred = graph.subtract(wide, graph.broadcast(mean, shape.dimensions, kept));
  const Tensor variance =
      graph.scale(graph.reduce_sum(graph.multiply(centred, centred), {last}), share);
  const Tensor inverse = graph.unary(HloOpcode::kRsqrt, graph.offset(variance, kLayerNormEpsilon));
  const Tensor normal = graph.multiply(centred, graph.broadcast(inverse, shape.dimensions, kept));
  const Tensor y = graph.add(graph.multiply(normal, graph.broadcast_vector(gamma, wide, last)),
                             graph.broadcast_vector(beta, wide, last));
  return graph.convert(y, shape.type);
}

namespace {

/// softmax over the last dimension of f32 scores [batch, query, key] times a factor, keys after the
/// query masked.
Tensor causal_softmax(GraphBuilder& graph, Tensor scores, double factor, ElementType type) {
  const Extents shape = graph.shape(scores).dimensions;
  const Extents square = {shape[1], shape[2]};
  const Tensor wide = graph.scale(scores, factor);
  const Tensor past =
      graph.compare(graph.iota(ElementType::kS32, square, 0),
                    graph.iota(ElementType::kS32, square, 1), ComparisonDirection::kGe);
  const Tensor masked =
      graph.select(graph.broadcast(past, shape, {1, 2}), wide, graph.splat_like(wide, kMasked));
  const Tensor highest = graph.stop_gradient(graph.reduce_max(masked, {2}));
  const Tensor weights = graph.unary(
      HloOpcode::kExponential, graph.subtract(masked, graph.broadcast(highest, shape, {0, 1})));
  const Tensor sum = graph.reduce_sum(weights, {2});
  return graph.convert(graph.divide(weights, graph.broadcast(sum, shape, {0, 1})), type);
}

}  // namespace

Tensor causal_attention(Model& model, Tensor x, const std::string& name, std::int64_t batch,
                        std::int64_t sequence, std::int64_t heads) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, name);
  const std::int64_t rows = graph.shape(x).dimensions.at(0);
  const std::int64_t width = graph.shape(x).dimensions.at(1);
  const std::int64_t head_width = width / heads;
  TPU_CHECK(rows == batch * sequence && head_width * heads == width, hlo::to_string(graph.shape(x))
                                                                         << " heads " << heads);
  const Tensor projected = dense(model, x, "query_key_value", 3 * width, false);
  const ElementType type = graph.type(x);
  std::vector<Tensor> contexts;
  for (std::int64_t head = 0; head < heads; ++head) {
    GraphBuilder::Scope head_scope(graph, "head" + std::to_string(head));
    const auto part = [&](std::int64_t which) {
      const std::int64_t first = which * width + head * head_width;
      return graph.reshape(graph.slice(projected, {0, first}, {rows, first + head_width}),
                           {batch, sequence, head_width});
    };
    const Tensor scores = graph.dot(part(0), part(1), {{0}, {0}, {2}, {2}}, ElementType::kF32);
    const Tensor attention =
        causal_softmax(graph, scores, 1 / std::sqrt(static_cast<double>(head_width)), type);
    const Tensor context = graph.dot(attention, part(2), {{0}, {0}, {2}, {1}}, type);
    contexts.push_back(graph.reshape(context, {rows, head_width}));
  }
  return dense(model, graph.concatenate(contexts, 1), "output", width, false);
}

}  // namespace tpu::frontend
