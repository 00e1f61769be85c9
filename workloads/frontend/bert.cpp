#include "sim/base/error.h"
#include "workloads/frontend/attention.h"
#include "workloads/frontend/layers.h"
#include "workloads/frontend/zoo_models.h"
#include "workloads/frontend/zoo_options.h"

namespace tpu::frontend {

using hlo::ElementType;

namespace {

/// What tells the encoders of this family apart.
struct Encoder {
  const char* name;
  std::int64_t layers, width, heads, sequence, vocabulary, batch;
  /// BERT: segments, the sentence that follows, and a word to guess in 15 of 100 places; else every
  /// place has a word to guess, as PyTorch/XLA's fixed shapes want it.
  bool has_sentences;
};

struct BertSizes {
  std::int64_t batch, sequence, heads, width, vocabulary;
  std::int64_t rows() const { return batch * sequence; }
};

/// 15 % of the places, to a multiple of four: 20 of 128 and 76 of 512 as in Google's own runs.
std::int64_t guesses_of(std::int64_t sequence) {
  return std::min(sequence, std::max<std::int64_t>((sequence * 15 + 200) / 400 * 4, 4));
}

Tensor add_embedding(Model& model, Tensor x, Tensor indices, const std::string& name,
                     std::int64_t count) {
  GraphBuilder& graph = model.graph;
  const std::int64_t width = graph.shape(x).dimensions.at(1);
  const Tensor table = model.weight(name, {count, width}, {Fill::kNormal, 0.02});
  return graph.add(x, embedding(model, table, indices, "embed_" + name));
}

/// x [batch * sequence, width] plus a trained vector per position.
Tensor add_positions(Model& model, Tensor x, const BertSizes& sizes) {
  GraphBuilder& graph = model.graph;
  const Tensor table =
      model.weight("positions", {sizes.sequence, sizes.width}, {Fill::kNormal, 0.02});
  const Extents shape = {sizes.batch, sizes.sequence, sizes.width};
  const Tensor positions = graph.broadcast(model.in_compute_type(table), shape, {1, 2});
  return graph.reshape(graph.add(graph.reshape(x, shape), positions), {sizes.rows(), sizes.width});
}

/// Layer norms behind the residual connections.
Tensor encoder_layer(Model& model, Tensor x, Tensor mask, std::int64_t number,
                     const BertSizes& sizes) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, "layer" + std::to_string(number));
  const Attention options{sizes.batch, sizes.sequence, sizes.sequence, sizes.heads, false, mask};
  x = layer_norm(model, graph.add(x, attention(model, x, x, "attention", options)),
                 "attention_norm");
  Tensor y = gelu(graph, dense(model, x, "feed_forward1", 4 * sizes.width, true));
  y = dense(model, y, "feed_forward2", sizes.width, false);
  return layer_norm(model, graph.add(x, y), "feed_forward_norm");
}

/// The rows of x with the words to guess: `count` places of each sequence.
Tensor guessed_rows(Model& model, Tensor x, const BertSizes& sizes, std::int64_t count) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, "guessed_rows");
  const Extents shape = {sizes.batch, count};
  const Tensor places =
      model.input("places", hlo::array_shape(ElementType::kS32, {sizes.batch * count}),
                  {Fill::kLabels, 0, sizes.sequence});
  const Tensor first =
      graph.multiply(graph.iota(ElementType::kS32, shape, 0),
                     graph.splat(ElementType::kS32, shape, static_cast<double>(sizes.sequence)));
  const Tensor rows = graph.add(graph.reshape(first, {sizes.batch * count}), places);
  hlo::GatherDimensions dims;
  dims.offset_dims = {1};
  dims.collapsed_slice_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  dims.slice_sizes = {1, sizes.width};
  return graph.gather(x, rows, dims);
}

/// -log of the probability of the right words, output weights tied to the embedding.
Tensor word_loss(Model& model, Tensor x, Tensor table, const BertSizes& sizes, bool everywhere) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, "words");
  if (!everywhere) x = guessed_rows(model, x, sizes, guesses_of(sizes.sequence));
  const std::int64_t count = graph.shape(x).dimensions.at(0);
  const Tensor labels = model.input("labels", hlo::array_shape(ElementType::kS32, {count}),
                                    {Fill::kLabels, 0, sizes.vocabulary});
  x = layer_norm(model, gelu(graph, dense(model, x, "transform", sizes.width, true)), "norm");
  const Tensor product =
      graph.dot(x, model.in_compute_type(table), {{}, {}, {1}, {1}}, ElementType::kF32);
  const Tensor bias = model.weight("bias", {sizes.vocabulary}, {Fill::kConstant, 0});
  const Tensor logits = graph.convert(graph.add(product, graph.broadcast_vector(bias, product, 1)),
                                      model.compute_type());
  return softmax_cross_entropy(graph, logits, labels);
}

