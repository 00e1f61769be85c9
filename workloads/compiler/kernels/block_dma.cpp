#include "workloads/compiler/kernels/block_dma.h"

#include <algorithm>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"

namespace tpu::compiler {

BlockDma::BlockDma(KernelBuilder& builder, bool to_vmem, const BlockShape& shape)
    : builder_(builder),
      to_vmem_(to_vmem),
      shape_(shape),
      contiguous_(shape.matrices == 1 && shape.column_blocks() == 1 &&
                  shape.block_columns == shape.columns) {
  if (contiguous_) return;
  DmaShape dma;
  if (shape.matrices > 1) {
    TPU_CHECK(shape.block_rows >= shape.rows && shape.block_columns == shape.columns,
              "a block of several matrices has them whole");
    dma.granules = shape.matrices * shape.matrix_granules();
    dma.hbm_run = dma.vmem_run = shape.matrix_granules();
    dma.hbm_stride = shape.matrix_stride;
    dma.vmem_stride = shape.block_rows * shape.block_columns * shape.tile_granules;
    descriptor_ = builder.descriptor(to_vmem, dma);
    return;
  }
  const std::uint32_t run = std::min(shape.block_columns, shape.columns) * shape.tile_granules;
  dma.granules = run * std::min(shape.block_rows, shape.rows);
  dma.hbm_stride = shape.columns * shape.tile_granules;
  dma.hbm_run = run;
  dma.vmem_stride = shape.block_columns * shape.tile_granules;
  dma.vmem_run = run;
  // A descriptor that keeps its runs however small the block.
  dma.keep_runs = true;
  descriptor_ = builder.descriptor(to_vmem, dma);
}

ScalarOperand BlockDma::extent(SReg block, std::uint32_t tiles, std::uint32_t block_tiles) {
  const std::uint32_t blocks = ceil_divide(tiles, block_tiles);
  const std::uint32_t last = tiles - (blocks - 1) * block_tiles;
  if (blocks == 1) return last;
  if (last == block_tiles) return block_tiles;
  return builder_.select(builder_.equal(block, blocks - 1), last, block_tiles);
}

ScalarOperand BlockDma::granules(SReg row_block, SReg column_block) {
  if (shape_.matrices > 1) return shape_.matrices * shape_.matrix_granules();
  const ScalarOperand rows = extent(row_block, shape_.rows, shape_.block_rows);
  const ScalarOperand columns = extent(column_block, shape_.columns, shape_.block_columns);
  if (!rows.reg && !columns.reg) return rows.immediate * columns.immediate * shape_.tile_granules;
  if (!columns.reg) return builder_.mul(rows.reg, columns.immediate * shape_.tile_granules);
  const SReg run = builder_.mul(columns.reg, shape_.tile_granules);
  if (!rows.reg) return builder_.mul(run, rows.immediate);
  return builder_.multiply(run, rows.reg);
}

void BlockDma::start(SReg hbm, SReg row_block, SReg column_block, const VmemAddress& vmem,
                     ScalarOperand flag) {
  SReg address = hbm;
  const std::uint32_t tile = shape_.tile_granules;
  if (row_block) {
    address =
        builder_.add(address, builder_.mul(row_block, shape_.block_rows * shape_.columns * tile));
  }
  if (column_block) {
    address = builder_.add(address, builder_.mul(column_block, shape_.block_columns * tile));
  }
  const ScalarOperand size = granules(row_block, column_block);
  if (contiguous_) {
    to_vmem_ ? builder_.dma_in(address, vmem, size, flag)
             : builder_.dma_out(vmem, address, size, flag);
    return;
  }
  const ScalarOperand columns = extent(column_block, shape_.columns, shape_.block_columns);
  if (columns.reg) {
    const SReg run = builder_.mul(columns.reg, tile);
    builder_.set_runs(descriptor_, builder_.or_(run, (shape_.columns * tile) << 16),
                      builder_.or_(run, (shape_.block_columns * tile) << 16));
  }
  builder_.start(descriptor_, address, vmem, flag, size);
}

}  // namespace tpu::compiler
