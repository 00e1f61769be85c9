#include "sim/base/error.h"
#include "workloads/frontend/layers.h"
#include "workloads/frontend/zoo_models.h"
#include "workloads/frontend/zoo_options.h"

namespace tpu::frontend {

using hlo::ElementType;

namespace {

/// Convolution, batch norm and, where asked for, a rectifier.
Tensor conv_norm(Model& model, Tensor x, const std::string& name, const Convolution& options,
                 bool rectify) {
  const Tensor y = batch_norm(model, conv2d(model, x, name, options), name + "_norm");
  return rectify ? relu(model.graph, y) : y;
}

/// The bottleneck block of ResNet v1.5: the stride is in the 3x3 convolution.
Tensor bottleneck(Model& model, Tensor x, const std::string& name, std::int64_t features,
                  std::int64_t stride, bool project) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, name);
  Tensor shortcut = x;
  if (project) {
    shortcut = conv_norm(model, x, "shortcut", {4 * features, 1, stride, {}}, false);
  }
  Tensor y = conv_norm(model, x, "conv1", {features, 1, 1, {}}, true);
  y = conv_norm(model, y, "conv2", {features, 3, stride, {1, 1}}, true);
  y = conv_norm(model, y, "conv3", {4 * features, 1, 1, {}}, false);
  return relu(graph, graph.add(y, shortcut));
}

}  // namespace

/// ResNet-50 v1.5. As in Google's MLPerf submissions the host turns blocks of 2x2 pixels into
/// features: the step's input is [N, image/2, image/2, 12], and the first convolution, 7x7 with
/// stride 2 over [N, image, image, 3], is 4x4 with stride 1 and padding (2,1), the same sums with a
/// row and a column of the kernel more. The learning rate is 0.1 for a global batch of 256 and
/// grows with it (Goyal et al.).
Workload build_resnet50(const WorkloadOptions& options) {
  const std::int64_t batch = checked("batch", options.batch, 128, 1, kLargestBatch);
  const std::int64_t image = checked("image", options.image, 224, 32, 2048);
  const std::int64_t classes = checked("classes", options.classes, 1000, 2, 1 << 20);
  if (image % 32 != 0) {
    throw UsageError("option image: expected a multiple of 32 from 32 to 2048, found " +
                     std::to_string(image));
  }
  Model model("resnet50", element_type(options.dtype, ElementType::kBf16),
              checked_feature_multiple(options));
  GraphBuilder& graph = model.graph;
  const Tensor images = model.input(
      "images", hlo::array_shape(model.compute_type(), {batch, image / 2, image / 2, 12}),
      {Fill::kImages, 0, classes});
  const Tensor labels = model.input("labels", hlo::array_shape(ElementType::kS32, {batch}),
                                    {Fill::kLabels, 0, classes});
  Tensor x = conv_norm(model, images, "stem", {64, 4, 1, {2, 1}}, true);
  x = max_pool(model, x, "pool", 3, 2, {1, 1});
  const std::int64_t blocks[] = {3, 4, 6, 3};
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    GraphBuilder::Scope scope(graph, "stage" + std::to_string(stage + 1));
    for (std::int64_t block = 0; block < blocks[stage]; ++block) {
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      x = bottleneck(model, x, "block" + std::to_string(block), 64 << stage, stride, block == 0);
    }
  }
  x = global_average_pool(model, x, "global_pool");
  const Tensor logits = dense(model, x, "classifier", classes, false);
  Optimizer optimizer;
  optimizer.learning_rate = checked_rate(options.learning_rate,
                                         0.1 * static_cast<double>(batch * options.replicas) / 256);
  optimizer.weight_decay = 1e-4;
  return model.training_step(softmax_cross_entropy(graph, logits, labels), optimizer, batch,
                             options.form());
}

}  // namespace tpu::frontend
