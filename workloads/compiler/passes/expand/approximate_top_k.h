#pragma once

#include <cstdint>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Calls of ApproxTopK (jax.lax.approx_max_k) as XLA has them for a TPU: groups of elements of
/// which the first one stays (PartialReduce), then a sort of those, of which the first k are taken.
/// Needs: no layouts; before hold_in_words.
void expand_approximate_top_k(hlo::Module& module);

/// How many of `size` elements along a dimension one result stands for, as a power of 2, for which
/// `recall` of the first k are expected to be among the results. The array has `rank` dimensions;
/// it is part of one with `whole` elements along the dimension.
int halvings_for_top_k(std::int64_t size, std::int64_t rank, std::int64_t k, double recall,
                       std::int64_t whole);

}  // namespace tpu::compiler
