#pragma once

#include <cstdint>
#include <vector>

#include "traces/run_record.h"

namespace tpu::traces {

/// Bytes of HBM that are in use while each op runs; ranges that buffers share count once.
std::vector<std::uint64_t> hbm_in_use(const RunRecord& record);

/// The most of them: what the memory timeline peaks at. Of a program without ops, its plan.
std::uint64_t hbm_peak_bytes(const RunRecord& record);

}  // namespace tpu::traces
