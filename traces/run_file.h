#pragma once

#include <string>

#include "traces/run_record.h"

namespace tpu::traces {

/// Writes the results of a run; the same record gives the same bytes.
void write_run_file(const std::string& path, const RunRecord& record);

/// Reads it back; throws WorkloadError for a file that is none, cut, changed or of another version.
RunRecord read_run_file(const std::string& path);

}  // namespace tpu::traces
