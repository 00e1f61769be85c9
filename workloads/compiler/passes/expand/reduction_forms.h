#pragma once

#include <cstdint>

#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: reductions and sorts in terms of f32 reductions, which are what the lanes can reduce.
///
/// - Integer sums: of digits so short that fp32 holds their sums exactly, as many as the integers
/// are
///   known to have; of converted predicates as they are. Integer extremes: of the upper halves,
///   then of the lower halves of those.
/// - A reduction of (value, index) pairs that keeps the greatest or least value: the extreme, then
///   the least (greatest) index where it stands; indices below 2^24. A NaN has no index.
/// - Any other reduction (products, logic, several arrays, a computation of the user's): the
///   computation on the halves of the arrays, on halves of the result, and so on.
/// - sort: the rank of each element is the number of those before it, found by comparing all with
///   all, by key or by the comparator of the sort, whatever keys it looks at; then elements are
///   gathered by rank. Stable. It costs the square of the length. Sorted by a single key, NaNs have
///   no place in the order.
/// - topk: the same, or, where that takes fewer cycles, one after the other among those left.
/// - PartialReduce (approx_max_k): of elements far from each other those that its comparator puts
///   first, by halves.
/// - map: its computation.
///
/// Needs: a simplified entry without calls; layouts not assigned yet; before
/// rewrite_indexed_access, and once more behind it. Leaves: sums and extremes of floating values,
/// all and any of predicates. Refusals of what has no such form.
///
/// Sorts that `ir/sort_form.h` describes stay as they are: they have a kernel.
void rewrite_reductions(hlo::Module& module, Refusals& refusals);

/// Estimates of what the greatest `count` of each of `outer` sequences take, by ranks or one after
/// the other.
struct TopkCycles {
  double by_rank = 0, by_search = 0;
};
TopkCycles topk_cycles(std::int64_t outer, std::int64_t length, std::int64_t count);

}  // namespace tpu::compiler
