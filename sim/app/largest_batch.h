#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tpu::app {

/// A line for the out-of-memory report: the largest batch below `batch` (examples per core) that
/// fits, found by halving and then bisecting with whole compilations up to the HBM plan. What fits
/// is taken to fit with fewer examples, too.
std::string largest_batch_text(std::int64_t batch, std::uint32_t cores,
                               const std::function<bool(std::int64_t)>& fits);

}  // namespace tpu::app
