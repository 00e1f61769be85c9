#include <algorithm>

#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/frontend/differentiator.h"

namespace tpu::frontend {

using hlo::ElementType;
using hlo::HloOpcode;

namespace {

/// Dimensions of a reduction's operand that remain in its result.
Extents kept_dimensions(std::int64_t rank, const Extents& reduced) {
  Extents kept;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(reduced, d)) kept.push_back(d);
  }
  return kept;
}

/// What the computation of a reduction does: its root's opcode.
HloOpcode reducer(const hlo::Module& module, const hlo::HloInstruction& node) {
  const hlo::Computation& computation = module.computation(node.called[0]);
  return computation.at(computation.root).opcode;
}

}  // namespace

void Differentiator::broadcast(const Node& node, Tensor g) {
  contribute(node, 0, graph_.reduce_sum(g, kept_dimensions(node.shape.rank(), node.dimensions)));
}

void Differentiator::slice(const Node& node, Tensor g) {
  const Extents full = graph_.shape(operand(node, 0)).dimensions;
  std::vector<std::size_t> cut;
  for (std::size_t d = 0; d < full.size(); ++d) {
    if (node.shape.dimensions[d] != full[d]) cut.push_back(d);
  }
  const bool range = cut.size() == 1 && node.slice->strides[cut[0]] == 1;
  if (range) {
    const std::int64_t start = node.slice->starts[cut[0]];
    gradients_[node.operands[0]].pieces.push_back({static_cast<std::int64_t>(cut[0]), start, g});
    return;
  }
  std::vector<hlo::PaddingDimension> padding(full.size());
  for (std::size_t d = 0; d < full.size(); ++d) {
    padding[d].low = node.slice->starts[d];
    padding[d].interior = node.slice->strides[d] - 1;
    const std::int64_t count = node.shape.dimensions[d];
    const std::int64_t reach = count == 0 ? 0 : (count - 1) * node.slice->strides[d] + 1;
    padding[d].high = full[d] - padding[d].low - reach;
  }
  contribute(node, 0, graph_.pad(g, padding));
}

/// The gradient of a tensor that was cut into slices: their concatenation when they cover one
/// dimension without gap or overlap, else the sum of the padded pieces.
Tensor Differentiator::assemble(hlo::InstructionId id, std::vector<Piece> pieces) {
  const Extents full = graph_.shape(Tensor{id}).dimensions;
  const std::int64_t dimension = pieces.front().dimension;
  const std::size_t d = static_cast<std::size_t>(dimension);
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.start < b.start; });
  std::int64_t end = 0;
  std::vector<Tensor> parts;
  for (const Piece& piece : pieces) {
    if (piece.dimension != dimension || piece.start != end) break;
    end += graph_.shape(piece.gradient).dimensions[d];
    parts.push_back(piece.gradient);
  }
  if (parts.size() == pieces.size() && end == full[d]) return graph_.concatenate(parts, dimension);
  Tensor sum;
  for (const Piece& piece : pieces) {
    const std::size_t along = static_cast<std::size_t>(piece.dimension);
    std::vector<hlo::PaddingDimension> padding(full.size());
    padding[along].low = piece.start;
    padding[along].high =
        full[along] - piece.start - graph_.shape(piece.gradient).dimensions[along];
    const Tensor padded = graph_.pad(piece.gradient, padding);
    sum = sum.id < 0 ? padded : graph_.add(sum, padded);
  }
  return sum;
}

void Differentiator::concatenate(const Node& node, Tensor g) {
  const std::size_t along = static_cast<std::size_t>(node.dimensions[0]);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Extents part = graph_.shape(operand(node, i)).dimensions;
    if (needs_operand(node, i)) {
      Extents starts(part.size(), 0);
      Extents limits = part;
      starts[along] = start;
      limits[along] += start;
      contribute(node, i, graph_.slice(g, starts, limits));
    }
    start += part[along];
  }
}

