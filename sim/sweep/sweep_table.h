#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/sweep/point_store.h"
#include "sim/sweep/sweep_plan.h"
#include "traces/hdf5_file.h"

namespace tpu::sweep {

/// A row for each point in the plan's order: `point` (from 1), its settings (numbers where all
/// are), `state` (done, failed, missing), `error`, figures. What a row has not is empty, or NaN.
traces::Table sweep_table(const Plan& plan, const std::vector<std::optional<PointResult>>& results);

/// Writes the table in the form that the ending of the name says: .csv, .h5 or .html. UsageError
/// for another.
void write_sweep_table(const std::string& path, const Plan& plan, const traces::Table& table);
/// The UsageError, before anything runs.
void check_table_name(const std::string& path);

}  // namespace tpu::sweep
