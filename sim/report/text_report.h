#pragma once

#include <string>
#include <vector>

#include "sim/report/json_report.h"
#include "sim/report/summary.h"

namespace tpu::report {

/// How a report is drawn.
struct TextStyle {
  bool unicode = true;  ///< Bars of block characters; otherwise of '#'.
  int width = 100;      ///< Columns of the terminal.
};

/// The report of a run for a reader at a terminal.
std::string text_report(const traces::RunRecord& record, const Summary& summary,
                        const SimulatorCost& cost, const TextStyle& style);

/// Machines and results side by side.
std::string comparison_report(const std::vector<traces::RunRecord>& records,
                              const std::vector<Summary>& summaries,
                              const std::vector<SimulatorCost>& costs, const TextStyle& style);

/// "1,234,567".
std::string grouped(std::uint64_t number);
/// A quantity with three or four significant digits: "0.0123", "12.3", "1,234".
std::string short_number(double value);
/// "1.23 GiB".
std::string short_bytes(double bytes);

}  // namespace tpu::report
