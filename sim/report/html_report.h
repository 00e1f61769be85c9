#pragma once

#include <string>
#include <vector>

#include "sim/report/json_report.h"

namespace tpu::report {

/// A page that needs nothing else, of one run or several: step time by cause, utilisation over
/// time, roofline, ops, memory, what-ifs, the parameters that differ. The page is
/// `report_page.html` of this folder; this is what it draws.
std::string html_report(const std::vector<traces::RunRecord>& records,
                        const std::vector<Summary>& summaries);

/// The data of the page.
Json html_data(const std::vector<traces::RunRecord>& records,
               const std::vector<Summary>& summaries);

}  // namespace tpu::report
