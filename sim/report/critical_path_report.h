#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/report/json_report.h"
#include "sim/report/text_layout.h"

namespace tpu::report {

/// Why the step takes as long as it does: a resource, its share of the step, its time on the
/// critical path, what a free one gains of the same program (models/critical_path.h).
struct Cause {
  Resource resource = Resource::kMxu;
  double share = 0;
  double path_ms = 0;
  double gain_ms = 0;
};
/// Of all resources, the greatest share first: that is the order of what the what-ifs gain. Shares
/// add up to 1.
std::vector<Cause> causes_of(const traces::RunRecord& record, const Summary& summary);

/// The same as a table.
std::string causes_text(const traces::RunRecord& record, const Summary& summary,
                        const TextStyle& style);
/// The same as the key `causes`.
Json causes_json(const traces::RunRecord& record, const Summary& summary);

/// Of an op: shares as `causes`, `path_ms` and `gain_ms` by resource, over all its executions;
/// those of 0 left out.
Json op_causes_json(const traces::RunRecord& record, const OpSummary& op);

/// Milliseconds of the mean step that a what-if's change gains when the program stays the same, as
/// the record of this run has it; nothing for changes that it knows nothing about.
std::optional<double> expected_gain_ms(const traces::RunRecord& record, const Summary& summary,
                                       const std::string& what_if);

/// A change of the machine, and the milliseconds of the mean step that it gains when the program
/// stays the same.
struct SameProgramGain {
  std::string what_if;
  double gain_ms = 0;
};
/// Of the changes that make sense for the run, most gain first: every run has them without being
/// simulated again.
std::vector<SameProgramGain> same_program_gains(const traces::RunRecord& record,
                                                const Summary& summary);

/// The second bound of the roofline: the bytes that moved, not the compulsory ones, at the pin
/// rate.
double moved_bytes_ms(const MachineParams& params, const Summary& summary);

}  // namespace tpu::report
