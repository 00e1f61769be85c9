#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sim/report/text_layout.h"
#include "traces/run_record.h"

namespace tpu::report {

/// A training as a section of the report: how long, what a step takes from end to end and how far
/// that spreads, where the time goes, which shapes there are. Empty where the run has none.
std::string training_text(const traces::RunRecord& record, const TextStyle& style);

/// The same for `--json`; null where the run has none.
nlohmann::ordered_json training_json(const traces::RunRecord& record);

}  // namespace tpu::report
