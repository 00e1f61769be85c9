#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: dots of many tiny matrices (interactions of a few features per example) become a product
/// and a sum on the vector unit, with the examples in the lanes. The MXU would load weights for
/// each matrix, however few of its rows and columns they fill. So do dots that contract nothing
/// (einsum "...k,k->...k"): they are products of broadcasts, whatever their size.
///
/// Needs: layouts not assigned yet. Before drop_unit_dimensions.
/// Leaves: such dots as multiply and reduce in f32: more precise than the MXU's bf16.
void multiply_small_matrices(hlo::Module& module);

}  // namespace tpu::compiler