/// Whether the second sentence follows the first, from the first word of each sequence.
Tensor sentence_loss(Model& model, Tensor x, const BertSizes& sizes) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, "sentences");
  const Tensor all = graph.reshape(x, {sizes.batch, sizes.sequence, sizes.width});
  const Tensor first = graph.reshape(graph.slice(all, {0, 0, 0}, {sizes.batch, 1, sizes.width}),
                                     {sizes.batch, sizes.width});
  const Tensor pooled =
      graph.unary(hlo::HloOpcode::kTanh, dense(model, first, "pooler", sizes.width, false));
  const Tensor follows = model.input("follows", hlo::array_shape(ElementType::kS32, {sizes.batch}),
                                     {Fill::kLabels, 0, 2});
  return softmax_cross_entropy(graph, dense(model, pooled, "classes", 2, false), follows);
}

BertSizes sizes_of(const WorkloadOptions& options, const Encoder& encoder) {
  BertSizes sizes;
  sizes.batch = checked("batch", options.batch, encoder.batch, 1, kLargestBatch);
  sizes.sequence = checked("sequence", options.sequence, encoder.sequence, 1, 1 << 16);
  sizes.width = full_width(options, checked("width", options.width, encoder.width, 1, 1 << 16));
  const std::int64_t heads =
      options.width ? std::max<std::int64_t>(sizes.width / 64, 1) : encoder.heads;
  sizes.heads =
      full_heads(options, sizes.width, checked("heads", options.heads, heads, 1, sizes.width));
  sizes.vocabulary = full_width(
      options, checked("vocabulary", options.vocabulary, encoder.vocabulary, 2, 1 << 24));
  check_heads(sizes.width, sizes.heads);
  return sizes;
}

Workload build_encoder(const WorkloadOptions& options, const Encoder& encoder) {
  const std::int64_t layers = checked("layers", options.layers, encoder.layers, 1, 1000);
  const BertSizes sizes = sizes_of(options, encoder);
  Model model(encoder.name, element_type(options.dtype, ElementType::kBf16));
  GraphBuilder& graph = model.graph;
  const hlo::Shape flat = hlo::array_shape(ElementType::kS32, {sizes.rows()});
  const Tensor tokens =
      model.input("tokens", flat, {Fill::kTokens, 0, sizes.vocabulary, sizes.sequence});
  const Tensor mask =
      model.input("mask", hlo::array_shape(ElementType::kBf16, {sizes.batch, sizes.sequence}),
                  {Fill::kConstant, 0});
  const Tensor table =
      model.weight("embedding", {sizes.vocabulary, sizes.width}, {Fill::kNormal, 0.02});
  Tensor x = add_positions(model, embedding(model, table, tokens, "embed"), sizes);
  if (encoder.has_sentences) {
    x = add_embedding(model, x, model.input("segment_of_each", flat, {Fill::kLabels, 0, 2}),
                      "segments", 2);
  }
  x = layer_norm(model, x, "embedding_norm");
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    x = encoder_layer(model, x, mask, layer, sizes);
  }
  Tensor loss = word_loss(model, x, table, sizes, !encoder.has_sentences);
  if (encoder.has_sentences) loss = graph.add(loss, sentence_loss(model, x, sizes));
  Optimizer optimizer;
  optimizer.kind = Optimizer::Kind::kAdam;
  optimizer.learning_rate = checked_rate(options.learning_rate, 1e-4);
  return model.training_step(loss, optimizer, sizes.batch, options.form());
}

}  // namespace

Workload build_bert(const WorkloadOptions& options) {
  return build_encoder(options, {"bert", 12, 768, 12, 128, 30522, 32, true});
}

Workload build_bert_large(const WorkloadOptions& options) {
  return build_encoder(options, {"bert-large", 24, 1024, 16, 512, 30522, 8, true});
}

Workload build_roberta(const WorkloadOptions& options) {
  return build_encoder(options, {"roberta", 12, 768, 12, 512, 50265, 16, false});
}

}  // namespace tpu::frontend
