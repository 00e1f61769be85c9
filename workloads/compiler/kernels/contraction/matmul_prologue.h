#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/ir/made_side.h"
#include "workloads/compiler/kernels/contraction/tile_expression.h"
#include "workloads/compiler/kernels/tiles/index.h"
#include "workloads/compiler/kernels/tiles/tile_grid.h"

namespace tpu::compiler {

/// The elementwise expression in front of a side of a product: a normalisation, an activation. The
/// side is made of arrays of its extent, tile by tile, in the place where the blocks of one of them
/// arrive.
struct MatmulPrologue : TileExpression {
  std::size_t place = 0;  ///< That one, of the arrays in blocks: it has the side's type.

  /// The operand of the kernel that it is.
  int operand() const;
  MadeSide made() const;
};

/// A side of a product in its kernel. The grid has its blocks as an input; where it is made, those
/// of the arrays beside come with them, and new blocks are made before anything else reads them.
/// The vector unit makes a block while the MXUs wait: what overlaps is the DMA of the next one.
class ProductSide {
 public:
  /// Makes the block of an array that lies like the side, of a type; its address stands in `word`.
  using BlockOf = std::function<TileGrid::Block(hlo::ElementType type, std::uint32_t word)>;
  /// How many tiles follow each other, and how many lie from one to the next.
  struct Axis {
    std::uint32_t count = 1, tiles = 1;
  };
  /// The tiles of a block that are made: those that were fetched.
  struct Tiles {
    std::uint32_t before = 0;     ///< Tiles of the block in front of the first one.
    std::vector<Axis> outer;      ///< Outermost first; nothing depends on the place along them.
    Axis rows, lanes;             ///< The two minor dimensions.
    Index first_row, first_lane;  ///< Of the block in the array, in tiles.
  };

  ProductSide(KernelBuilder& builder, const std::optional<MatmulPrologue>& prologue);

  /// In the first blocks of the kernel.
  void start();
  /// Adds the arrays beside; `input`: the side's own blocks.
  void add_arrays(TileGrid& grid, int input, const BlockOf& block_of);
  /// Before the first tile of the grid.
  void ready();
  /// In the work on a tile of the grid: makes the side's block if it is a new one.
  void make(TileGrid& grid, const std::function<Tiles()>& tiles_of_block);

 private:
  /// In which order a block's tiles are made: those of two axes in straight code.
  struct Order {
    std::vector<Axis> axes;  ///< Outermost first; two at least.
    std::size_t rows = 0;    ///< Which of them has the rows; none: nothing asks for the row.
    std::uint32_t outer = 1, inner = 1;  ///< Tiles of the last two in straight code.
    bool is_paired = false;
  };
  Order order_of(const Tiles& tiles) const;
  void make_block(const std::vector<VmemAddress>& blocks, const Tiles& tiles);
  void make_piece(const std::vector<VmemAddress>& blocks, const Order& order,
                  TileExpressionEmitter::Position position);
  void store(const VmemAddress& to, const std::vector<VReg>& rows, std::uint32_t tiles_apart);

  KernelBuilder& builder_;
  const MatmulPrologue* prologue_;  ///< None: the side stands in memory.
  std::unique_ptr<TileExpressionEmitter> emitter_;
  std::unique_ptr<TileMemory> memory_;
  std::uint32_t words_ = 0;  ///< SMEM: addresses of the arrays in blocks.
  std::vector<int> inputs_;  ///< Of the grid: of the arrays in blocks.
};

}  // namespace tpu::compiler
