#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/report/summary.h"

namespace tpu::report {

/// A parameter that differs between machines.
struct ParameterDifference {
  std::string path;
  std::string unit;
  std::vector<std::string> values;  ///< One per machine.
};
std::vector<ParameterDifference> differing_parameters(
    const std::vector<traces::RunRecord>& records);

/// Dollars an hour of the slice; nothing for a run on a part of one, and where nothing was sold.
std::optional<double> whole_slice_price(const traces::RunRecord& record);

/// A result of each run, side by side.
struct ResultRow {
  std::string name;  ///< As a key: "step_time_ms".
  std::string label;
  std::vector<double> values;  ///< Not a number where a run does not have it.
  const char* missing = "";    ///< Why.
};
std::vector<ResultRow> result_rows(const std::vector<traces::RunRecord>& records,
                                   const std::vector<Summary>& summaries);

}  // namespace tpu::report