/// Padding with a constant: negative padding brings back the operand's place, a strided slice its
/// elements between interior padding.
void Differentiator::pad(const Node& node, Tensor g) {
  if (needs_operand(node, 1)) {
    throw WorkloadError(node.metadata.op_name.get() +
                        ": expected a constant padding value, found one that needs a gradient");
  }
  std::vector<hlo::PaddingDimension> back = node.padding;
  bool interior = false;
  for (hlo::PaddingDimension& p : back) {
    interior = interior || p.interior != 0;
    p = {-p.low, -p.high, 0};
  }
  Tensor inner = graph_.pad(g, back);
  if (interior) {
    const Extents limits = graph_.shape(inner).dimensions;
    Extents strides;
    for (const hlo::PaddingDimension& p : node.padding) strides.push_back(p.interior + 1);
    inner = graph_.slice(inner, Extents(limits.size(), 0), limits, strides);
  }
  contribute(node, 0, inner);
}

void Differentiator::reduce(const Node& node, Tensor g) {
  if (node.operands.size() != 2) {
    throw WorkloadError(node.metadata.op_name.get() + ": expected a reduction of one array");
  }
  const Tensor x = operand(node, 0);
  const Extents full = graph_.shape(x).dimensions;
  const Extents kept = kept_dimensions(static_cast<std::int64_t>(full.size()), node.dimensions);
  const HloOpcode opcode = reducer(graph_.module(), node);
  if (opcode == HloOpcode::kAdd) {
    return contribute(node, 0, graph_.broadcast(g, full, kept));
  }
  if (opcode != HloOpcode::kMaximum && opcode != HloOpcode::kMinimum) {
    throw WorkloadError(node.metadata.op_name.get() +
                        ": expected a sum, maximum or minimum, found a reduction by " +
                        std::string(hlo::to_string(opcode)));
  }
  const Tensor best = graph_.broadcast(Tensor{node.id}, full, kept);
  const Tensor chosen = graph_.compare(x, best, hlo::ComparisonDirection::kEq);
  const Tensor ones = graph_.convert(chosen, node.shape.type);
  const Tensor share = graph_.divide(g, graph_.reduce_sum(ones, node.dimensions));
  contribute(node, 0, graph_.multiply(ones, graph_.broadcast(share, full, kept)));
}

hlo::WindowDimension transposed_window(const hlo::WindowDimension& window, std::int64_t input,
                                       std::int64_t output) {
  const auto dilated = [](std::int64_t extent, std::int64_t dilation) {
    return extent == 0 ? 0 : (extent - 1) * dilation + 1;
  };
  const std::int64_t reach = dilated(window.size, window.window_dilation);
  hlo::WindowDimension result;
  result.size = window.size;
  result.stride = window.base_dilation;
  result.base_dilation = window.stride;
  result.window_dilation = window.window_dilation;
  result.padding_low = reach - window.padding_low - 1;
  result.padding_high = dilated(input, window.base_dilation) + reach - 1 -
                        dilated(output, window.stride) - result.padding_low;
  return result;
}

void Differentiator::reduce_window(const Node& node, Tensor g) {
  const HloOpcode opcode = reducer(graph_.module(), node);
  const Tensor x = operand(node, 0);
  if (opcode == HloOpcode::kMaximum) {
    return contribute(node, 0, graph_.select_and_scatter(x, g, node.window));
  }
  if (opcode != HloOpcode::kAdd) {
    throw WorkloadError(node.metadata.op_name.get() +
                        ": expected a sum or maximum, found windows of " +
                        std::string(hlo::to_string(opcode)));
  }
  const Extents full = graph_.shape(x).dimensions;
  std::vector<hlo::PaddingDimension> padding(full.size());
  std::vector<hlo::WindowDimension> window(full.size());
  for (std::size_t d = 0; d < full.size(); ++d) {
    window[d] = transposed_window(node.window[d], full[d], node.shape.dimensions[d]);
    padding[d] = {window[d].padding_low, window[d].padding_high, window[d].base_dilation - 1};
    window[d].padding_low = window[d].padding_high = 0;
    window[d].base_dilation = 1;
  }
  contribute(node, 0, graph_.reduce_window_sum(graph_.pad(g, padding), window));
}

void Differentiator::gather(const Node& node, Tensor g) {
  const Tensor from = operand(node, 0);
  const Tensor zeros = graph_.splat_like(from, 0);
  contribute(node, 0, graph_.scatter_add(zeros, operand(node, 1), g, node.gather));
}

}  // namespace tpu::frontend
