#pragma once

#include <cstdint>

#include "workloads/compiler/kernels/contraction/contraction_plan.h"
#include "workloads/compiler/kernels/contraction/convolution_problem.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"

namespace tpu::compiler {

/// A block of an image with its pixels in the rows of tiles, lined up for windows that begin at any
/// pixel: rows of the image in fp32 in VMEM, for each one tile of features after the other, its
/// pixels in rows of VMEM with zeros before and behind them. (A load begins at any row of VMEM, but
/// the tiles of an array stand one behind the other along the features, and those of bf16 have two
/// rows in one.)
struct PixelLines {
  std::uint32_t lines = 0;   ///< Rows of the image.
  std::uint32_t tiles = 0;   ///< Of features.
  std::uint32_t pixels = 0;  ///< Of the image, of a line.
  std::uint32_t left = 0;    ///< Zeros before them, whole tiles.
  std::uint32_t line_rows = 0;
  hlo::ElementType type = hlo::ElementType::kF32;  ///< Of the block.

  /// For windows that meet the pixels from `first` to `last` of a row of the image, which may lie
  /// outside of it.
  void set_line(std::int64_t image_pixels, std::int64_t first, std::int64_t last);
  std::uint32_t pixel_tiles() const { return tiles_of(pixels, 8); }
  std::uint32_t image_line() const { return tiles * line_rows; }  ///< VMEM rows.
  std::uint64_t rows() const { return std::uint64_t{lines} * image_line(); }
  /// What lining up takes the vector unit.
  double cycles() const;
  /// Lines up the tiles of a block, one of pixels after the other.
  void emit(KernelBuilder& builder, MatmulMemory& memory, const VmemAddress& block,
            VmemRegion to) const;

 private:
  /// What one piece of straight code lines up.
  struct Piece {
    std::uint32_t lines, tiles, pixel_tiles;
  };
  Piece piece() const;
};

/// What stands in the last tile of each of `lines` lines behind their `pixels` pixels becomes 0, in
/// a block whose tiles lie as in memory.
void clear_line_ends(KernelBuilder& builder, MatmulMemory& memory, hlo::ElementType type,
                     const VmemAddress& block, std::uint32_t lines, std::uint32_t line_rows,
                     std::uint32_t pixels, std::uint32_t tiles);

}  // namespace tpu::compiler
