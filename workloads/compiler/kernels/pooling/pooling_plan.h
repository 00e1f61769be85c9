#pragma once

#include <cstdint>

#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/refusal.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A window over the two major dimensions (rows, columns) of an array whose pixels are contiguous
/// runs of tiles, and how it is cut to fit VMEM.
///
/// A kernel goes over `chunks` parts of each pixel, and for each over the rows of windows. Rows of
/// the image stand in a ring of VMEM rows wide enough for a window and the rows that the next one
/// needs; columns of padding around them and in gaps of a base dilation hold the value that changes
/// nothing, and so do rows there.
struct PoolingPlan {
  struct Dimension {
    std::int64_t image = 1, windows = 1;  ///< Extents of the image and of the windows' array.
    std::int64_t size = 1, stride = 1, padding = 0, dilation = 1;
    std::int64_t base = 1;  ///< Base dilation: from a pixel to the next one.
    std::int64_t reach() const { return (size - 1) * dilation + 1; }
    /// Rows or columns that windows touch, padding and gaps included.
    std::int64_t padded() const {
      const std::int64_t touched = (windows - 1) * stride + reach();
      const std::int64_t last = padding + (image - 1) * base + 1;
      return touched > last ? touched : last;
    }
    /// New rows that a window needs after the one before.
    std::int64_t fresh() const { return stride < reach() ? stride : reach(); }
  };
  Dimension rows, columns;
  bool packed = false;           ///< bf16.
  std::int64_t pixel_tiles = 1;  ///< Tiles of a pixel.
  std::int64_t chunk_tiles = 1;  ///< Of those, in VMEM at a time.
  std::int64_t buffers = 2;      ///< Rows of windows on their way, and the one that is worked on.
  /// All columns of a row of windows are combined before windows are, which share them.
  bool is_rows_first = false;

  std::int64_t chunks() const { return pixel_tiles / chunk_tiles; }
  std::int64_t tile_rows() const { return packed ? 4 : 8; }
  std::int64_t pixel_rows() const { return chunk_tiles * tile_rows(); }  ///< VMEM rows.
  std::int64_t pixel_granules() const { return pixel_rows() / 2; }
  /// Of a whole pixel in HBM.
  std::int64_t hbm_pixel_granules() const { return pixel_tiles * tile_rows() / 2; }
  std::int64_t row_rows() const { return columns.padded() * pixel_rows(); }  ///< VMEM rows.
};

/// Reads the window of a reduce-window or select-and-scatter over an image of this shape. Refuses
/// windows over the two minor dimensions of the layout, over more than two others, with reversal or
/// negative padding.
OrRefusal<PoolingPlan> read_window(const hlo::HloInstruction& instruction, const hlo::Shape& image,
                                   const hlo::Shape& windows);

}  // namespace tpu::compiler
