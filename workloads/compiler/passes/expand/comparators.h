#pragma once

#include <optional>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// One of the values by which a comparator orders elements.
struct OrderingTerm {
  hlo::InstructionId value = -1;  ///< In the comparator: what it computes of the left element.
  bool descends = false;
  bool is_total = false;  ///< Zeros and NaNs differ by their signs; else zeros are equal.
};

/// The values that a comparator of a sort orders by, the first one first, where it is such an
/// order: each is computed of one element alone, in the same way of both, and how the computation
/// combines their comparisons is of no matter, for it is asked for all outcomes of them.
std::optional<std::vector<OrderingTerm>> ordering_terms(const hlo::Computation& comparator);

}  // namespace tpu::compiler
