#pragma once

#include <cstdint>

#include "sim/app/workload_source.h"

namespace tpu::app {

/// The most bytes that this process can get: the computer's memory, or less where a limit is set.
std::uint64_t memory_of_this_computer();

/// Throws WorkloadError when the values of a run need more memory than there is, before any of them
/// is made: what lies in the HBM of each core, and the results, which leave it as one array and
/// become a file.
void refuse_values_beyond_memory(const PreparedWorkload& workload, std::uint64_t available_bytes);

}  // namespace tpu::app
