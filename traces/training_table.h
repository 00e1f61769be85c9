#pragma once

#include <optional>

#include "traces/hdf5_file.h"
#include "traces/run_record.h"

namespace tpu::traces {

/// The tables of a training: `training`, `training_shapes`, `training_causes`, `training_steps`;
/// without rows where the run has none.
void add_training(const std::optional<Training>& training, Hdf5Contents& contents);
std::optional<Training> training_of(const Hdf5Contents& contents);

}  // namespace tpu::traces
