#pragma once

#include <vector>

#include "models/machine.h"
#include "traces/hdf5_file.h"

namespace tpu::traces {

/// The accounts of parts beside the cores as the table `parts`, a row for each thing that one does,
/// and back.
Table part_table(const std::vector<PartAccount>& parts);
/// What moved through their channels as the table `hbm_channels`, a row for each stretch of each.
Table hbm_channel_table(const std::vector<PartAccount>& parts);
std::vector<PartAccount> parts_of(const Table& table, const Table& channels);

}  // namespace tpu::traces
