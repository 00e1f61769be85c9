#pragma once

#include <string>
#include <vector>

#include "sim/report/json_report.h"

namespace tpu::report {

/// An all-reduce of a step, as a mean over cores and steps.
struct AllReduceTime {
  std::string name;
  double exposed_ms = 0;  ///< In its kernels, waits for the links and for late cores included.
  /// Of kernels that compute between its first kernel and its last: what of its way over the links
  /// is hidden takes no longer than that. 0 where the core waits for all of it.
  double beside_ms = 0;
};
/// In the order of the program.
std::vector<AllReduceTime> all_reduce_times(const traces::RunRecord& record,
                                            const Summary& summary);

/// A table of them, where some go on beside other kernels; else nothing.
std::string all_reduces_text(const traces::RunRecord& record, const Summary& summary);
/// The same as the key `all_reduces`.
Json all_reduces_json(const traces::RunRecord& record, const Summary& summary);

}  // namespace tpu::report
