#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: a small slice, or dynamic-slice, of what is computed element by element of stored arrays
/// (parameters, results of loops) and broadcasts is computed of slices of these. The whole then
/// need not stand in HBM for the slice's sake, and who else reads it may have it inside of a
/// fusion.
///
/// Needs: layouts not assigned yet. Leaves: the same values; slices of stored arrays and of what
/// broadcasts repeat.
void compute_sliced_values(hlo::Module& module);

}  // namespace tpu::compiler
