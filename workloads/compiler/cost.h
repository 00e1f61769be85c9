#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What the passes and the kernels' searches weigh against each other: one place for each figure.
/// `tests/compiler/cost_test.cpp` compiles kernels, runs them and compares.

/// What an elementwise operation on a register of 1024 f32 elements takes of the vector unit; 0 for
/// what is no such operation, or takes no time.
struct VectorCost {
  double cycles = 0;        ///< Among other such operations, what they wait for included.
  double instructions = 0;  ///< Of the vector ALUs, two a cycle: all that counts beside products.

  VectorCost& operator+=(const VectorCost& other) {
    cycles += other.cycles;
    instructions += other.instructions;
    return *this;
  }
};
VectorCost vector_cost(hlo::HloOpcode opcode);
inline double vector_cycles(hlo::HloOpcode opcode) { return vector_cost(opcode).cycles; }

/// A tile through the unit that adds lanes, and back; a tile loaded and added to another.
constexpr double kLaneSumCycles = 10;
constexpr double kSumCycles = 1;

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
