#pragma once

#include <cstdint>
#include <functional>

#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/kernels/tiles/index.h"

namespace tpu::compiler {

/// Blocks that follow each other: while one is worked on, the next one is on its way into the other
/// of two buffers (or the next few, into as many others), and the results of those before are on
/// their way out. With one buffer each block waits for its own transfers.
///
/// A TileGrid has several dimensions, and blocks that stay while others pass; here all is new with
/// each block, and the loop's counter is all of the state.
class BlockPipeline {
 public:
  /// What moves between HBM and VMEM with each block.
  struct Transfer {
    /// Starts it, for the buffer with this number; none: nothing moves.
    std::function<void(Index block, Index buffer)> start;
    std::function<ScalarOperand(Index block)> granules;
    std::uint32_t flag = 0;   ///< Of buffer 0; the other buffers have the next ones.
    bool is_straight = true;  ///< start() makes no loops: instructions under a predicate do.
  };
  struct Blocks {
    std::int64_t count = 1;
    bool last_is_apart = false;  ///< The last one has code of its own: its number is constant.
    std::int64_t buffers = 2;    ///< A power of two.
    /// Results leave from where operands came to. With two buffers or more `work` calls take_next()
    /// once; half of them are for what comes, the others for what leaves.
    bool is_in_place = false;

    /// Blocks whose operands are on their way while one is worked on.
    std::int64_t ahead() const {
      if (is_in_place && buffers > 1) return buffers / 2;
      return buffers - 1;
    }
  };

  /// A flag for each buffer.
  static std::uint32_t allocate_flags(KernelBuilder& builder, std::int64_t buffers = 2) {
    const std::uint32_t first = builder.allocate_flag();
    for (std::int64_t i = 1; i < buffers; ++i) builder.allocate_flag();
    return first;
  }

  BlockPipeline(KernelBuilder& builder, const Blocks& blocks, Transfer load, Transfer store);

  /// Emits everything. When it ends nothing is under way. `work` stands in the loop once, and once
  /// more for a last block with code of its own; none: blocks in place leave as they came.
  void run(const std::function<void(Index block, Index buffer)>& work);
  /// Of blocks in place: the next one comes to where one before has left.
  void take_next(Index block, Index buffer);

 private:
  Index buffer(Index block);
  Index buffer_of_next(Index block, Index buffer);
  void load_next(Index block, Index buffer);
  void step(Index block, const std::function<void(Index block, Index buffer)>& work);
  void wait_for_store_before(Index block, Index buffer, std::int64_t distance);
  void wait(const Transfer& transfer, Index block, Index buffer);

  KernelBuilder& builder_;
  Blocks blocks_;
  Transfer load_, store_;
};

}  // namespace tpu::compiler
