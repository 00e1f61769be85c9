#include "sim/base/error.h"
#include "workloads/frontend/attention.h"
#include "workloads/frontend/layers.h"
#include "workloads/frontend/zoo_models.h"
#include "workloads/frontend/zoo_options.h"

namespace tpu::frontend {

using hlo::ElementType;
using hlo::HloOpcode;

namespace {

constexpr std::int64_t kImage = 128;
constexpr std::int64_t kColours = 3;
constexpr std::int64_t kNoise = 120;
constexpr std::int64_t kClassWidth = 128;
constexpr std::int64_t kBlocks = 5;
/// Features of a resolution over the narrowest, from 4x4 up to 128x128.
constexpr std::int64_t kFeatures[kBlocks + 1] = {16, 16, 8, 4, 2, 1};
/// The resolution of the self-attention.
constexpr std::int64_t kAttention = 64;

struct BigGanSizes {
  std::int64_t batch, width, classes;
};

Tensor convolution(Model& model, Tensor x, const std::string& name, std::int64_t outputs,
                   std::int64_t size) {
  const std::int64_t border = size / 2;
  return conv2d(model, x, name, {outputs, size, 1, {border, border}, false});
}

/// Each pixel four times.
Tensor upsampled(GraphBuilder& graph, Tensor x) {
  GraphBuilder::Scope scope(graph, "upsample");
  const Extents d = graph.shape(x).dimensions;
  const Tensor wide = graph.broadcast(x, {d[0], d[1], 2, d[2], 2, d[3]}, {0, 1, 3, 5});
  return graph.reshape(wide, {d[0], 2 * d[1], 2 * d[2], d[3]});
}

/// Batch norm whose scale and bias follow from class and noise, a vector for each example.
Tensor conditional_norm(Model& model, Tensor x, Tensor condition, const std::string& name) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, name);
  const Extents shape = graph.shape(x).dimensions;
  const Tensor normal = graph.convert(batch_norm(model, x, "norm"), ElementType::kF32);
  const auto by_example = [&](const char* part) {
    const Tensor values = dense(model, condition, part, shape[3], false);
    return graph.broadcast(graph.convert(values, ElementType::kF32), shape, {0, 3});
  };
  const Tensor scaled = graph.multiply(normal, graph.offset(by_example("scale"), 1));
  return graph.convert(graph.add(scaled, by_example("shift")), model.compute_type());
}

/// Of pixels, residual: queries of all pixels, keys and values of 2x2 of them.
Tensor self_attention(Model& model, Tensor x) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, "attention");
  const Extents d = graph.shape(x).dimensions;
  const std::int64_t pixels = d[1] * d[2];
  const std::int64_t narrow = model.features(d[3] / 8), half = model.features(d[3] / 2);
  const auto rows = [&](const char* name, std::int64_t features, bool pooled) {
    Tensor y = convolution(model, x, name, features, 1);
    if (pooled) y = max_pool(model, y, std::string(name) + "_pool", 2, 2);
    return graph.reshape(y, {d[0], pooled ? pixels / 4 : pixels, features});
  };
  const Tensor query = rows("query", narrow, false), key = rows("key", narrow, true);
  const Tensor scores = graph.dot(query, key, {{0}, {0}, {2}, {2}}, ElementType::kF32);
  const Extents shape = graph.shape(scores).dimensions;
  const Tensor highest = graph.stop_gradient(graph.reduce_max(scores, {2}));
  const Tensor weights = graph.unary(
      HloOpcode::kExponential, graph.subtract(scores, graph.broadcast(highest, shape, {0, 1})));
  const Tensor sums = graph.broadcast(graph.reduce_sum(weights, {2}), shape, {0, 1});
  const Tensor shares = graph.convert(graph.divide(weights, sums), model.compute_type());
  const Tensor values =
      graph.dot(shares, rows("value", half, true), {{0}, {0}, {2}, {1}}, model.compute_type());
  const Tensor back = graph.reshape(values, {d[0], d[1], d[2], half});
  return graph.add(x, convolution(model, back, "output", d[3], 1));
}

Tensor generator_block(Model& model, Tensor x, Tensor condition, std::int64_t outputs) {
  GraphBuilder& graph = model.graph;
  Tensor y = relu(graph, conditional_norm(model, x, condition, "norm1"));
  y = convolution(model, upsampled(graph, y), "conv1", outputs, 3);
  y = relu(graph, conditional_norm(model, y, condition, "norm2"));
  y = convolution(model, y, "conv2", outputs, 3);
  return graph.add(y, convolution(model, upsampled(graph, x), "shortcut", outputs, 1));
}

/// Images [batch, 128, 128, 3] of noise and classes. The noise is cut: a part begins the picture,
/// a part joins the class as the condition of each block.
Tensor generator(Model& model, Tensor noise, Tensor classes, const BigGanSizes& sizes) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, "generator");
  const Tensor table = model.weight("classes", {sizes.classes, kClassWidth}, {Fill::kNormal, 1});
  const Tensor shared = embedding(model, table, classes, "embed");
  constexpr std::int64_t kPart = kNoise / (kBlocks + 1);
  const auto part = [&](std::int64_t number) {
    return graph.slice(noise, {0, number * kPart}, {sizes.batch, (number + 1) * kPart});
  };
  const std::int64_t features = model.features(kFeatures[0] * sizes.width);
  Tensor x = dense(model, part(0), "begin", 16 * features, false);
  x = graph.reshape(x, {sizes.batch, 4, 4, features});
  for (std::int64_t block = 0; block < kBlocks; ++block) {
    GraphBuilder::Scope block_scope(graph, "block" + std::to_string(block));
    const Tensor condition = graph.concatenate({shared, part(block + 1)}, 1);
    x = generator_block(model, x, condition, model.features(kFeatures[block + 1] * sizes.width));
    if (graph.shape(x).dimensions[1] == kAttention) x = self_attention(model, x);
  }
  x = relu(graph, batch_norm(model, x, "norm"));
  Tensor colours = convolution(model, x, "to_colours", kColours, 3);
  if (graph.shape(colours).dimensions[3] > kColours) {
    colours = graph.slice(colours, {0, 0, 0, 0}, {sizes.batch, kImage, kImage, kColours});
  }
  return graph.unary(HloOpcode::kTanh, colours);
}

