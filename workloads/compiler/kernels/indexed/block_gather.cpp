#include <algorithm>
#include <memory>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/indexed/block_groups.h"
#include "workloads/compiler/kernels/indexed/index_words.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/tiles/block_pipeline.h"
#include "workloads/compiler/kernels/tiles/box_dma.h"

namespace tpu::compiler {

namespace {

/// Blocks that come to a buffer together, a power of two.
constexpr std::int64_t kMostTogether = 32;
/// What a block's DMA takes beside what it moves (measured).
constexpr double kStartedDmaCycles = 8;

BlockGroups gathered_groups(std::int64_t block_granules, std::int64_t count, const Target& target) {
  const auto vmem = static_cast<std::int64_t>(target.vmem_bytes / isa::kHbmGranuleBytes);
  const std::int64_t most = std::min<std::int64_t>(1024, vmem / 8);
  return {block_granules, count, {1, most, most, kMostTogether}};
}

void check(const hlo::Computation& computation, const hlo::HloInstruction& instruction) {
  const hlo::Shape& table = computation.at(instruction.operands.at(0)).shape;
  const hlo::Shape& indices = computation.at(instruction.operands.at(1)).shape;
  const hlo::GatherDimensions& dimensions = instruction.gather;
  const std::vector<std::int64_t> zero{0};
  std::vector<std::int64_t> window = table.dimensions;
  window[0] = 1;
  const bool is_of_blocks = indices.rank() == 1 && instruction.shape.rank() == table.rank() &&
                            dimensions.slice_sizes == window &&
                            dimensions.collapsed_slice_dims == zero &&
                            dimensions.start_index_map == zero && dimensions.index_vector_dim == 1;
  const std::vector<std::int64_t> order = major_to_minor(table);
  const bool lie_alike =
      lies_for_parts(computation, instruction, order) &&
      order == major_to_minor(instruction.shape) && table.type == instruction.shape.type &&
      (indices.type == hlo::ElementType::kS32 || indices.type == hlo::ElementType::kU32);
  if (is_of_blocks && lie_alike) return;
  throw WorkloadError("no kernel for gather " + hlo::to_string(table) + ", " +
                      hlo::to_string(indices) + " -> " + hlo::to_string(instruction.shape) + " \"" +
                      instruction.name +
                      "\": expected blocks of whole tiles by a vector of 32-bit numbers");
}

/// Blocks of whole tiles go through VMEM by DMAs alone: a piece of some blocks comes to a buffer,
/// and leaves it as one box, while those of the next blocks come. Numbers behind the last one are
/// whatever SMEM holds: they are clamped, and what they bring does not leave.
class BlockGatherKernel {
 public:
  BlockGatherKernel(const hlo::HloInstruction& instruction, const hlo::Shape& table,
                    const Target& target)
      : builder_(instruction.name, target),
        table_blocks_(table.dimensions[0]),
        count_(instruction.shape.dimensions[0]),
        chunk_(indices_at_once(target)),
        groups_(gathered_groups(static_cast<std::int64_t>(granules(table)) / table_blocks_, count_,
                                target)) {}

  LoweredKernel emit();

 private:
  void emit_chunk(Index chunk, std::int64_t indices, SReg table, SReg result);

  KernelBuilder builder_;
  std::int64_t table_blocks_, count_, chunk_;
  BlockGroups groups_;
  std::unique_ptr<IndexWords> numbers_;
  VmemRegion buffers_;
  BoxDma load_dma_, store_dma_;
  std::uint32_t load_flag_ = 0, store_flag_ = 0;
};

LoweredKernel BlockGatherKernel::emit() {
  const SReg table = builder_.operand(0), numbers = builder_.operand(1);
  const SReg result = builder_.operand(2);
  load_flag_ = BlockPipeline::allocate_flags(builder_);
  store_flag_ = BlockPipeline::allocate_flags(builder_);
  numbers_ = std::make_unique<IndexWords>(builder_, numbers, count_, chunk_);
  buffers_ =
      builder_.allocate_vmem(static_cast<std::uint64_t>(2 * 2 * groups_.together * groups_.piece));
  const auto run = static_cast<std::uint32_t>(groups_.piece);
  load_dma_ = BoxDma(builder_, true, {run, 1, run});
  store_dma_ = BoxDma(builder_, false, groups_.box());
  repeat(builder_, groups_.block / groups_.piece, [&](Index piece) {
    const ScalarOperand right = to_operand(builder_, multiply(builder_, piece, groups_.piece));
    const SReg from = builder_.add(table, right), to = builder_.add(result, right);
    numbers_->for_each_chunk(
        [&](Index chunk, std::int64_t indices) { emit_chunk(chunk, indices, from, to); });
  });
  return lowered_kernel(builder_);
}

void BlockGatherKernel::emit_chunk(Index chunk, std::int64_t indices, SReg table, SReg result) {
  const std::int64_t buffer_rows = 2 * groups_.together * groups_.piece;
  BlockPipeline::Transfer load, store;
  load.flag = load_flag_;
  load.start = [=](Index group, Index buffer) {
    const Index first = multiply(builder_, group, groups_.together);
    for (std::int64_t i = 0; i < groups_.together; ++i) {
      const SReg number = numbers_->clamped(first.plus(i), table_blocks_);
      const Index place =
          add(builder_, multiply(builder_, buffer, buffer_rows), {{}, 2 * groups_.piece * i});
      load_dma_.start(
          builder_.add(table, builder_.mul(number, static_cast<std::uint32_t>(groups_.block))),
          at(buffers_, place), to_operand(builder_, buffer.plus(load_flag_)), groups_.piece);
    }
  };
  load.granules = [=](Index) { return groups_.together * groups_.piece; };
  store.flag = store_flag_;
  store.granules = [=](Index group) { return groups_.granules(builder_, group, indices); };
  store.start = [=](Index group, Index buffer) {
    const Index first = add(builder_, multiply(builder_, chunk, chunk_),
                            multiply(builder_, group, groups_.together));
    store_dma_.start(
        builder_.add(result, to_operand(builder_, multiply(builder_, first, groups_.block))),
        at(buffers_, multiply(builder_, buffer, buffer_rows)),
        to_operand(builder_, buffer.plus(store_flag_)), store.granules(group));
  };
  BlockPipeline::Blocks groups;
  groups.count = ceil_divide(indices, groups_.together);
  groups.is_in_place = true;
  BlockPipeline pipeline(builder_, groups, load, store);
  pipeline.run([&](Index group, Index buffer) { pipeline.take_next(group, buffer); });
}

}  // namespace

double gathered_blocks_cycles(const std::vector<std::int64_t>& block, hlo::ElementType type,
                              std::int64_t count, const Target& target) {
  const BlockGroups groups =
      gathered_groups(fewest_registers(block) * hlo::byte_size(type), count, target);
  const double bytes = static_cast<double>(groups.block * isa::kHbmGranuleBytes);
  const std::int64_t pieces = groups.block / groups.piece;
  const double waits = static_cast<double>(pieces * ceil_divide(count, groups.together));
  return kKernelCycles + waits * target.dma_latency_cycles +
         static_cast<double>(count) * (2 * bytes / target.hbm_bytes_per_cycle +
                                       kStartedDmaCycles * static_cast<double>(pieces));
}

LoweredKernel lower_block_gather(const hlo::Module&, const hlo::Computation& computation,
                                 const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Shape& table = computation.at(instruction.operands.at(0)).shape;
  check(computation, instruction);
  return BlockGatherKernel(instruction, table, target).emit();
}

}  // namespace tpu::compiler
