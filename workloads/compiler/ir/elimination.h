#pragma once

#include <cstdint>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A custom call f32[..., n, n] -> f32[..., n, n], with n up to the lanes of a register: Gaussian
/// elimination in place, without pivots. Of matrices L D U, with ones on the diagonals of L and U,
/// what it makes has the rows of D U on and above the diagonal and those of the inverse of L below
/// it. So of a symmetric matrix it has the factor of Cholesky and that factor's inverse, of a lower
/// triangle its inverse, but for the rows' scales.
constexpr const char* kElimination = "tpusim.Elimination";
constexpr std::int64_t kMostEliminatedRows = 128;

inline bool is_elimination(const hlo::HloInstruction& instruction) {
  return instruction.opcode == hlo::HloOpcode::kCustomCall &&
         instruction.custom_call_target.get() == kElimination;
}

}  // namespace tpu::compiler
