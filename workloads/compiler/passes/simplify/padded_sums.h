#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: a sum of arrays that are zero but for parts that do not meet (what the gradients of the
/// slices of an array are: each padded with zeros, then added) becomes the concatenation of the
/// parts. So does a sum of large arrays, padded or sliced, whose parts meet in a few places of one
/// dimension: those are added by themselves. Sums of zeros and arrays of zeros are parts, too.
///
/// Needs: a verified module without call and fusion in the entry; layouts not assigned yet.
/// Leaves: the same values, but for the sign of zeros.
void join_padded_sums(hlo::Module& module);

}  // namespace tpu::compiler
