#include "workloads/frontend/attention.h"
#include "workloads/frontend/layers.h"
#include "workloads/frontend/zoo_models.h"
#include "workloads/frontend/zoo_options.h"

namespace tpu::frontend {

using hlo::ElementType;

namespace {

struct TranslationSizes {
  std::int64_t batch, sequence, heads, width;
  std::int64_t rows() const { return batch * sequence; }
  Attention attention(bool causal, std::optional<Tensor> mask) const {
    return {batch, sequence, sequence, heads, causal, mask};
  }
};

/// A residual connection, and a layer norm behind it.
Tensor joined(Model& model, Tensor x, Tensor y, const std::string& name) {
  return layer_norm(model, model.graph.add(x, y), name);
}

Tensor feed_forward(Model& model, Tensor x, const TranslationSizes& sizes) {
  const Tensor wide = relu(model.graph, dense(model, x, "feed_forward1", 4 * sizes.width, true));
  return joined(model, x, dense(model, wide, "feed_forward2", sizes.width, false),
                "feed_forward_norm");
}

Tensor encoder_layer(Model& model, Tensor x, Tensor mask, const std::string& name,
                     const TranslationSizes& sizes) {
  GraphBuilder::Scope scope(model.graph, name);
  x = joined(model, x, attention(model, x, x, "attention", sizes.attention(false, mask)),
             "attention_norm");
  return feed_forward(model, x, sizes);
}

Tensor decoder_layer(Model& model, Tensor x, Tensor memory, Tensor mask, const std::string& name,
                     const TranslationSizes& sizes) {
  GraphBuilder::Scope scope(model.graph, name);
  x = joined(model, x, attention(model, x, x, "attention", sizes.attention(true, std::nullopt)),
             "attention_norm");
  x = joined(model, x,
             attention(model, x, memory, "source_attention", sizes.attention(false, mask)),
             "source_norm");
  return feed_forward(model, x, sizes);
}

/// Words as vectors plus a vector per position.
Tensor embedded(Model& model, Tensor table, const std::string& name, std::int64_t vocabulary,
                const TranslationSizes& sizes) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, name);
  const Tensor tokens = model.input("tokens", hlo::array_shape(ElementType::kS32, {sizes.rows()}),
                                    {Fill::kTokens, 0, vocabulary, sizes.sequence});
  const Tensor words = embedding(model, table, tokens, "embed");
  const Tensor positions =
      model.weight("positions", {sizes.sequence, sizes.width}, {Fill::kNormal, 0.02});
  const Extents shape = {sizes.batch, sizes.sequence, sizes.width};
  return graph.reshape(graph.add(graph.reshape(words, shape),
                                 graph.broadcast(model.in_compute_type(positions), shape, {1, 2})),
                       {sizes.rows(), sizes.width});
}

}  // namespace

/// fairseq's transformer_vaswani_wmt_en_de_big as PyTorch/XLA's tutorial trains it: sentences
/// padded to one fixed shape (`--input_shapes 128x64`), so that nothing compiles twice; padding
/// costs what words cost, and a mask keeps it out of the attention. One embedding for both
/// languages and the output.
Workload build_fairseq_transformer(const WorkloadOptions& options) {
  const std::int64_t layers = checked("layers", options.layers, 6, 1, 1000);
  const std::int64_t vocabulary =
      full_width(options, checked("vocabulary", options.vocabulary, 32768, 2, 1 << 24));
  TranslationSizes sizes;
  sizes.batch = checked("batch", options.batch, 128, 1, kLargestBatch);
  sizes.sequence = checked("sequence", options.sequence, 64, 1, 1 << 16);
  sizes.width = full_width(options, checked("width", options.width, 1024, 1, 1 << 16));
  const std::int64_t heads =
      checked("heads", options.heads, std::max<std::int64_t>(sizes.width / 64, 1), 1, sizes.width);
  sizes.heads = full_heads(options, sizes.width, heads);
  check_heads(sizes.width, sizes.heads);
  Model model("fairseq-transformer", element_type(options.dtype, ElementType::kBf16));
  GraphBuilder& graph = model.graph;
  const Tensor table = model.weight("embedding", {vocabulary, sizes.width}, {Fill::kNormal, 0.02});
  const Tensor mask =
      model.input("mask", hlo::array_shape(ElementType::kBf16, {sizes.batch, sizes.sequence}),
                  {Fill::kConstant, 0});
  Tensor source = embedded(model, table, "source", vocabulary, sizes);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    source = encoder_layer(model, source, mask, "encoder" + std::to_string(layer), sizes);
  }
  Tensor x = embedded(model, table, "target", vocabulary, sizes);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    x = decoder_layer(model, x, source, mask, "decoder" + std::to_string(layer), sizes);
  }
  const Tensor next =
      model.input("next_tokens", hlo::array_shape(ElementType::kS32, {sizes.rows()}),
                  {Fill::kNextTokens, 0, vocabulary, sizes.sequence});
  const Tensor logits =
      graph.dot(x, model.in_compute_type(table), {{}, {}, {1}, {1}}, model.compute_type());
  Optimizer optimizer;
  optimizer.kind = Optimizer::Kind::kAdam;
  optimizer.learning_rate = checked_rate(options.learning_rate, 5e-4);
  return model.training_step(softmax_cross_entropy(graph, logits, next), optimizer, sizes.batch,
                             options.form());
}

}  // namespace tpu::frontend
