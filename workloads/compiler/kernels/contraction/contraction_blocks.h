#pragma once

#include <memory>
#include <vector>

#include "workloads/compiler/kernels/contraction/contraction_plan.h"
#include "workloads/compiler/kernels/contraction/image_rows.h"
#include "workloads/compiler/kernels/contraction/matmul_epilogue.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"
#include "workloads/compiler/kernels/tiles/block_dma.h"
#include "workloads/compiler/kernels/tiles/tile_grid.h"

namespace tpu::compiler {

/// What the kernels of dots, convolutions and their gradients share.

/// Keeps the HBM addresses of both sides, the results that go block by block, and the operands
/// behind the product in SMEM, in this order; the first word.
std::uint32_t store_addresses(KernelBuilder& builder, const MatmulEpilogue& epilogue);

/// A scalar that a point of the grid decides.
using OfPoint = std::function<SReg(const GridPoint& point)>;
/// The index of a dimension; none where the extent is 1, and for no dimension, -1.
SReg index_of(const GridPoint& point, int dimension);

/// Rows of an image as a block of a grid: where the image's row 0 begins in HBM, the number that
/// the block goes by, the VMEM rows in front of what is moved, and the granules of a row where the
/// point decides.
TileGrid::Block image_block(const std::shared_ptr<ImageRows>& rows, std::vector<int> dimensions,
                            std::uint32_t vmem_rows, const OfPoint& begin, const OfPoint& first,
                            std::int64_t border = 0, const OfPoint& row_granules = {});

/// A block of matrices as one of a grid: the first matrix, and the dimensions that count blocks of
/// its rows and columns (-1: none does).
TileGrid::Block matrix_block(KernelBuilder& builder, bool to_vmem, const BlockShape& shape,
                             std::vector<int> dimensions, const OfPoint& begin, int row_dimension,
                             int column_dimension);

/// Makes the block of an array in step with the result, of a type; its address stands in `word`.
using BlockOfResult =
    std::function<TileGrid::Block(hlo::ElementType type, bool to_vmem, std::uint32_t word)>;
/// Adds the results to the grid, then the operands that come block by block as they go: the numbers
/// of those. `addresses`: of store_addresses(). `arrays`: where they stand, if not in HBM.
std::vector<int> add_result_blocks(TileGrid& grid, const MatmulEpilogue& epilogue,
                                   std::uint32_t addresses, const BlockOfResult& block_of,
                                   const ArraysInVmem& arrays = {});

/// Where complete results wait to be rounded, by result; none: it is not packed. The first result
/// waits in the place of the sums; others there would wait for loads of the sums.
std::vector<VmemRegion> unrounded_regions(KernelBuilder& builder,
                                          const std::vector<hlo::ElementType>& types,
                                          const VmemRegion& sums, std::uint64_t rows);

/// Those of `tiles` tiles that wait are rounded.
void round_results(MatmulMemory& memory, TileGrid& grid, const std::vector<VmemRegion>& unrounded,
                   std::uint64_t tiles);

/// Rows of an image that the block which goes by `first` has, but the image has not, become 0:
/// `count` rows of `pitch` VMEM rows.
void clear_rows_outside(KernelBuilder& builder, MatmulMemory& memory, ImageRows& rows, SReg first,
                        const VmemAddress& block, std::uint32_t count, std::uint32_t pitch);

/// The largest multiple of `step`, `most` at most, that divides the extent; at least `step`.
std::uint32_t largest_divisor(std::uint32_t extent, std::uint32_t most, std::uint32_t step = 1);

/// Both hold; an absent predicate holds always.
PReg both(KernelBuilder& builder, PReg a, PReg b);

/// Emits the body where the predicate holds; an absent one holds always.
void emit_if(KernelBuilder& builder, PReg condition, const std::function<void()>& body);

/// Complete sums of a gradient of the kernel, `row_tiles` x `columns` tiles, become its results, of
/// which some wait to be rounded: the expression behind it knows the column alone.
void apply_epilogue_by_columns(KernelBuilder& builder, TileExpressionEmitter& results,
                               TileGrid& grid, const std::vector<int>& inputs, int column_dimension,
                               std::uint32_t row_tiles, std::uint32_t columns,
                               const VmemRegion& sums, const std::vector<VmemRegion>& unrounded);

}  // namespace tpu::compiler
