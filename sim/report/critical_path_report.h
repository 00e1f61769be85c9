#pragma once

#include <optional>
#include <string>

#include "sim/report/json_report.h"
#include "sim/report/text_layout.h"

namespace tpu::report {

/// What the step depends on, by resource, the greatest share first: share of the step, time on the
/// critical path, what a free one gains of the same program (models/critical_path.h).
std::string critical_path_text(const traces::RunRecord& record, const Summary& summary,
                               const TextStyle& style);

/// The same as the key `depends_on`.
Json critical_path_json(const traces::RunRecord& record, const Summary& summary);

/// Of an op: `path_ms` and `gain_ms` by resource, over all its executions; those of 0 left out.
Json op_path_json(const traces::RunRecord& record, std::uint32_t op);

/// Milliseconds of the mean step that a what-if's change gains when the program stays the same, as
/// the record of this run has it; nothing for changes that it knows nothing about.
std::optional<double> expected_gain_ms(const traces::RunRecord& record, const Summary& summary,
                                       const std::string& what_if);

/// The second bound of the roofline: the bytes that moved, not the compulsory ones, at the pin
/// rate.
double moved_bytes_ms(const MachineParams& params, const Summary& summary);

}  // namespace tpu::report
