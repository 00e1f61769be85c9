#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: slices with strides and pads between elements leave a dimension to stand in the lanes,
/// which no kernel takes apart: those over all dimensions of an array are done one dimension after
/// the other, those of vectors on rows of 128 steps, or of one where a step passes 128 elements: in
/// the lanes stand the rows, and each row of a column takes as much VMEM as 128. Along long rows
/// steps become parts of a dimension of their own. A vector is reversed in rows of 128.
///
/// Needs: no calls; layouts not assigned yet. Leaves: such operations over fewer dimensions than
/// their arrays have; assign_layouts keeps the dimensions that they step through out of the lanes.
void split_steps(hlo::Module& module);

}  // namespace tpu::compiler
