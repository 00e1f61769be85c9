#pragma once

#include <cstdint>

#include "workloads/graph/graph.h"

namespace tpu::hlo {

/// Bytes that an instruction has to move between HBM and the core, as HloCostAnalysis says; those
/// of fusions by what their computations read of each operand and write.
std::int64_t compulsory_bytes(const Module& module, const Computation& computation,
                              const HloInstruction& instruction);

}  // namespace tpu::hlo
