#pragma once

#include <string>
#include <vector>

#include "sim/report/json_report.h"

namespace tpu::report {

/// A collective of a step, as a mean over cores and steps.
struct AllReduceTime {
  std::string name;
  double exposed_ms = 0;  ///< In its kernels, waits for the links and for late cores included.
  /// What it sends is under way while the core executes other kernels.
  double hidden_ms = 0;
  /// Of kernels that compute between its first kernel and its last. 0 where the core waits for all
  /// of it.
  double beside_ms = 0;
};
/// In the order of the program: all-reduces, and what cores reduce, scatter, gather or exchange in
/// other ways.
std::vector<AllReduceTime> all_reduce_times(const traces::RunRecord& record,
                                            const Summary& summary);
/// The sum of all, without a name.
AllReduceTime all_reduce_sum(const std::vector<AllReduceTime>& times);
/// Whether this is what a category of operations calls a collective.
bool is_collective(const std::string& category);

/// The sum in a line, and a table of them where some go on beside other kernels; nothing where
/// there are none.
std::string all_reduces_text(const traces::RunRecord& record, const Summary& summary);
/// The same as the key `all_reduces`.
Json all_reduces_json(const traces::RunRecord& record, const Summary& summary);

}  // namespace tpu::report
