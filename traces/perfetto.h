#pragma once

#include <string>

#include "traces/perfetto_file.h"
#include "traces/run_record.h"

namespace tpu::traces {

/// Writes the timeline of a run as a native Perfetto trace: a group per chip, in it one per core
/// with the tracks Steps, XLA Ops, MXU0.., VPU, the DMA paths, the waits, and counters for the HBM
/// rate, the MXU and the HBM in use; behind them the links and the host. A cycle is 0.7 to 1.4 ns
/// and Perfetto counts whole ns: the exact cycles are arguments of steps and ops. Throws
/// WorkloadError when the run was recorded without events.
void export_perfetto(const RunRecord& record, const std::string& path);

/// The same into a file under way, which may hold more of the same run.
void write_perfetto(const RunRecord& record, PerfettoFile& file);

}  // namespace tpu::traces
