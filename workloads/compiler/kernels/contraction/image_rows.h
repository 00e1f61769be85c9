#pragma once

#include <cstdint>
#include <optional>

#include "workloads/compiler/kernels/tiles/box_dma.h"

namespace tpu::compiler {

/// Rows of an image of pixels in HBM, each pixel a matrix of tiles, and the blocks of such rows
/// that a kernel moves between HBM and VMEM: one DMA for all of them where they are one strided
/// box, else one per row (and slice). Rows outside of the image are left out.
struct ImageShape {
  std::uint32_t height = 1;      ///< Rows of the image.
  std::uint32_t row_stride = 0;  ///< Granules from a row to the next.
  StridedBox row;                ///< What is moved of a row: by a DMA.
  /// Where a pixel's part of a block is no single run: pieces of a pixel, each a DMA of its own for
  /// the whole row; in VMEM a pixel's pieces are neighbours.
  std::uint32_t slices = 1;
  std::uint32_t slice_stride = 0;  ///< From a pixel's piece to the next in HBM.
  std::uint32_t block_rows = 1;    ///< Rows of a block.
  std::int32_t shift = 0;          ///< Of a block's first row against the number it goes by.
  std::uint32_t pitch = 0;         ///< VMEM rows from row to row of a block.
  bool rows_vary = false;          ///< start() is told what is moved of each row.

  std::uint32_t row_granules() const { return slices * row.granules(); }
  /// All rows of a block, where they are one box: each row is one piece, or its pieces stand as far
  /// apart as the last one of a row and the first one of the next.
  std::optional<StridedBox> block() const;
};

class ImageRows {
 public:
  /// Stores the constant words of a descriptor where one is needed: outside of loops.
  ImageRows(KernelBuilder& builder, bool to_vmem, const ImageShape& shape);

  /// Starts the DMAs of the rows from first + shift on (which may be negative) of the image whose
  /// row 0 begins at `hbm`.
  /// `row_granules`: those of each row, where they vary.
  void start(SReg hbm, SReg first, const VmemAddress& vmem, ScalarOperand flag,
             SReg row_granules = {});
  /// Their size.
  SReg granules(SReg first, SReg row_granules = {});
  /// Some of the rows of the block that goes by `first` do not lie in the image.
  PReg reaches_outside(SReg first);
  /// Row `index` of the block that goes by `first` lies in the image.
  PReg is_inside(SReg first, SReg index);

 private:
  void start_at_once(SReg hbm, SReg first, const VmemAddress& vmem, ScalarOperand flag);

  KernelBuilder& builder_;
  ImageShape shape_;
  std::optional<StridedBox> block_;
  BoxDma dma_;  ///< Of a block; of a row where there is no box of all.
};

}  // namespace tpu::compiler
