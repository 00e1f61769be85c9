#pragma once

#include <cstdint>

#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/kernels/tiles/index.h"

namespace tpu::compiler {

/// How blocks of a table go through VMEM, so that the HBM is at its rate: some together in a
/// buffer, large ones piece by piece.
struct BlockGroups {
  std::int64_t block = 1;     ///< Granules.
  std::int64_t piece = 1;     ///< Those that are moved at a time, a divisor of all.
  std::int64_t together = 1;  ///< Blocks in a buffer, a power of two.

  struct Limits {
    std::int64_t unit = 1;           ///< Pieces are multiples of so many granules.
    std::int64_t piece = 1;          ///< Granules of a piece, at most.
    std::int64_t buffer = 1;         ///< Granules of a buffer, at most.
    std::int64_t most_together = 1;  ///< Blocks of a buffer, at most.
  };

  BlockGroups(std::int64_t block_granules, std::int64_t count, const Limits& limits);

  /// Granules that a group of so many blocks in all moves: the last one may have fewer.
  ScalarOperand granules(KernelBuilder& builder, Index group, std::int64_t blocks) const;
  /// The pieces of a group where its blocks follow each other.
  StridedBox box() const;
};

}  // namespace tpu::compiler
