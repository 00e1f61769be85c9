#include <algorithm>

#include "sim/base/error.h"
#include "workloads/frontend/differentiator.h"

namespace tpu::frontend {

namespace {

/// Dimensions of a dot's operand that are neither batch nor contracting.
Extents free_dimensions(std::int64_t rank, const Extents& batch, const Extents& contracting) {
  Extents free;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (std::find(batch.begin(), batch.end(), d) == batch.end() &&
        std::find(contracting.begin(), contracting.end(), d) == contracting.end()) {
      free.push_back(d);
    }
  }
  return free;
}

Extents count_from(std::size_t first, std::size_t count) {
  Extents values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<std::int64_t>(first + i));
  return values;
}

Extents joined(std::initializer_list<Extents> parts) {
  Extents all;
  for (const Extents& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// For each dimension of the wanted array, where it stands in `order`.
Extents positions(const Extents& order) {
  Extents where(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    where[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return where;
}

}  // namespace

/// Of a product of bf16 in f32 the gradient is rounded to bf16 first: the matrix unit takes no
/// other.
void Differentiator::dot(const Node& node, Tensor g) {
  for (std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    if (!needs_operand(node, side)) continue;
    const Tensor rounded = graph_.convert(g, graph_.type(operand(node, side)));
    contribute(node, side, dot_operand_gradient(node, rounded, side));
  }
}

/// The gradient of one operand is the dot of g with the other operand over the other's free
/// dimensions. Of the two orders of operands, the one that needs no transpose is taken if there is
/// one.
Tensor Differentiator::dot_operand_gradient(const Node& node, Tensor g, std::size_t side) {
  const bool left = side == 0;
  const Tensor x = operand(node, side), other = operand(node, 1 - side);
  const Extents& x_batch = left ? node.dot->lhs_batch : node.dot->rhs_batch;
  const Extents& x_contracting = left ? node.dot->lhs_contracting : node.dot->rhs_contracting;
  const Extents& o_batch = left ? node.dot->rhs_batch : node.dot->lhs_batch;
  const Extents& o_contracting = left ? node.dot->rhs_contracting : node.dot->lhs_contracting;
  const Extents x_free = free_dimensions(graph_.shape(x).rank(), x_batch, x_contracting);
  const Extents o_free = free_dimensions(graph_.shape(other).rank(), o_batch, o_contracting);
  const std::size_t batch = x_batch.size();
  const Extents g_batch = count_from(0, batch);
  const Extents g_x = count_from(left ? batch : batch + o_free.size(), x_free.size());
  const Extents g_other = count_from(left ? batch + x_free.size() : batch, o_free.size());

  // The other operand's contracting dimensions stand in the result in their own order.
  Extents sorted = o_contracting;
  std::sort(sorted.begin(), sorted.end());
  Extents x_contracted;
  for (std::int64_t d : sorted) {
    const std::size_t i = static_cast<std::size_t>(
        std::find(o_contracting.begin(), o_contracting.end(), d) - o_contracting.begin());
    x_contracted.push_back(x_contracting[i]);
  }
  const Extents g_first = joined({x_batch, x_free, x_contracted});
  const Extents other_first = joined({x_batch, x_contracted, x_free});
  const hlo::ElementType type = graph_.type(x);
  if (std::is_sorted(g_first.begin(), g_first.end()) ||
      !std::is_sorted(other_first.begin(), other_first.end())) {
    const Tensor result = graph_.dot(g, other, {g_batch, o_batch, g_other, o_free}, type);
    return graph_.transpose(result, positions(g_first));
  }
  return graph_.dot(other, g, {o_batch, g_batch, o_free, g_other}, type);
}

void Differentiator::convolution(const Node& node, Tensor g) {
  if (node.batch_group_count != 1) {
    throw WorkloadError(node.metadata.op_name.get() +
                        ": expected batch_group_count=1 for a gradient, found " +
                        std::to_string(node.batch_group_count));
  }
  if (needs_operand(node, 0)) contribute(node, 0, convolution_input_gradient(node, g));
  if (needs_operand(node, 1)) contribute(node, 1, convolution_kernel_gradient(node, g));
}

/// With feature groups, the kernel [.., I/G, O] of the forward pass becomes [.., I, O/G]: each
/// group's output features become the transposed convolution's inputs.
Tensor Differentiator::regroup_kernel(const Node& node) {
  const Tensor kernel = operand(node, 1);
  const std::int64_t groups = node.feature_group_count;
  if (groups == 1) return kernel;
  const Extents shape = graph_.shape(kernel).dimensions;
  const std::size_t in = static_cast<std::size_t>(node.convolution->kernel_input_feature);
  const std::size_t out = static_cast<std::size_t>(node.convolution->kernel_output_feature);
  Extents split = shape;
  split[out] /= groups;
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(out), groups);
  Extents order = count_from(0, split.size());
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(out));
  const std::int64_t in_now = static_cast<std::int64_t>(in > out ? in + 1 : in);
  order.insert(std::find(order.begin(), order.end(), in_now), static_cast<std::int64_t>(out));
  Extents merged = shape;
  merged[in] *= groups;
  merged[out] /= groups;
  return graph_.reshape(graph_.transpose(graph_.reshape(kernel, split), order), merged);
}

/// The gradient of the input: a convolution of g, dilated by the stride, with the reversed kernel
/// whose input and output features change places (dim_labels=b01f_01oi->b01f).
Tensor Differentiator::convolution_input_gradient(const Node& node, Tensor g) {
  const hlo::ConvolutionDimensions& forward = node.convolution;
  hlo::ConvolutionDimensions dims = forward;
  dims.input_batch = forward.output_batch;
  dims.input_feature = forward.output_feature;
  dims.input_spatial = forward.output_spatial;
  dims.kernel_input_feature = forward.kernel_output_feature;
  dims.kernel_output_feature = forward.kernel_input_feature;
  dims.output_batch = forward.input_batch;
  dims.output_feature = forward.input_feature;
  dims.output_spatial = forward.input_spatial;
  const Extents input = graph_.shape(operand(node, 0)).dimensions;
  std::vector<hlo::WindowDimension> window;
  for (std::size_t i = 0; i < node.window.size(); ++i) {
    const std::size_t in = static_cast<std::size_t>(forward.input_spatial[i]);
    const std::size_t out = static_cast<std::size_t>(forward.output_spatial[i]);
    window.push_back(transposed_window(node.window[i], input[in], node.shape.dimensions[out]));
    window.back().reversal = node.window[i].size > 1 && !node.window[i].reversal;
  }
  return graph_.convolution(g, regroup_kernel(node), dims, window, node.feature_group_count);
}

/// The gradient of the kernel: a convolution of the input with g as the window, features as batch
/// and batch as features (dim_labels=f01b_i01o->01bf); the stride becomes the window's dilation.
Tensor Differentiator::convolution_kernel_gradient(const Node& node, Tensor g) {
  const hlo::ConvolutionDimensions& forward = node.convolution;
  hlo::ConvolutionDimensions dims;
  dims.input_batch = forward.input_feature;
  dims.input_feature = forward.input_batch;
  dims.input_spatial = forward.input_spatial;
  dims.kernel_input_feature = forward.output_batch;
  dims.kernel_output_feature = forward.output_feature;
  dims.kernel_spatial = forward.output_spatial;
  dims.output_batch = forward.kernel_input_feature;
  dims.output_feature = forward.kernel_output_feature;
  dims.output_spatial = forward.kernel_spatial;
  const auto dilated = [](std::int64_t extent, std::int64_t dilation) {
    return extent == 0 ? 0 : (extent - 1) * dilation + 1;
  };
  const Extents input = graph_.shape(operand(node, 0)).dimensions;
  std::vector<hlo::WindowDimension> window;
  Extents reversed;
  for (std::size_t i = 0; i < node.window.size(); ++i) {
    const hlo::WindowDimension& w = node.window[i];
    const std::int64_t in = input[static_cast<std::size_t>(forward.input_spatial[i])];
    const std::int64_t out =
        node.shape.dimensions[static_cast<std::size_t>(forward.output_spatial[i])];
    hlo::WindowDimension back;
    back.size = out;
    back.stride = w.window_dilation;
    back.base_dilation = w.base_dilation;
    back.window_dilation = w.stride;
    back.padding_low = w.padding_low;
    back.padding_high = dilated(out, w.stride) - dilated(in, w.base_dilation) +
                        dilated(w.size, w.window_dilation) - w.padding_low - 1;
    window.push_back(back);
    if (w.reversal) reversed.push_back(forward.kernel_spatial[i]);
  }
  const Tensor gradient =
      graph_.convolution(operand(node, 0), g, dims, window, 1, node.feature_group_count);
  return reversed.empty() ? gradient : graph_.reverse(gradient, reversed);
}

}  // namespace tpu::frontend
