#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Quotients, remainders, counts of bits and signs of u64, and upper halves of products of any
/// integers, in terms of sums, products, shifts and comparisons.
/// Needs: scalars of any type (before hold_in_words), no layouts.
void expand_wide_arithmetic(hlo::Module& module);

}  // namespace tpu::compiler
