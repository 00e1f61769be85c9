#pragma once

#include "workloads/compiler/kernels/contraction/convolution_patches.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"

namespace tpu::compiler {

/// The kernel of a convolution as rows that stream past the patches of an image (see Patches): for
/// each unit and each pixel of the group a row per feature of the result, whose lanes are the
/// features and positions that the unit's 16 tiles stand for, 0 where the pixel does not meet them.
///
/// Made once per block of features, tile by tile: by transposing 16 tiles of contracted features
/// where these lie in the rows, by turning lanes where they lie in the lanes already.
class MovingWindow {
 public:
  /// `columns`: tiles of 8 features of the result in a block; `pitch`: those that a pixel takes in
  /// the moving rows. Stores tables in SMEM.
  MovingWindow(KernelBuilder& builder, MatmulMemory& memory, const ConvolutionProblem& problem,
               const Patches& patches, std::uint32_t columns, std::uint32_t pitch);

  /// Emits the work: `window` is the block of the kernel in VMEM, a matrix of tiles per position.
  /// Rows of it beyond the contracted features become 0 in place.
  void make(const VmemAddress& window);
  /// VMEM rows of tile `column` of pixel `pixel` of a unit: unit * unit_rows() + rows(), units of
  /// all blocks of features in order.
  std::uint32_t unit_rows() const { return patches_.group * pitch_ * 8; }
  std::uint32_t rows(std::uint32_t pixel, std::uint32_t column) const {
    return (pixel * pitch_ + column) * 8;
  }
  VmemRegion region() const { return region_; }

 private:
  bool turned() const { return problem_.window_transposed; }
  static constexpr std::uint32_t kWords = 2;  ///< Of a run in the table.
  std::uint32_t position_rows() const;
  std::uint32_t block_rows() const;
  void store_table();
  void clear_padding(const VmemAddress& window);
  void transpose(const VmemAddress& window);
  void turn(const VmemAddress& window);

  KernelBuilder& builder_;
  MatmulMemory& memory_;
  const ConvolutionProblem& problem_;
  const Patches& patches_;
  std::uint32_t columns_, pitch_, window_tile_;
  std::uint32_t table_ = 0;
  VmemRegion region_;
};

}  // namespace tpu::compiler
