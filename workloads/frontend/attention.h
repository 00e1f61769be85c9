#pragma once

#include <optional>
#include <string>

#include "workloads/frontend/model.h"

namespace tpu::frontend {

/// Attention of several heads at once.
struct Attention {
  std::int64_t batch = 1;
  std::int64_t queries = 1;  ///< Of a sequence.
  std::int64_t keys = 1;
  std::int64_t heads = 1;
  bool causal = false;         ///< A query sees no later key.
  std::optional<Tensor> mask;  ///< [batch, keys], added to the scores: padding is very negative.
};

/// Of x [batch * queries, width] to memory [batch * keys, width]; the same tensor for
/// self-attention, whose three projections are one product. Heads are a dimension of
/// four-dimensional projections: the products run over batch and head, and their operands are
/// transposed where the compiler likes it. `causal_attention` of layers.h has no transposes, but an
/// instruction for each head.
Tensor attention(Model& model, Tensor x, Tensor memory, const std::string& name,
                 const Attention& options);

}  // namespace tpu::frontend
