#pragma once

#include <vector>

#include "traces/hdf5_file.h"
#include "traces/run_record.h"

namespace tpu::traces {

/// What ops read as the table `op_operands`, and back; WorkloadError for an op that is not there.
Table op_operands_table(const std::vector<OpOperand>& operands);
std::vector<OpOperand> op_operands_of(const Hdf5Contents& contents, std::size_t ops);

}  // namespace tpu::traces
