#pragma once

#include <string>
#include <vector>

#include "sim/report/json_report.h"
#include "sim/report/op_groups.h"
#include "sim/report/text_layout.h"

namespace tpu::report {

/// Operations of two runs that do the same work, by their place in the user's program.
struct OpDifference {
  std::string name;  ///< Scope of the framework, or the operation's own name where it has none.
  /// Of the result, without layout; of its largest array alone, "[8,64]", where runs agree in no
  /// more; empty where they agree by scope alone.
  std::string shape;
  bool in_first = false, in_second = false;
  ByResource first{}, second{};  ///< us of a step by cause, mean of the cores.
  std::size_t places = 1;        ///< Of the user's program, whose scopes differ in numbers alone.
  double change() const { return total(second) - total(first); }
};

/// Where the difference of two runs' steps comes from. Operations are matched by scope and shape,
/// what is left by scope and the largest array of the shape, then by scope and by the scope around
/// it, so that runs of different machines,
/// compilers and versions can be held against each other; what only one of them has stands alone.
/// Where that matches less than a quarter of the time, the runs are of programs that call the same
/// by other names: then by backward pass or not, category and largest array, and by the first two.
/// The time outside operations is the last row. The rows add up to the difference: times are those
/// of a step, in the mean over the cores, from the begin of the first step that counts to the end
/// of the run.
struct RunDifference {
  std::vector<OpDifference> ops;         ///< Largest change first.
  std::vector<OpDifference> categories;  ///< The same by category of operations.
  bool by_scope = true;                  ///< Else the names of the runs have too little in common.
  ByResource first{}, second{};
  double change() const { return total(second) - total(first); }
};

RunDifference difference_of(const traces::RunRecord& first, const traces::RunRecord& second);

/// The rows of a difference, those as one whose scopes differ in numbers alone; largest change
/// first.
std::vector<OpDifference> alike_differences(const std::vector<OpDifference>& ops);

std::string diff_text(const traces::RunRecord& first, const traces::RunRecord& second,
                      const std::vector<std::string>& names, const TextStyle& style);
Json diff_json(const traces::RunRecord& first, const traces::RunRecord& second,
               const std::vector<std::string>& names);

}  // namespace tpu::report
