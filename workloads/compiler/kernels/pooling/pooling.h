#pragma once

#include <vector>

#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/pooling/pooling_plan.h"
#include "workloads/compiler/kernels/tiles/box_dma.h"

namespace tpu::compiler {

/// A ring of VMEM rows of which a window covers the first ones; it moves on by some rows at a time.
class RowRing {
 public:
  /// `row_rows`: VMEM rows of one row of the ring.
  RowRing(KernelBuilder& builder, std::int64_t rows, std::int64_t row_rows);

  VmemRegion region() const { return region_; }
  void reset();
  void advance(std::int64_t rows);
  /// VMEM row offset of the row `ahead` of the first; where that is no constant, of fewer than the
  /// ring has.
  SReg row(Index ahead);
  /// Stores a word everywhere.
  void fill(std::uint32_t word);

 private:
  KernelBuilder& builder_;
  std::int64_t rows_, row_rows_;
  VmemRegion region_;
  SVariable first_;
};

/// Brings the rows of an image into a ring in VMEM, a row of windows at a time. Rows outside the
/// image, columns around it and gaps between its pixels hold a constant.
class WindowRows {
 public:
  /// `fill`: the word of padding (both halves of a packed word). Uses `flag` and the next ones, one
  /// for each of the plan's buffers.
  WindowRows(KernelBuilder& builder, const PoolingPlan& plan, std::uint32_t fill,
             std::uint32_t flag);

  static std::int64_t ring_rows(const PoolingPlan& plan) {
    return plan.rows.reach() + (plan.buffers - 1) * plan.rows.fresh();
  }
  VmemRegion region() const { return ring_.region(); }
  /// Starts what a row of windows needs beyond the one before; row 0, all of it. A row with a
  /// constant number comes in front of all work, others while the one is worked on that has the
  /// next buffer. `hbm` is the address of the chunk in the first pixel.
  void start(SReg hbm, Index window);
  /// Granules of the rows that were started for this row of windows.
  SReg granules(Index window);
  SReg row(Index ahead) { return ring_.row(ahead); }
  void advance() { ring_.advance(plan_.rows.fresh()); }

 private:
  void start_rows(SReg hbm, Index first_row, std::int64_t ahead, std::int64_t count, Index flag);

  KernelBuilder& builder_;
  const PoolingPlan& plan_;
  std::uint32_t fill_, flag_;
  RowRing ring_;
  BoxDma row_dma_;
};

/// How many of the padded rows [first, first + count) are rows of the image.
Index rows_in_image(KernelBuilder& builder, const PoolingPlan::Dimension& dimension, Index first,
                    std::int64_t count);
/// Whether a padded row is a row of the image.
PReg is_in_image(KernelBuilder& builder, const PoolingPlan::Dimension& dimension, Index row);

/// A DMA of so many pixels of one chunk; `distance`: from one to the next in VMEM, in pixels.
BoxDma pixel_dma(KernelBuilder& builder, const PoolingPlan& plan, bool to_vmem, std::int64_t pixels,
                 std::int64_t distance = 1);

}  // namespace tpu::compiler
