#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: reductions of what is computed of smaller arrays alone, spread over a short dimension that
/// the largest of them do not have (distances of all pairs of points: three coordinates), become
/// operations on one index of it after the other. No register holds but a few numbers then, and
/// nothing larger than the result is kept.
///
/// A reduction along the short dimension becomes a sum of terms; of one along others each index is
/// reduced for itself.
///
/// Needs: a verified module without call and fusion in the entry; layouts not assigned yet.
/// Leaves: the same values, but for the order of the additions along the short dimension.
void unroll_short_dimensions(hlo::Module& module);

}  // namespace tpu::compiler
