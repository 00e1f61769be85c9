#include "sim/base/error.h"
#include "workloads/frontend/layers.h"
#include "workloads/frontend/zoo_models.h"
#include "workloads/frontend/zoo_options.h"

namespace tpu::frontend {

using hlo::ElementType;

namespace {

struct TransformerSizes {
  std::int64_t batch, sequence, heads, width;
};

/// Attention and feed-forward, each after a layer norm and around a residual connection.
Tensor decoder_layer(Model& model, Tensor x, const std::string& name,
                     const TransformerSizes& sizes) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, name);
  const Tensor attended = causal_attention(model, layer_norm(model, x, "attention_norm"),
                                           "attention", sizes.batch, sizes.sequence, sizes.heads);
  x = graph.add(x, attended);
  Tensor y = layer_norm(model, x, "feed_forward_norm");
  y = gelu(graph, dense(model, y, "feed_forward1", 4 * sizes.width, true));
  return graph.add(x, dense(model, y, "feed_forward2", sizes.width, false));
}

/// x [batch * sequence, width] plus a trained vector per position.
Tensor add_positions(Model& model, Tensor x, const TransformerSizes& sizes) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, "positions");
  const Tensor table = model.weight("table", {sizes.sequence, sizes.width}, {Fill::kNormal, 0.02});
  const Extents shape = {sizes.batch, sizes.sequence, sizes.width};
  const Tensor positions = graph.broadcast(model.in_compute_type(table), shape, {1, 2});
  return graph.reshape(graph.add(graph.reshape(x, shape), positions), graph.shape(x).dimensions);
}

}  // namespace

/// A GPT: layer norm before each part, gelu, causal attention, output weights tied to the
/// embedding. Activations are [batch * sequence, width] throughout; inputs are flat for the same
/// reason.
Workload build_transformer(const WorkloadOptions& options) {
  const std::int64_t layers = checked("layers", options.layers, 2, 1, 1000);
  const std::int64_t vocabulary =
      full_width(options, checked("vocabulary", options.vocabulary, 1024, 2, 1 << 24));
  TransformerSizes sizes;
  sizes.batch = checked("batch", options.batch, 16, 1, kLargestBatch);
  sizes.sequence = checked("sequence", options.sequence, 128, 1, 1 << 16);
  sizes.width = full_width(options, checked("width", options.width, 256, 1, 1 << 16));
  const std::int64_t heads =
      checked("heads", options.heads, std::max<std::int64_t>(sizes.width / 128, 1), 1, sizes.width);
  sizes.heads = full_heads(options, sizes.width, heads);
  check_heads(sizes.width, sizes.heads);
  Model model("transformer", element_type(options.dtype, ElementType::kBf16));
  GraphBuilder& graph = model.graph;
  const std::int64_t rows = sizes.batch * sizes.sequence;
  const hlo::Shape flat = hlo::array_shape(ElementType::kS32, {rows});
  const Tensor tokens = model.input("tokens", flat, {Fill::kTokens, 0, vocabulary, sizes.sequence});
  const Tensor next =
      model.input("next_tokens", flat, {Fill::kNextTokens, 0, vocabulary, sizes.sequence});
  const Tensor table = model.weight("embedding", {vocabulary, sizes.width}, {Fill::kNormal, 0.02});
  Tensor x = add_positions(model, embedding(model, table, tokens, "embed"), sizes);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    x = decoder_layer(model, x, "layer" + std::to_string(layer), sizes);
  }
  x = layer_norm(model, x, "final_norm");
  const Tensor logits =
      graph.dot(x, model.in_compute_type(table), {{}, {}, {1}, {1}}, model.compute_type());
  Optimizer optimizer;
  optimizer.kind = Optimizer::Kind::kAdam;
  optimizer.learning_rate = checked_rate(options.learning_rate, 1e-3);
  return model.training_step(softmax_cross_entropy(graph, logits, next), optimizer, sizes.batch,
                             options.form());
}

}  // namespace tpu::frontend
