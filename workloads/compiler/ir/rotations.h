#pragma once

#include <cstdint>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A custom call f32[..., n, n] -> f32[..., n + 1, n], with n even and up to the lanes of a
/// register: sweeps of Jacobi's rotations of symmetric matrices. The last row has the eigenvalues,
/// the columns above it the eigenvectors.
constexpr const char* kRotations = "tpusim.Rotations";
constexpr std::int64_t kMostRotatedRows = 128;

inline bool is_rotations(const hlo::HloInstruction& instruction) {
  return instruction.opcode == hlo::HloOpcode::kCustomCall &&
         instruction.custom_call_target.get() == kRotations;
}

/// Each turns half as many pairs of rows as there are rows, at once: n - 1 of them turn all pairs.
/// Three sweeps over all pairs, and one more for each doubling of the matrix.
inline std::int64_t rotation_steps(std::int64_t rows) {
  std::int64_t sweeps = 3;
  while (std::int64_t{1} << (sweeps - 3) < rows) ++sweeps;
  return sweeps * (rows - 1);
}

}  // namespace tpu::compiler