Tensor discriminator_block(Model& model, Tensor x, std::int64_t outputs, bool first, bool smaller) {
  GraphBuilder& graph = model.graph;
  Tensor y = first ? x : relu(graph, x);
  y = relu(graph, convolution(model, y, "conv1", outputs, 3));
  y = convolution(model, y, "conv2", outputs, 3);
  Tensor shortcut = x;
  if (graph.shape(x).dimensions[3] != outputs) {
    shortcut = convolution(model, x, "shortcut", outputs, 1);
  }
  const Tensor sum = graph.add(y, shortcut);
  return smaller ? average_pool(model, sum, "pool", 2, 2) : sum;
}

/// f32 scores of images: a linear layer plus the product with the vector of the class.
Tensor discriminator(Model& model, Tensor x, Tensor classes, const BigGanSizes& sizes) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, "discriminator");
  for (std::int64_t block = 0; block <= kBlocks; ++block) {
    GraphBuilder::Scope block_scope(graph, "block" + std::to_string(block));
    const std::int64_t features = model.features(kFeatures[kBlocks - block] * sizes.width);
    x = discriminator_block(model, x, features, block == 0, block < kBlocks);
    if (graph.shape(x).dimensions[1] == kAttention) x = self_attention(model, x);
  }
  const Tensor seen = graph.convert(relu(graph, x), ElementType::kF32);
  const Tensor features = graph.reduce_sum(seen, {1, 2});
  const std::int64_t width = graph.shape(features).dimensions[1];
  const Tensor table = model.weight("classes", {sizes.classes, width}, {Fill::kNormal, 0.02});
  const Tensor linear = model.weight("linear", {width}, {Fill::kNormal, 0.02});
  const Tensor of_class =
      graph.convert(embedding(model, table, classes, "embed"), ElementType::kF32);
  const Tensor direction = graph.add(of_class, graph.broadcast_vector(linear, features, 1));
  return graph.reduce_sum(graph.multiply(features, direction), {1});
}

Tensor mean(GraphBuilder& graph, Tensor x) {
  return graph.scale(graph.reduce_sum(x, {0}),
                     1.0 / static_cast<double>(graph.shape(x).dimensions[0]));
}

}  // namespace

/// BigGAN at 128x128 (Brock et al. 2019). Generator and discriminator follow their hinge losses in
/// one step; the discriminator sees generated and real images as one batch.
Workload build_biggan(const WorkloadOptions& options) {
  BigGanSizes sizes;
  sizes.batch = checked("batch", options.batch, 16, 1, kLargestBatch);
  sizes.width = checked("width", options.width, 96, 8, 1024);
  sizes.classes = checked("classes", options.classes, 1000, 2, 1 << 20);
  if (sizes.width % 8 != 0) {
    throw UsageError("option width: expected a multiple of 8, found " +
                     std::to_string(sizes.width));
  }
  Model model("biggan", element_type(options.dtype, ElementType::kBf16),
              checked_feature_multiple(options));
  GraphBuilder& graph = model.graph;
  const Tensor noise = model.input(
      "noise", hlo::array_shape(model.compute_type(), {sizes.batch, kNoise}), {Fill::kNormal, 1});
  const hlo::Shape of_images = hlo::array_shape(ElementType::kS32, {sizes.batch});
  const Tensor wanted = model.input("wanted", of_images, {Fill::kLabels, 0, sizes.classes});
  const Tensor images = model.input(
      "images", hlo::array_shape(model.compute_type(), {sizes.batch, kImage, kImage, kColours}),
      {Fill::kImages, 0, sizes.classes});
  const Tensor labels = model.input("labels", of_images, {Fill::kLabels, 0, sizes.classes});

  const Tensor made = generator(model, noise, wanted, sizes);
  const Tensor scores = discriminator(model, graph.concatenate({made, images}, 0),
                                      graph.concatenate({wanted, labels}, 0), sizes);
  const Tensor of_made = graph.slice(scores, {0}, {sizes.batch});
  const Tensor of_real = graph.slice(scores, {sizes.batch}, {2 * sizes.batch});
  const Tensor one = graph.splat_like(of_real, 1);
  const Tensor hinge = graph.add(mean(graph, relu(graph, graph.subtract(one, of_real))),
                                 mean(graph, relu(graph, graph.add(one, of_made))));
  Optimizer optimizer;
  optimizer.kind = Optimizer::Kind::kAdam;
  optimizer.beta1 = 0;
  optimizer.learning_rate = checked_rate(options.learning_rate, 1e-4);
  return model.training_step(
      {{hinge, "discriminator"}, {graph.scale(mean(graph, of_made), -1), "generator"}}, optimizer,
      sizes.batch, options.form());
}

}  // namespace tpu::frontend
