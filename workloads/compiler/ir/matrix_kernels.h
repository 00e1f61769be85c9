#pragma once

#include "workloads/compiler/ir/elimination.h"
#include "workloads/compiler/ir/rotations.h"

namespace tpu::compiler {

/// Custom calls from matrices to matrices that kernels of the compiler make, row by row: a function
/// of the operand alone.
inline bool is_matrix_kernel(const hlo::HloInstruction& instruction) {
  return is_elimination(instruction) || is_pivoted_elimination(instruction) ||
         is_reflections(instruction) || is_rotations(instruction);
}

}  // namespace tpu::compiler
