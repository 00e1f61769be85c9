#pragma once

#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: reductions and sorts in terms of f32 reductions, which are what the lanes can reduce.
///
/// - Integer sums: of digits so short that fp32 holds their sums exactly; of converted predicates
///   as they are. Integer extremes: of the upper halves, then of the lower halves of those.
/// - A reduction of (value, index) pairs that keeps the greatest or least value: the extreme, then
///   the least (greatest) index where it stands; indices below 2^24. A NaN has no index.
/// - sort and topk: the rank of each element is the number of those before it, found by comparing
///   all with all; then elements are gathered by rank. Stable; NaNs have no place in the order. It
///   costs the square of the length.
///
/// Needs: a simplified entry without calls; layouts not assigned yet; before
/// rewrite_indexed_access. Leaves: reductions with one operand. Refusals of what has no such form.
void rewrite_reductions(hlo::Module& module, Refusals& refusals);

}  // namespace tpu::compiler
