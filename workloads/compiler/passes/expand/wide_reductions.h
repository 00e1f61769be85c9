#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Reductions, and windows along some dimensions, of arrays of which one has u64 numbers, or of
/// complex numbers by another computation than a sum: the computation is applied to whole arrays,
/// halves of what is reduced, or elements 1, 2, 4, ... apart.
/// Needs: scalars of any type (before hold_in_words), no layouts.
void expand_wide_reductions(hlo::Module& module);

}  // namespace tpu::compiler
