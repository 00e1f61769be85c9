#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

/// Position of a tile in a grid: a scalar per dimension; none where the extent is 1.
using GridPoint = std::vector<SReg>;

/// A loop over the tiles of a grid, dimension 0 outermost, that overlaps DMA with work.
///
/// While a tile is worked on, the blocks of the next one are on their way into the other of two
/// buffers; a block that the next tile shares is not fetched again. A result goes out while later
/// tiles are worked on; its buffer is free again two results later. The loop's state stands in
/// SMEM, so that the work has the scalar registers.
class TileGrid {
 public:
  /// A block that the work reads or writes. It depends on some dimensions of the grid; one that the
  /// work writes is complete when the others, which must be the innermost ones, are at their last
  /// index.
  struct Block {
    std::vector<int> dimensions;
    std::uint32_t rows = 0;  ///< VMEM rows of one buffer.
    std::function<void(const GridPoint& point, const VmemAddress& vmem, ScalarOperand flag)> start;
    std::function<ScalarOperand(const GridPoint& point)> granules;
    /// Where the array stands, whole, before the loop and behind it: nothing is moved, and it is
    /// the same for all tiles. No rows: it stands in HBM.
    VmemRegion standing;
  };

  TileGrid(KernelBuilder& builder, std::vector<std::uint32_t> extents);

  /// The innermost of the dimensions that moves; none: -1. A block that depends on them is the same
  /// for all tiles then, and has one buffer; else it is another one whenever that dimension, or one
  /// outside of it, moves, and has two.
  static int innermost(const std::vector<std::uint32_t>& extents,
                       const std::vector<int>& dimensions);
  /// VMEM rows of a buffer for so many.
  static std::uint64_t buffer_rows(std::uint64_t rows) { return round_up(rows, 8); }

  int add_input(Block input);
  int add_output(Block output);
  /// Emits the loop. `work` is emitted once; it begins and ends in blocks of its own. `meanwhile`
  /// stands before the loop, where the first blocks are on their way.
  void run(const std::function<void()>& work, const std::function<void()>& meanwhile = {});

  // What the work on a tile finds; each call emits the instructions that get it.
  SReg index(int dimension);      ///< None where the extent is 1.
  PReg is_last(int dimension);    ///< At its last index; none where the extent is 1.
  PReg is_first(int dimension);   ///< At index 0; none where the extent is 1.
  VmemAddress input(int number);  ///< Begin of the present buffer.
  VmemAddress output(int number);
  /// All buffers of an input.
  VmemRegion input_region(int number) const {
    return input_buffers_[static_cast<std::size_t>(number)].region;
  }
  /// The input was not there for the tile before; none: there is one tile.
  PReg fresh(int number);

  std::uint64_t tiles() const;
  /// True when all tiles share a block that depends on these dimensions.
  bool is_constant(const std::vector<int>& dimensions) const;

 private:
  struct Buffers {
    VmemRegion region;
    std::uint32_t flag = 0;  ///< Of buffer 0; buffer 1 has the next one.
    std::uint32_t rows = 0;
    bool twice = false;
    // SMEM words.
    std::uint32_t slot = 0;   ///< Buffer of the present block.
    std::uint32_t count = 0;  ///< Inputs: 1 when the block was fetched for this tile. Results: how
                              ///< many are complete.
    std::uint32_t owed = 0;   ///< Results: granules on their way, per buffer.
    bool moves = true;        ///< Between HBM and VMEM.
  };
  /// The step from a tile to the next.
  struct Step {
    GridPoint next;
    /// moves[i]: all dimensions from i on wrap. None at the end: always.
    std::vector<PReg> moves;
  };
  Buffers make_buffers(const Block& block);
  VmemAddress address(const Buffers& buffers, SReg slot);
  ScalarOperand flag(const Buffers& buffers, SReg slot);
  SReg slot(const Buffers& buffers);
  void start_first(const std::function<void()>& meanwhile);
  GridPoint present();
  Step step();
  void fetch_next(SReg number);
  void wait_for_inputs();
  void wait_for_room();
  void send_results();
  void advance();
  void wait_for_results();
  int innermost(const std::vector<int>& dimensions) const {
    return innermost(extents_, dimensions);
  }
  std::size_t behind(const std::vector<int>& dimensions) const {
    return static_cast<std::size_t>(innermost(dimensions)) + 1;
  }

  KernelBuilder& builder_;
  std::vector<std::uint32_t> extents_;
  std::vector<Block> inputs_, outputs_;
  std::vector<Buffers> input_buffers_, output_buffers_;
  std::uint32_t position_ = 0;  ///< SMEM words, one per dimension.
};

}  // namespace tpu::compiler
