#include "workloads/frontend/attention.h"

#include <cmath>

#include "sim/base/error.h"
#include "workloads/frontend/layers.h"

namespace tpu::frontend {

using hlo::ElementType;
using hlo::HloOpcode;

namespace {

/// Score of a key that a query may not see.
constexpr double kUnseen = -1e9;

struct Projections {
  Tensor query, key, value;  ///< [rows, width]
};
Projections project(Model& model, Tensor x, Tensor memory) {
  GraphBuilder& graph = model.graph;
  const std::int64_t width = graph.shape(x).dimensions.at(1);
  const auto columns = [&](Tensor of, std::int64_t part) {
    const std::int64_t rows = graph.shape(of).dimensions.at(0);
    return graph.slice(of, {0, part * width}, {rows, (part + 1) * width});
  };
  if (x.id == memory.id) {
    const Tensor all = dense(model, x, "query_key_value", 3 * width, false);
    return {columns(all, 0), columns(all, 1), columns(all, 2)};
  }
  const Tensor query = dense(model, x, "query", width, false);
  const Tensor both = dense(model, memory, "key_value", 2 * width, false);
  return {query, columns(both, 0), columns(both, 1)};
}

/// Scores [batch, heads, queries, keys], scaled and masked, in f32.
Tensor seen_scores(GraphBuilder& graph, Tensor scores, const Attention& options, double factor) {
  const Extents shape = graph.shape(scores).dimensions;
  Tensor seen = graph.scale(graph.convert(scores, ElementType::kF32), factor);
  if (options.mask) {
    const Tensor mask = graph.convert(*options.mask, ElementType::kF32);
    seen = graph.add(seen, graph.broadcast(mask, shape, {0, 3}));
  }
  if (!options.causal) return seen;
  const Extents square = {shape[2], shape[3]};
  const Tensor past =
      graph.compare(graph.iota(ElementType::kS32, square, 0),
                    graph.iota(ElementType::kS32, square, 1), hlo::ComparisonDirection::kGe);
  return graph.select(graph.broadcast(past, shape, {2, 3}), seen, graph.splat_like(seen, kUnseen));
}

Tensor softmax(GraphBuilder& graph, Tensor scores) {
  const Extents shape = graph.shape(scores).dimensions;
  const Extents kept = {0, 1, 2};
  const Tensor highest = graph.stop_gradient(graph.reduce_max(scores, {3}));
  const Tensor weights = graph.unary(HloOpcode::kExponential,
                                     graph.subtract(scores, graph.broadcast(highest, shape, kept)));
  return graph.divide(weights, graph.broadcast(graph.reduce_sum(weights, {3}), shape, kept));
}

}  // namespace

Tensor attention(Model& model, Tensor x, Tensor memory, const std::string& name,
                 const Attention& options) {
  GraphBuilder& graph = model.graph;
  GraphBuilder::Scope scope(graph, name);
  const std::int64_t width = graph.shape(x).dimensions.at(1);
  const std::int64_t head_width = width / options.heads;
  TPU_CHECK(head_width * options.heads == width, width << " columns, " << options.heads);
  const ElementType type = graph.type(x);
  const Projections projected = project(model, x, memory);
  const auto in_heads = [&](Tensor rows, std::int64_t length) {
    return graph.reshape(rows, {options.batch, length, options.heads, head_width});
  };
  const Tensor query = in_heads(projected.query, options.queries);
  const Tensor key = in_heads(projected.key, options.keys);
  const Tensor value = in_heads(projected.value, options.keys);
  const Tensor scores = graph.dot(query, key, {{0, 2}, {0, 2}, {3}, {3}}, type);
  const double factor = 1 / std::sqrt(static_cast<double>(head_width));
  const Tensor weights =
      graph.convert(softmax(graph, seen_scores(graph, scores, options, factor)), type);
  // [batch, heads, queries, head width]
  const Tensor context = graph.dot(weights, value, {{0, 1}, {0, 2}, {3}, {1}}, type);
  const Tensor joined = graph.reshape(graph.transpose(context, {0, 2, 1, 3}),
                                      {options.batch * options.queries, width});
  return dense(model, joined, "output", width, false);
}

}  // namespace tpu::frontend
