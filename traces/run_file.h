#pragma once

#include <string>

#include "traces/hdf5_file.h"
#include "traces/run_record.h"

namespace tpu::traces {

/// Everything of a record as tables: what a results file holds.
Hdf5Contents run_contents(const RunRecord& record);

/// Writes the results of a run; the same record gives the same bytes.
void write_run_file(const std::string& path, const RunRecord& record);

/// Reads it back; throws WorkloadError for a file that is none, cut, changed or of another version.
RunRecord read_run_file(const std::string& path);

}  // namespace tpu::traces
