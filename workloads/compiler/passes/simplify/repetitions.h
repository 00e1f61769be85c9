#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: what is computed of repeated elements (a broadcast of an array, with reshapes around it,
/// as `jnp.repeat` and enlarged images have it) is computed before they are repeated: elementwise
/// operations on arrays that were repeated alike, and on scalars; sums along what was repeated,
/// which are multiples of each element, and maxima and minima.
///
/// Needs: a verified module without call and fusion in the entry; layouts not assigned yet.
/// Leaves: the same values, but that a sum of n equal numbers is rounded once.
void delay_repetitions(hlo::Module& module);

}  // namespace tpu::compiler
