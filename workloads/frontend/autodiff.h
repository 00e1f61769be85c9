#pragma once

#include <vector>

#include "workloads/frontend/graph_builder.h"

namespace tpu::frontend {

/// Gradients of a scalar with respect to tensors of the graph, by reverse mode: the instructions
/// between them are visited from the loss backwards, and each gives its operands a
/// vector-Jacobian product, appended to the same graph under the scope "transpose(MODEL)/...". A
/// tensor used several times gets one sum. The gradient has the type of its tensor; one that the
/// loss does not depend on gets zeros. An opcode without a rule is a WorkloadError that names it.
std::vector<Tensor> gradients(GraphBuilder& graph, Tensor loss, const std::vector<Tensor>& of);

/// As above with a given gradient `seed` of the value y, of any shape.
std::vector<Tensor> vector_jacobian_product(GraphBuilder& graph, Tensor y, Tensor seed,
                                            const std::vector<Tensor>& of);

}  // namespace tpu::frontend
