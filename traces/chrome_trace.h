#pragma once

#include <string>

#include "traces/run_record.h"

namespace tpu::traces {

/// Writes the events of a run as Chrome JSON (the trace event format), for small runs and viewers
/// that read nothing else: a process for each core; steps, ops, waits and DMAs as complete events,
/// rates of the HBM as counters. Times are microseconds, exact cycles are arguments.
void export_chrome(const RunRecord& record, const std::string& path);

}  // namespace tpu::traces
