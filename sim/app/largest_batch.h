#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "workloads/compiler/compiler.h"
#include "workloads/graph/graph.h"

namespace tpu::app {

/// A line for the out-of-memory report: the largest batch below `batch` (examples per core) that
/// fits, found by halving and then bisecting with whole compilations up to the HBM plan. What fits
/// is taken to fit with fewer examples, too.
std::string largest_batch_text(std::int64_t batch, std::uint32_t cores,
                               const std::function<bool(std::int64_t)>& fits);

/// The same for a module whose shapes are fixed: an estimate that what the program allocates grows
/// with the batch, where the arrays that are no state (of integers, where the module has no state)
/// share their leading dimension.
std::string fixed_batch_text(const hlo::Module& module, const compiler::OutOfMemoryError::Use& use);

}  // namespace tpu::app
