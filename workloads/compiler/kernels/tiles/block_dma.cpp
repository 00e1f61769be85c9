#include "workloads/compiler/kernels/tiles/block_dma.h"

#include <algorithm>

#include "workloads/compiler/kernels/tiles/index.h"

namespace tpu::compiler {

namespace {

/// Several whole matrices are the pieces of one box.
bool is_one_box(const BlockShape& shape) {
  return shape.matrices > 1 && !shape.abreast && shape.granules_with_rows == 0 &&
         shape.block_rows >= shape.rows && shape.block_columns == shape.columns &&
         std::max(shape.matrix_stride, shape.vmem_rows() / 2 / shape.matrices) <= kLargestStride;
}

BoxDma box_dma(KernelBuilder& builder, bool to_vmem, const BlockShape& shape) {
  const std::uint32_t vmem_matrix = shape.vmem_rows() / shape.matrices;
  if (is_one_box(shape)) {
    const StridedBox box{shape.matrix_granules(), shape.matrices, shape.matrix_stride,
                         vmem_matrix / 2};
    return {builder, to_vmem, box};
  }
  const std::uint32_t tile = shape.tile_granules;
  const std::uint32_t vmem_row = shape.block_columns * tile;
  const BoxDma::Boxes matrices{shape.matrices, shape.matrix_stride,
                               shape.abreast ? 2 * vmem_row : vmem_matrix};
  if (shape.granules_with_rows > 0) {
    const StridedBox parts{shape.granules_with_rows, std::min(shape.block_columns, shape.columns),
                           tile, tile};
    return {builder, to_vmem, parts, matrices};
  }
  const StridedBox box{std::min(shape.block_columns, shape.columns) * tile,
                       std::min(shape.block_rows, shape.rows), shape.columns * tile,
                       shape.abreast ? shape.matrices * vmem_row : vmem_row};
  return {builder, to_vmem, box, matrices,
          shape.columns % shape.block_columns != 0 && shape.column_blocks() > 1};
}

}  // namespace

BlockDma::BlockDma(KernelBuilder& builder, bool to_vmem, const BlockShape& shape)
    : builder_(builder), shape_(shape), dma_(box_dma(builder, to_vmem, shape)) {}

ScalarOperand BlockDma::extent(SReg block, std::uint32_t tiles, std::uint32_t block_tiles,
                               std::uint32_t factor) {
  return extent_of_block(builder_, {block, 0}, tiles, block_tiles, factor);
}

ScalarOperand BlockDma::matrix_granules(SReg row_block, SReg column_block, std::uint32_t matrices) {
  const std::uint32_t tile = matrices * shape_.moved_of_tile();
  const ScalarOperand columns = extent(column_block, shape_.columns, shape_.block_columns, tile);
  if (!columns.reg) return extent(row_block, shape_.rows, shape_.block_rows, columns.immediate);
  const ScalarOperand rows = extent(row_block, shape_.rows, shape_.block_rows, 1);
  if (!rows.reg) return builder_.mul(columns.reg, rows.immediate);
  return builder_.multiply(columns.reg, rows.reg);
}

ScalarOperand BlockDma::granules(SReg row_block, SReg column_block) {
  return matrix_granules(row_block, column_block, shape_.matrices);
}

void BlockDma::start(SReg hbm, SReg row_block, SReg column_block, const VmemAddress& vmem,
                     ScalarOperand flag) {
  const std::uint32_t tile = shape_.tile_granules;
  SReg address = hbm;
  if (row_block) {
    address =
        builder_.add(address, builder_.mul(row_block, shape_.block_rows * shape_.columns * tile));
  }
  if (column_block) {
    address = builder_.add(address, builder_.mul(column_block, shape_.block_columns * tile));
  }
  if (is_one_box(shape_)) return dma_.start(address, vmem, flag);
  const ScalarOperand size = matrix_granules(row_block, column_block, 1);
  if (shape_.granules_with_rows == 0) {
    const ScalarOperand run = extent(column_block, shape_.columns, shape_.block_columns, tile);
    if (run.reg) dma_.set_run(run.reg);
  }
  dma_.start(address, vmem, flag, size);
}

}  // namespace tpu::compiler
