#pragma once

#include <cstdint>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/graph/shape.h"

namespace tpu::compiler {

inline bool is_packed(hlo::ElementType type) { return type == hlo::ElementType::kBf16; }
/// Tiles of `size` that cover `extent`.
inline std::uint32_t tiles_of(std::int64_t extent, std::int64_t size) {
  return static_cast<std::uint32_t>(ceil_divide(extent, size));
}
/// VMEM rows and granules of a tile of 8 rows and 128 lanes.
inline std::uint32_t tile_rows(hlo::ElementType type) {
  return type == hlo::ElementType::kBf16 ? 4 : 8;
}
inline std::uint32_t tile_granules(hlo::ElementType type) { return tile_rows(type) / 2; }

/// Loads and stores of kernels around the MXUs, for arrays of either type.
class MatmulMemory {
 public:
  /// In the first block of a kernel: what packed arrays need stays in registers.
  MatmulMemory(KernelBuilder& builder, bool packed_rows, bool packed_weights);

  /// The eight rows of a tile in fp32; `mask`, where given, is anded.
  VReg load_rows(hlo::ElementType type, const VmemAddress& address, VReg mask = {});
  /// The same in descending order, as weights are pushed.
  VReg load_weights(hlo::ElementType type, const VmemAddress& address, VReg mask = {});

  /// Makes masks for a contracted dimension of `extent`, not a multiple of 128.
  void make_masks(std::uint32_t extent);
  /// The mask for loads of a type: everything, or the lanes below the extent's end in its last
  /// tile. `is_last`: whether the tile is the last one; none: it is.
  VReg mask(hlo::ElementType type, PReg is_last);

  /// Rows from `valid` on of `row_tiles` rows of tiles, `columns` tiles to a row, become 0.
  void clear_rows(hlo::ElementType type, const VmemAddress& address, std::uint32_t valid,
                  std::uint32_t row_tiles, std::uint32_t columns);
  /// Lanes from `valid` on of `rows` rows of tiles, `columns` tiles to a row, become 0.
  void clear_columns(hlo::ElementType type, const VmemAddress& address, std::uint32_t valid,
                     std::uint32_t rows, std::uint32_t columns);
  /// Stores 0 to all rows of a range.
  void clear(const VmemAddress& address, std::uint64_t rows);
  /// Rounds fp32 tiles to packed ones.
  void round_tiles(VmemRegion from, const VmemAddress& to, std::uint64_t tiles);

 private:
  KernelBuilder& builder_;
  VReg odd_shift_;       ///< 16 in even sublanes, 0 in odd ones.
  VReg odd_shift_down_;  ///< 0 in even sublanes, 16 in odd ones.
  VmemRegion masks_;     ///< Eight rows of ones, then lanes below the end.
};

}  // namespace tpu::compiler
