#pragma once

#include <string>
#include <vector>

#include "sim/report/json_report.h"
#include "sim/report/text_layout.h"

namespace tpu::report {

/// The table of a run's what-ifs, most gain first, and what follows from it in words. Empty for a
/// run without any.
std::string what_if_text(const traces::RunRecord& record, const Summary& summary);

/// The same as the key `what_if`: `name`, `settings`, `step_time_ms`, `gain_ms`, `gain`,
/// `examples_per_s`, `problem`, and the sentences as `advice`.
Json what_if_json(const traces::RunRecord& record, const Summary& summary);

/// Sentences that follow from the table alone.
std::vector<std::string> advice(const traces::RunRecord& record, const Summary& summary);

}  // namespace tpu::report
