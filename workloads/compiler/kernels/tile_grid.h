#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

/// Position of a tile in a grid: a scalar per dimension; none where the extent is 1.
using GridPoint = std::vector<SReg>;

/// A loop over the tiles of a grid, dimension 0 outermost, that overlaps DMA with work.
///
/// While a tile is worked on, the blocks of the next one are on their way into the other of two
/// buffers; a block that the next tile shares is not fetched again. A result goes out while later
/// tiles are worked on; its buffer is free again two results later.
class TileGrid {
 public:
  /// A block that the work reads. It depends on some dimensions of the grid.
  struct Input {
    std::vector<int> dimensions;
    std::uint32_t rows = 0;  ///< VMEM rows of one buffer.
    std::function<void(const GridPoint& point, const VmemAddress& to, ScalarOperand flag)> start;
    std::function<ScalarOperand(const GridPoint& point)> granules;
  };
  /// A block that the work writes, complete when the dimensions it does not depend on, which must
  /// be the innermost ones, are at their last index.
  struct Output {
    std::vector<int> dimensions;
    std::uint32_t rows = 0;
    std::function<void(const GridPoint& point, const VmemAddress& from, ScalarOperand flag)> start;
    std::function<ScalarOperand(const GridPoint& point)> granules;
  };

  TileGrid(KernelBuilder& builder, std::vector<std::uint32_t> extents);

  int add_input(Input input);
  int add_output(Output output);

  /// What the work on a tile finds.
  struct Tile {
    GridPoint point;
    std::vector<VmemAddress> inputs, outputs;  ///< Begin of the present buffers.
    std::vector<PReg> fresh;  ///< Per input: the block was not there for the tile before. None: it
                              ///< is the same for all tiles.
  };
  /// Emits the loop. `work` is emitted once.
  void run(const std::function<void(const Tile& tile)>& work);

  std::uint64_t tiles() const;
  /// True when all tiles share the input's block.
  bool is_constant(const std::vector<int>& dimensions) const;

 private:
  struct Buffers {
    VmemRegion region;
    std::uint32_t flag = 0;  ///< Of buffer 0; buffer 1 has the next one.
    std::uint32_t rows = 0;
    bool twice = false;
    SVariable slot;          ///< Buffer of the present block.
    SVariable count;         ///< Inputs: 1 when the block was fetched for this tile; results: how
                             ///< many are complete.
    std::uint32_t owed = 0;  ///< Results: SMEM words with the granules on their way, per buffer.
    std::uint64_t blocks = 1;
  };
  /// The step from a tile to the next.
  struct Step {
    GridPoint next;
    /// moves[i]: all dimensions from i on wrap. None at the end: always.
    std::vector<PReg> moves;
    PReg more;  ///< There is a next tile.
    std::vector<SReg> slots, fresh;
  };
  Buffers make_buffers(const std::vector<int>& dimensions, std::uint32_t rows);
  VmemAddress address(const Buffers& buffers, SReg slot);
  ScalarOperand flag(const Buffers& buffers, SReg slot);
  void start_first();
  GridPoint present();
  Step step(SReg number, const GridPoint& point);
  void fetch_next(Step& step);
  void wait_for_inputs(Tile& tile);
  void wait_for_room(Tile& tile);
  void send_results(const Tile& tile, const Step& step);
  void advance(const Step& step);
  void wait_for_results();
  int innermost(const std::vector<int>& dimensions) const;
  std::size_t behind(const std::vector<int>& dimensions) const {
    return static_cast<std::size_t>(innermost(dimensions) + 1);
  }

  KernelBuilder& builder_;
  std::vector<std::uint32_t> extents_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<Buffers> input_buffers_, output_buffers_;
  std::vector<SVariable> position_;
};

}  // namespace tpu::compiler
