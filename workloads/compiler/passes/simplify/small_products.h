#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: dots that the vector unit does as fast as their operands arrive become products and sums:
/// of a matrix (or many) and a vector, of which the MXU would use one row; of many tiny matrices
/// (interactions of a few features per example), each of which would fill a small part of its
/// weights, and of fewer with one side that fills the lanes; and those that contract nothing
/// (einsum "...k,k->...k"), products of broadcasts.
///
/// Needs: layouts not assigned yet. Before rewrite_precise_products, since fp32 is as exact as they
/// ask, and before drop_unit_dimensions.
/// Leaves: such dots as multiply and reduce in f32: more precise than the MXU's bf16.
void multiply_small_matrices(hlo::Module& module);

}  // namespace tpu::compiler
