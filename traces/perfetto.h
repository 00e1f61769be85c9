#pragma once

#include <string>

#include "traces/run_record.h"

namespace tpu::traces {

/// Writes the timeline of a run as a native Perfetto trace: a group per chip, in it one per core
/// with the tracks Steps, XLA Ops, MXU0.., VPU, the DMA paths, the waits, and counters for the HBM
/// rate and the MXU. A cycle is 0.7 to 1.4 ns and Perfetto counts whole ns: the exact cycles are
/// arguments of each slice. Throws WorkloadError when the run was recorded without events.
void export_perfetto(const RunRecord& record, const std::string& path);

}  // namespace tpu::traces
