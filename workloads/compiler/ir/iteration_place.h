#pragma once

#include <cstdint>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Slices and updates in the body of a counted loop that stand where the number of the iteration
/// says: a dynamic-slice with one operand, a dynamic-update-slice with two, slice->starts as the
/// first iteration's place and slice->strides as the step, in elements.

/// Whether an iteration says the place of the instruction.
bool is_slice_of_iteration(const hlo::HloInstruction& instruction);
bool is_update_of_iteration(const hlo::HloInstruction& instruction);

/// Where a placed slice or update begins in its array.
struct IterationPlace {
  std::int64_t granule = 0;  ///< In the first iteration.
  std::int64_t step = 0;     ///< Granules from one iteration to the next.
};
IterationPlace iteration_place(const hlo::Computation& computation,
                               const hlo::HloInstruction& instruction);

}  // namespace tpu::compiler
