#pragma once

#include <cstdint>
#include <vector>

#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/relayout/relayout_boxes.h"

namespace tpu::compiler {

/// A distance that a number in HBM decides: clamped to 0 ... `last`, times `stride` granules.
struct TileOffset {
  int operand = 0;  ///< A scalar s32 or u32.
  std::int64_t last = 0, stride = 0;
  bool moves_target = false;  ///< The place in the result moves, not that in the source.
};

/// Runs of tiles of one operand.
struct TileMove {
  int source = 0;  ///< Operand.
  TileRuns runs;
  std::vector<TileOffset> offsets;
};

/// A kernel of DMAs alone: whole tiles go through VMEM, four buffers in turn, two loads ahead.
/// What the buffers hold all at once goes by loads of everything, then stores of everything.
/// Numbers that decide where to come first, by a DMA into SMEM each.
/// `fill` (with `fills`) is stored in every granule of the result before.
LoweredKernel emit_tile_moves(const std::string& name, const std::vector<TileMove>& moves,
                              int result_operand, std::uint64_t result_granules, bool fills,
                              std::uint32_t fill, const Target& target);

}  // namespace tpu::compiler
