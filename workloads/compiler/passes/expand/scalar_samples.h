#pragma once

#include <optional>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Runs a computation of scalars (a reducer, a comparator) on numbers: what it does shows in its
/// results, however it is written. Nothing when it holds an operation that scalar_result() does not
/// know.
std::optional<std::vector<double>> run_scalars(const hlo::Computation& computation,
                                               const std::vector<double>& arguments);

/// How a comparator of a sort orders its first operand.
enum class SortOrder { kUnknown, kAscending, kDescending };
/// kUnknown where the order depends on more than the first operand.
SortOrder sort_order(const hlo::Computation& comparator);

/// What a reduction of (value, index) pairs keeps.
struct PairReducer {
  bool is_known = false;       ///< It keeps one of the two.
  bool greatest = false;       ///< Else the least value.
  bool last_of_equal = false;  ///< Of equal values the greatest index, else the least.
  bool keeps_nan = false;      ///< A NaN stands before all numbers, the first of several.
};
PairReducer pair_reducer(const hlo::Computation& reducer);

}  // namespace tpu::compiler
