#pragma once

#include <string>
#include <vector>

#include "sim/report/json_report.h"
#include "sim/report/summary.h"
#include "sim/report/text_layout.h"

namespace tpu::report {

/// The report of a run for a reader at a terminal.
std::string text_report(const traces::RunRecord& record, const Summary& summary,
                        const SimulatorCost& cost, const TextStyle& style);

/// Machines and results side by side.
std::string comparison_report(const std::vector<traces::RunRecord>& records,
                              const std::vector<Summary>& summaries,
                              const std::vector<SimulatorCost>& costs, const TextStyle& style);

}  // namespace tpu::report
