#pragma once

#include <cstdint>
#include <vector>

#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/relayout_boxes.h"

namespace tpu::compiler {

/// Runs of tiles of one operand.
struct TileMove {
  int source = 0;  ///< Operand.
  TileRuns runs;
};

/// A kernel of DMAs alone: whole tiles go through VMEM, four buffers in turn, two loads ahead.
/// `fill` (with `fills`) is stored in every granule of the result before.
LoweredKernel emit_tile_moves(const std::string& name, const std::vector<TileMove>& moves,
                              int result_operand, std::uint64_t result_granules, bool fills,
                              std::uint32_t fill, const Target& target);

}  // namespace tpu::compiler
