#pragma once

#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/kernels/elementwise/elementwise_leaf.h"
#include "workloads/compiler/kernels/elementwise/expression.h"

namespace tpu::compiler {

/// An address of a region: rows past its begin, known now or when the kernel runs.
VmemAddress at(VmemRegion region, Index rows, SReg base = {});
/// Stores a word all over so many tiles of a region, from VMEM row `begin` on, `at_once` of them in
/// straight code.
void fill_tiles(KernelBuilder& builder, const VmemRegion& region, Index begin, std::int64_t tiles,
                std::uint32_t word, std::int64_t at_once);

/// Moves tiles and rows between VMEM and registers, where every element is 32 bits wide: bf16
/// becomes fp32 on the way in and is rounded on the way out.
///
/// A bf16 tile is four VMEM rows of row pairs. A shuffled load takes each twice, a shift by sublane
/// and a mask leave the half that the sublane needs. A store goes over eight rows of scratch, from
/// which the even and the odd rows are loaded again and packed.
class TileMemory {
 public:
  /// Call it in the first block of a kernel: what packed arrays need stays in registers.
  TileMemory(KernelBuilder& builder, bool loads_packed, bool stores_packed);

  VReg load_tile(hlo::ElementType type, const VmemAddress& address);
  /// Eight rows of tiles that follow each other, `step` apart, behind so many `above`.
  VReg load_rows(hlo::ElementType type, const std::vector<VmemAddress>& tiles, int above,
                 int step = 1);
  void store_tile(hlo::ElementType type, const VmemAddress& address, VectorOperand value);
  /// Row `row` of the tile at `rows` in every sublane.
  VReg load_row(hlo::ElementType type, VmemRegion region, Index rows, Index row);
  /// Row `row` of eight tiles from `rows` on, one in each sublane.
  VReg load_row_of_tiles(hlo::ElementType type, VmemRegion region, Index rows, int row);

 private:
  static constexpr int kScratchTiles = 16;
  KernelBuilder& builder_;
  VReg shift_;  ///< 16 in even sublanes, 0 in odd ones.
  VmemRegion scratch_;
  int next_scratch_ = 0;
};

/// Row tiles whose rows are the 128 lanes of a line.
constexpr std::int64_t kLineTiles = 16;

/// Element (s, l) of the result is element (s, k) of `row`, where lane k is `first + s` (steps) or
/// `first` of a row in all sublanes. The array's type says what its words of 32 bits are.
VReg spread_over_lanes(KernelBuilder& builder, ExpressionEmitter& emitter, VReg row, Index first,
                       bool steps, hlo::ElementType type);
/// One chosen lane of each row in all lanes.
VReg spread_chosen(KernelBuilder& builder, VReg row, MReg chosen, hlo::ElementType type);

/// Stores the values that each sublane of `values[u]` holds in all lanes to lanes first + 8 u + s
/// of one VMEM row.
void store_across_lanes(KernelBuilder& builder, ExpressionEmitter& emitter,
                        const std::vector<VReg>& values, const VmemAddress& row, Index first);

/// Combines all sublanes, in every sublane: sum, maximum or minimum of fp32 or s32, or bitwise or
/// (kOr).
VReg combine_sublanes(KernelBuilder& builder, hlo::HloOpcode reducer, bool integer, VReg value);
VReg combine(KernelBuilder& builder, hlo::HloOpcode reducer, bool integer, VectorOperand a,
             VectorOperand b);
/// The value that changes nothing in combine(), and in a product.
std::uint32_t identity_bits(hlo::HloOpcode reducer, bool integer);

}  // namespace tpu::compiler
