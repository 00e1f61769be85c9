#pragma once

#include <cstdint>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/kernels/tiles/box_dma.h"

namespace tpu::compiler {

/// A matrix in HBM as tiles of 8x128, row after row of tiles, and the blocks of whole tiles that a
/// kernel moves between it and VMEM. In VMEM a block keeps its tiles row after row, `block_columns`
/// tiles to a row. The last blocks of each direction may be smaller.
struct BlockShape {
  std::uint32_t tile_granules = 4;      ///< 4: 32-bit elements, 2: bf16.
  std::uint32_t rows = 1, columns = 1;  ///< Tiles of the matrix.
  /// Where it has one row of tiles: granules of each that are moved, for the others hold no rows;
  /// 0: all.
  std::uint32_t granules_with_rows = 0;
  std::uint32_t block_rows = 1, block_columns = 1;
  /// The same block of several matrices: their distance in HBM. In VMEM each takes block_rows rows
  /// of tiles, or they stand abreast in the same rows, each with all its columns.
  std::uint32_t matrices = 1, matrix_stride = 0;
  bool abreast = false;

  std::uint32_t vmem_rows() const {
    return matrices * block_rows * block_columns * tile_granules * 2;
  }
  std::uint32_t row_blocks() const { return ceil_divide(rows, block_rows); }
  std::uint32_t column_blocks() const { return ceil_divide(columns, block_columns); }
  /// Of a block, on average.
  double mean_bytes() const {
    return double(matrices) * rows / row_blocks() * columns / column_blocks() * moved_of_tile() *
           1024;
  }
  std::uint32_t moved_of_tile() const {
    return granules_with_rows > 0 ? granules_with_rows : tile_granules;
  }
  std::uint32_t matrix_granules() const { return rows * columns * tile_granules; }
};

/// Moves such blocks: one DMA per block, or per matrix where blocks of several have gaps between
/// rows.
class BlockDma {
 public:
  /// Stores the constant words of a descriptor where one is needed: outside of loops.
  BlockDma(KernelBuilder& builder, bool to_vmem, const BlockShape& shape);

  /// Starts the DMA of the block at (row_block, column_block) of the matrix that begins at `hbm`;
  /// an absent index is 0.
  void start(SReg hbm, SReg row_block, SReg column_block, const VmemAddress& vmem,
             ScalarOperand flag);
  /// Its size.
  ScalarOperand granules(SReg row_block, SReg column_block);

 private:
  /// Tiles of the block along one direction, times a factor: a constant, or the last block's where
  /// it is smaller.
  ScalarOperand extent(SReg block, std::uint32_t tiles, std::uint32_t block_tiles,
                       std::uint32_t factor);
  ScalarOperand matrix_granules(SReg row_block, SReg column_block, std::uint32_t matrices);

  KernelBuilder& builder_;
  BlockShape shape_;
  BoxDma dma_;
};

}  // namespace tpu::compiler
