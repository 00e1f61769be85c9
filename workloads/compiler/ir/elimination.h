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

/// A custom call f32[..., m, n] -> f32[..., m, n + 2]: elimination with partial pivoting, so that
/// rows stand in another order than the given one. L, whose diagonal of ones is left out, and U;
/// beside them the number of each row before, and, in the rows of pivots, with which row each
/// changed places; numbers as f32.
constexpr const char* kPivotedElimination = "tpusim.PivotedElimination";
constexpr std::int64_t kMostPivotedColumns = 126;

/// A custom call f32[..., m, n] -> f32[..., m, n + 1]: Householder's reflections of all columns.
/// What they leave on and above the diagonal, their vectors below it, whose first element is 1; in
/// the column beside it their factors.
constexpr const char* kReflections = "tpusim.Reflections";
constexpr std::int64_t kMostReflectedColumns = 127;

/// Of both; their code is unrolled.
constexpr std::int64_t kMostFactorizedRows = 512;

inline bool is_pivoted_elimination(const hlo::HloInstruction& instruction) {
  return instruction.opcode == hlo::HloOpcode::kCustomCall &&
         instruction.custom_call_target.get() == kPivotedElimination;
}
inline bool is_reflections(const hlo::HloInstruction& instruction) {
  return instruction.opcode == hlo::HloOpcode::kCustomCall &&
         instruction.custom_call_target.get() == kReflections;
}

}  // namespace tpu::compiler
