#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What the passes and the kernels' searches weigh against each other: one place for each figure.
/// `tests/compiler/cost_test.cpp` compiles kernels, runs them and compares.

/// Of elementwise operations: columns of `workloads/graph/hlo_opcodes.def`.
using hlo::vector_cost;
using hlo::VectorCost;
inline double vector_cycles(hlo::HloOpcode opcode) { return vector_cost(opcode).cycles; }

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

/// Start and end of one more kernel: its call, the latency of its first and last DMAs.
constexpr double kKernelCycles = 1000;

/// What is left of the HBM's rate where reads and writes take turns.
constexpr double kMixedTrafficRate = 365.0 / 440;

/// Bytes of a copy to another order that pass in a cycle at best, however fast the HBM is: a
/// register of 4 KiB is loaded, turned and stored in eight.
constexpr double kTurnedBytesPerCycle = 512;

/// An element that a scatter puts into a vector in VMEM.
constexpr double kScatteredElementCycles = 8;

}  // namespace tpu::compiler
