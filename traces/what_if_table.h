#pragma once

#include <vector>

#include "traces/hdf5_file.h"
#include "traces/run_record.h"

namespace tpu::traces {

/// The what-ifs of a run as a table of its file, and back.
Table what_if_table(const std::vector<WhatIf>& rows);
std::vector<WhatIf> what_if_of(const Table& table);

}  // namespace tpu::traces
