#pragma once

#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Members of a sequence that only move elements (slices, pads, concatenations) are computed by the
/// members that read them, where their arrays are small: a concatenation reads parts of arrays
/// where they stand, an elementwise member reads what only it needs at other places. What nothing
/// reads any more is gone. New fused computations are appended; `first` is the number of the first
/// one.
void merge_shifts(const hlo::Module& module, hlo::Computation& sequence,
                  std::vector<hlo::Computation>& computations, std::size_t first);

}  // namespace tpu::compiler
