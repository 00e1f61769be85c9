#pragma once

#include "traces/hdf5_file.h"
#include "traces/run_record.h"

namespace tpu::traces {

/// The critical path of a run (models/critical_path.h) as the tables `critical_path`,
/// `free_resources` and `op_critical_path` of its file, and back. A record without one has none.
void add_critical_path(const CriticalPath& path, Hdf5Contents& contents);
CriticalPath critical_path_of(const Hdf5Contents& contents);

}  // namespace tpu::traces
