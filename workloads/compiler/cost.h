#pragma once

#include <algorithm>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What the passes and the kernels' searches weigh against each other: one place for each figure.
/// `tests/compiler/cost_test.cpp` compiles kernels, runs them and compares.

/// Of elementwise operations: columns of `workloads/graph/hlo_opcodes.def`.
using hlo::vector_cost;
using hlo::VectorCost;
inline double vector_cycles(hlo::HloOpcode opcode) { return vector_cost(opcode).cycles; }
/// A Newton step behind vrcp or vrsqrt, which bf16 does without in these operations.
constexpr VectorCost kNewtonStep{5, 8};
constexpr bool is_short_in_bf16(hlo::HloOpcode opcode) {
  return opcode == hlo::HloOpcode::kDivide || opcode == hlo::HloOpcode::kLogistic ||
         opcode == hlo::HloOpcode::kSqrt;
}
inline VectorCost vector_cost(hlo::HloOpcode opcode, hlo::ElementType type) {
  const VectorCost cost = vector_cost(opcode);
  if (type != hlo::ElementType::kBf16 || !is_short_in_bf16(opcode)) return cost;
  return {std::max(0.5, cost.cycles - kNewtonStep.cycles),
          std::max(1.0, cost.instructions - kNewtonStep.instructions)};
}

/// A tile through the unit that adds lanes, and back; a tile loaded and added to another.
constexpr double kLaneSumCycles = 10;
constexpr double kSumCycles = 1;
/// A register of sums that becomes one row: kept until the end, and its sublanes added then. Of
/// products of small matrices with the batch in the lanes 12 with their products, 10 without.
constexpr double kRowSumCycles = 10;

/// What passes over a block need of each tile is kept in VMEM from where it takes so long; it takes
/// a store and a load then.
constexpr double kLeastKeptCycles = 4;
constexpr double kKeptCycles = 1;

/// Eight numbers from the lanes of a vector to the sublanes of a register, each in all of its
/// lanes; and back.
constexpr double kSpreadRowsCycles = 8.5;
constexpr double kRowsToLanesCycles = 3;

/// A register turned in its lanes, among others.
constexpr double kTurnedLanesCycles = 10;
constexpr double kCombinedRowsCycles = 5;  ///< Of a register: its rows rotated and combined.
constexpr double kCombinedRowsInstructions = 10;

/// Start and end of one more kernel: its call, the latency of its first and last DMAs.
constexpr double kKernelCycles = 1000;

/// Sums of a reduction in VMEM: as added, as results, as they leave; their share of it, for the
/// rest is for what is read.
constexpr double kCopiesOfSums = 4;
constexpr double kRoomForSums = 0.75;

/// What is left of the HBM's rate where reads and writes take turns.
constexpr double kMixedTrafficRate = 365.0 / 440;

/// Bytes of a copy to another order that pass in a cycle at best, however fast the HBM is: a
/// register of 4 KiB is loaded, turned and stored in eight.
constexpr double kTurnedBytesPerCycle = 512;

/// An element that a scatter puts into a vector in VMEM.
constexpr double kScatteredElementCycles = 8;

/// A step of a loop over the columns of matrices that is one kernel: its latency, a register of
/// what it changes, one of which it takes a column.
constexpr double kColumnStepCycles = 320;
constexpr double kEliminatedRegisterCycles = 12;
constexpr double kColumnRegisterCycles = 2.5;
/// The same of LU, which searches the column for its pivot; with rows in the lanes, eight columns
/// are summed along them.
constexpr double kPivotStepCycles = 650;
constexpr double kPivotRegisterCycles = 46;
constexpr double kPivotGroupCycles = 60;
/// The same of QR; the reflection of each further matrix. A register that is reflected only.
constexpr double kReflectionStepCycles = 500;
constexpr double kReflectionRegisterCycles = 18;
constexpr double kReflectionCycles = 200;
constexpr double kReflectedRegisterCycles = 7;
/// A row of a matrix that is brought by its number.
constexpr double kGatheredRowCycles = 4;

/// A product of f32 matrices in their bf16 parts: passes of the MXUs, and what each matrix takes
/// beside them: its first weights, its last results (chosen with 33 factorizations of 128 to 1024
/// rows in view).
constexpr double kPreciseProducts = 6;
constexpr double kPreciseMatrixCycles = 1000;

}  // namespace tpu::compiler
