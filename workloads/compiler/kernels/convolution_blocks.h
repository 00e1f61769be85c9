#pragma once

#include "workloads/compiler/kernels/image_rows.h"
#include "workloads/compiler/kernels/matmul_epilogue.h"
#include "workloads/compiler/kernels/matmul_memory.h"
#include "workloads/compiler/kernels/tile_grid.h"

namespace tpu::compiler {

/// What the kernels of convolutions and of their gradients share.

/// Keeps the HBM addresses of input, window, result and the operands behind the product in SMEM,
/// in this order; the first word.
std::uint32_t store_addresses(KernelBuilder& builder, const MatmulEpilogue& epilogue);

/// Rows of an image that the block which goes by `first` has, but the image has not, become 0:
/// `count` rows of `pitch` VMEM rows.
void clear_rows_outside(KernelBuilder& builder, MatmulMemory& memory, ImageRows& rows, SReg first,
                        const VmemAddress& block, std::uint32_t count, std::uint32_t pitch);

/// Both hold; an absent predicate holds always.
PReg both(KernelBuilder& builder, PReg a, PReg b);

/// Emits the body where the predicate holds; an absent one holds always.
void emit_if(KernelBuilder& builder, PReg condition, const std::function<void()>& body);

/// Complete sums of a gradient of the kernel, `row_tiles` x `columns` tiles, become its result (or
/// stay in place, to be rounded): the expression behind it knows the column alone.
void apply_epilogue_by_columns(KernelBuilder& builder, EpilogueEmitter& results, TileGrid& grid,
                               const std::vector<int>& inputs, int column_dimension,
                               std::uint32_t row_tiles, std::uint32_t columns,
                               const VmemRegion& sums, bool stays);

}  // namespace tpu::compiler
