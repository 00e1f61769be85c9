#include "workloads/compiler/kernels/tiles/block_pipeline.h"

#include <algorithm>
#include <utility>

#include "sim/base/power_of_two.h"

namespace tpu::compiler {

BlockPipeline::BlockPipeline(KernelBuilder& builder, const Blocks& blocks, Transfer load,
                             Transfer store)
    : builder_(builder), blocks_(blocks), load_(std::move(load)), store_(std::move(store)) {}

Index BlockPipeline::buffer(Index block) {
  if (blocks_.buffers == 1) return {};
  return modulo_power_of_two(builder_, block, floor_log2(blocks_.buffers));
}

void BlockPipeline::wait(const Transfer& transfer, Index block, Index buffer) {
  const ScalarOperand granules = transfer.granules(block);
  if (!granules.reg && granules.immediate == 0) return;
  builder_.wait(to_operand(builder_, buffer.plus(transfer.flag)), granules);
}

/// The buffer of the block that is loaded while this one is worked on.
Index BlockPipeline::buffer_of_next(Index block, Index buffer) {
  if (block.is_constant()) return this->buffer(block.plus(blocks_.ahead()));
  if (blocks_.buffers == 2) return {builder_.sub(1, to_operand(builder_, buffer)), 0};
  return this->buffer({builder_.add(to_operand(builder_, block), blocks_.ahead()), 0});
}

/// Starts the loads of that block, where there is one.
void BlockPipeline::load_next(Index block, Index buffer) {
  if (block.is_constant()) {
    const Index next = block.plus(blocks_.ahead());
    if (next.offset < blocks_.count) load_.start(next, this->buffer(next));
    return;
  }
  const SReg next = builder_.add(to_operand(builder_, block), blocks_.ahead());
  const PReg has_next = builder_.less(next, blocks_.count);
  const Index other = buffer_of_next(block, buffer);
  const auto start = [&] { load_.start({next, 0}, other); };
  load_.is_straight ? builder_.guarded(has_next, start) : builder_.if_(has_next, start);
}

/// Waits until the results of the block that many before have left, where there is one.
void BlockPipeline::wait_for_store_before(Index block, Index buffer, std::int64_t distance) {
  const std::int64_t looped = blocks_.count - (blocks_.last_is_apart ? 1 : 0);
  if (!store_.start || (!block.is_constant() && looped <= distance)) return;
  const Index before = block.plus(-distance);
  if (block.is_constant()) {
    if (before.offset >= 0) wait(store_, before, buffer);
    return;
  }
  const PReg is_reused = builder_.less(distance - 1, to_operand(builder_, block));
  builder_.guarded(is_reused, [&] { wait(store_, before, buffer); });
}

void BlockPipeline::take_next(Index block, Index buffer) {
  if (blocks_.buffers == 1 || blocks_.count == 1) return;
  wait_for_store_before(block, buffer_of_next(block, buffer), blocks_.buffers - blocks_.ahead());
  load_next(block, buffer);
}

void BlockPipeline::step(Index block, const std::function<void(Index, Index)>& work) {
  const Index here = buffer(block);
  if (blocks_.is_in_place && blocks_.buffers == 1) wait_for_store_before(block, here, 1);
  if (load_.start) {
    if (blocks_.buffers == 1) {
      load_.start(block, here);
    } else if (blocks_.count > 1 && !blocks_.is_in_place) {
      load_next(block, here);
    }
    wait(load_, block, here);
  }
  if (!blocks_.is_in_place) wait_for_store_before(block, here, blocks_.buffers);
  if (work) work(block, here);
  if (store_.start) store_.start(block, buffer(block));
  if (!work && blocks_.is_in_place) take_next(block, here);
}

void BlockPipeline::run(const std::function<void(Index block, Index buffer)>& work) {
  const std::int64_t looped = blocks_.count - (blocks_.last_is_apart ? 1 : 0);
  for (std::int64_t block = 0; load_.start && block < std::min(blocks_.ahead(), blocks_.count);
       ++block) {
    load_.start({{}, block}, {{}, block});
  }
  if (looped == 1) {
    step({}, work);
  } else {
    builder_.loop(static_cast<std::uint64_t>(looped), [&](SReg index) { step({index, 0}, work); });
  }
  if (blocks_.last_is_apart) step({{}, looped}, work);
  if (!store_.start) return;
  // Of blocks in place each has waited for the one that stood where the next ones come to.
  const std::int64_t under_way = blocks_.is_in_place && blocks_.buffers > 1
                                     ? blocks_.buffers - blocks_.ahead()
                                     : blocks_.buffers;
  for (std::int64_t block = std::max<std::int64_t>(0, blocks_.count - under_way);
       block < blocks_.count; ++block) {
    wait(store_, {{}, block}, buffer({{}, block}));
  }
}

}  // namespace tpu::compiler
