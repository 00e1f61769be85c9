#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The lower bits that an integer of 32 bits may have set, as far as what makes it says: selections
/// between constants, masks, counters, numbers of what is true. 32: all.
int width_of(const hlo::Computation& computation, hlo::InstructionId integer);

}  // namespace tpu::compiler
