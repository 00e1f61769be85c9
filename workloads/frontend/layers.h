#pragma once

#include <string>

#include "workloads/frontend/model.h"

namespace tpu::frontend {

/// The layers of the frontend. Each adds its weights to the model under the scope `name` and
/// returns its output in the type of its input; sums, statistics and losses are in f32.

/// x [rows, in] times a kernel [in, out], plus a bias. He initialisation for `relu` after it, else
/// Xavier's.
Tensor dense(Model& model, Tensor x, const std::string& name, std::int64_t outputs,
             bool before_relu);

/// Padding of a window, low and high, for each of the two spatial dimensions.
struct Padding {
  std::int64_t low = 0, high = 0;
};
/// TensorFlow's SAME: as many outputs as strides begin in the input.
Padding same_padding(std::int64_t extent, std::int64_t size, std::int64_t stride);

struct Convolution {
  std::int64_t outputs = 0;
  std::int64_t size = 1;
  std::int64_t stride = 1;
  Padding padding;
  bool bias = false;
};
/// NHWC images, HWIO kernel, He initialisation, weight decay on the kernel.
Tensor conv2d(Model& model, Tensor x, const std::string& name, const Convolution& options);

/// Batch normalisation in training mode over all dimensions but the last: mean and variance from
/// one pass of sums and sums of squares in f32, then one multiply-add per element. The moving
/// averages for inference are not kept.
Tensor batch_norm(Model& model, Tensor x, const std::string& name, double initial_scale = 1);

Tensor max_pool(Model& model, Tensor x, const std::string& name, std::int64_t size,
                std::int64_t stride, Padding padding = {});
/// Mean of each window; no padding.
Tensor average_pool(Model& model, Tensor x, const std::string& name, std::int64_t size,
                    std::int64_t stride);
/// [N,H,W,C] -> [N,C].
Tensor global_average_pool(Model& model, Tensor x, const std::string& name);

Tensor relu(GraphBuilder& graph, Tensor x);
/// The tanh form.
Tensor gelu(GraphBuilder& graph, Tensor x);

/// Mean over the rows of -log softmax(logits)[label], in f32; labels s32[rows].
Tensor softmax_cross_entropy(GraphBuilder& graph, Tensor logits, Tensor labels);

/// Rows of an f32 table by s32 indices [count], in the compute type.
Tensor embedding(Model& model, Tensor table, Tensor indices, const std::string& name);

/// Over the last dimension, in f32, with scale and bias.
Tensor layer_norm(Model& model, Tensor x, const std::string& name);

/// Causal self-attention of x [batch * sequence, width]. Heads are ranges of columns: the
/// projections stay two-dimensional, each head is a slice that is reshaped to [batch, sequence,
/// width / heads] (no data moves when the sequence is a multiple of 8), and the heads' results are
/// concatenated. There is no transpose.
Tensor causal_attention(Model& model, Tensor x, const std::string& name, std::int64_t batch,
                        std::int64_t sequence, std::int64_t heads);

}  // namespace tpu::frontend
