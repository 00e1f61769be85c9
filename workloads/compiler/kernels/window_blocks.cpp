#include "workloads/compiler/kernels/window_blocks.h"

#include <algorithm>

namespace tpu::compiler {

WindowBlocks::WindowBlocks(KernelBuilder& builder, bool to_vmem, const WindowShape& shape)
    : builder_(builder), to_vmem_(to_vmem), shape_(shape) {
  if (shape.block_columns == shape.columns) return;
  DmaShape dma;
  dma.granules = std::min(shape.rows, shape.block_rows) * shape.block_columns * shape.tile_granules;
  dma.hbm_run = shape.block_columns * shape.tile_granules;
  dma.hbm_stride = shape.columns * shape.tile_granules;
  dma.keep_runs = true;
  descriptor_ = builder.descriptor(to_vmem, dma);
}

/// Granules of one position, times a factor.
ScalarOperand WindowBlocks::position_granules(SReg row_block, std::uint32_t factor) {
  const std::uint32_t row = factor * shape_.block_columns * shape_.tile_granules;
  const std::uint32_t blocks = (shape_.rows + shape_.block_rows - 1) / shape_.block_rows;
  const std::uint32_t last = shape_.rows - (blocks - 1) * shape_.block_rows;
  if (blocks == 1 || last == shape_.block_rows)
    return std::min(shape_.rows, shape_.block_rows) * row;
  return builder_.select(builder_.equal(row_block, blocks - 1), last * row,
                         shape_.block_rows * row);
}

ScalarOperand WindowBlocks::granules(SReg row_block) {
  return position_granules(row_block, shape_.positions);
}

void WindowBlocks::start(SReg hbm, SReg row_block, SReg column_block, const VmemAddress& vmem,
                         ScalarOperand flag) {
  const std::uint32_t tile = shape_.tile_granules;
  const ScalarOperand size = position_granules(row_block, 1);
  if (row_block) {
    hbm = builder_.add(hbm, builder_.mul(row_block, shape_.block_rows * shape_.columns * tile));
  }
  if (column_block) {
    hbm = builder_.add(hbm, builder_.mul(column_block, shape_.block_columns * tile));
  }
  const SReg flag_reg = flag.reg ? flag.reg : builder_.constant(flag.immediate);
  builder_.new_block();
  builder_.loop(shape_.positions, [&](SReg position) {
    const SReg address =
        builder_.add(hbm, builder_.mul(position, shape_.rows * shape_.columns * tile));
    SReg row = builder_.mul(position, shape_.block_rows * shape_.block_columns * tile * 2);
    if (vmem.base) row = builder_.add(row, vmem.base);
    const VmemAddress place(vmem.region, vmem.offset, row);
    if (descriptor_) {
      builder_.start(*descriptor_, address, place, flag_reg, size);
    } else if (to_vmem_) {
      builder_.dma_in(address, place, size, flag_reg);
    } else {
      builder_.dma_out(place, address, size, flag_reg);
    }
  });
}

}  // namespace tpu::compiler
