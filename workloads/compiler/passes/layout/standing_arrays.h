#pragma once

#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Whether none of the arrays has to stand in memory: made of broadcasts, numbers of places and
/// operations on each other, and read by those and reductions alone. `users`: of each instruction.
bool stand_nowhere(const hlo::Computation& computation,
                   const std::vector<std::vector<hlo::InstructionId>>& users,
                   const std::vector<hlo::InstructionId>& arrays);

}  // namespace tpu::compiler
