#include <algorithm>
#include <memory>
#include <optional>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/constant_word.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/indexed/block_groups.h"
#include "workloads/compiler/kernels/indexed/index_words.h"
#include "workloads/compiler/kernels/indexed/scatter_combiner.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/tiles/block_pipeline.h"
#include "workloads/compiler/kernels/tiles/box_dma.h"

namespace tpu::compiler {

namespace {

/// Updates of a group, a power of two: each is compared with those before it.
constexpr std::int64_t kMostUpdates = 16;
/// Registers that are combined in one piece of straight code.
constexpr std::int64_t kRegistersTogether = 8;
constexpr std::int64_t kRegisterGranules = 4, kRegisterRows = 8;

/// Two buffers of updates and one of blocks, which has a spare one.
BlockGroups scattered_groups(std::int64_t block_granules, std::int64_t count,
                             const Target& target) {
  const auto vmem = static_cast<std::int64_t>(target.vmem_bytes / isa::kHbmGranuleBytes);
  const std::int64_t piece = std::min<std::int64_t>(1024, vmem / 8);
  return {block_granules, count, {kRegisterGranules, piece, vmem / 4, kMostUpdates}};
}

/// Scatter of blocks of whole tiles into a table where it stands. The blocks that a group of
/// updates is for come to VMEM, are combined with them one after the other, and go back before
/// those of the next group come, whose updates are on their way meanwhile. Updates of a group with
/// the same number meet in the first one's block, which goes back for each of them. Those without a
/// block of the table meet a spare one.
class BlockScatterKernel {
 public:
  BlockScatterKernel(const hlo::HloInstruction& instruction, const hlo::Shape& updates,
                     const ScatterCombiner& combiner, const hlo::HloInstruction* start,
                     const Target& target)
      : combiner_(combiner),
        builder_(instruction.name, target),
        table_blocks_(instruction.shape.dimensions[0]),
        count_(updates.dimensions[0]),
        chunk_(indices_at_once(target)),
        groups_(
            scattered_groups(static_cast<std::int64_t>(granules(instruction.shape)) / table_blocks_,
                             count_, target)) {
    if (start != nullptr) start_ = constant_word(*start, combiner.type);
  }

  LoweredKernel emit();

 private:
  std::int64_t piece_rows() const { return 2 * groups_.piece; }
  void fill_table(SReg result);
  void emit_chunk(Index chunk, std::int64_t indices, SReg table, SReg updates);
  void add_group(Index group, Index buffer, std::int64_t indices, SReg table);
  void find_blocks(Index first, std::int64_t indices);
  void find_slots();
  void combine(SReg update, Index buffer);

  ScatterCombiner combiner_;
  std::optional<std::uint32_t> start_;  ///< What the table has everywhere; else it is there.
  KernelBuilder builder_;
  std::int64_t table_blocks_, count_, chunk_;
  BlockGroups groups_;
  std::unique_ptr<IndexWords> numbers_;
  VmemRegion blocks_, updates_;
  BoxDma load_dma_, store_dma_, update_dma_;
  std::uint32_t block_flag_ = 0, update_flag_ = 0;
  /// Of each update its block, the slot in which that stands, and the spare slot's number where it
  /// has none (else 0).
  std::uint32_t numbers_of_blocks_ = 0, slots_ = 0, spares_ = 0;
};

LoweredKernel BlockScatterKernel::emit() {
  const SReg numbers = builder_.operand(1), updates = builder_.operand(2);
  const SReg result = builder_.operand(3);
  block_flag_ = builder_.allocate_flag();
  update_flag_ = BlockPipeline::allocate_flags(builder_);
  numbers_ = std::make_unique<IndexWords>(builder_, numbers, count_, chunk_);
  for (std::uint32_t* words : {&numbers_of_blocks_, &slots_, &spares_}) {
    *words = builder_.allocate_smem(static_cast<std::uint32_t>(groups_.together));
  }
  blocks_ =
      builder_.allocate_vmem(static_cast<std::uint64_t>((groups_.together + 1) * piece_rows()));
  updates_ =
      builder_.allocate_vmem(static_cast<std::uint64_t>(2 * groups_.together * piece_rows()));
  const auto run = static_cast<std::uint32_t>(groups_.piece);
  load_dma_ = BoxDma(builder_, true, {run, 1, run});
  store_dma_ = BoxDma(builder_, false, {run, 1, run});
  update_dma_ = BoxDma(builder_, true, groups_.box());
  if (start_) fill_table(result);
  repeat(builder_, groups_.block / groups_.piece, [&](Index piece) {
    const ScalarOperand right = to_operand(builder_, multiply(builder_, piece, groups_.piece));
    const SReg table = builder_.add(result, right), from = builder_.add(updates, right);
    numbers_->for_each_chunk(
        [&](Index chunk, std::int64_t indices) { emit_chunk(chunk, indices, table, from); });
  });
  return lowered_kernel(builder_);
}

void BlockScatterKernel::fill_table(SReg result) {
  const std::int64_t room = groups_.together * groups_.piece, all = groups_.block * table_blocks_;
  builder_.new_block();
  fill_tiles(builder_, blocks_, {}, room / kRegisterGranules, *start_, 16);
  builder_.new_block();
  const auto store = [&](Index part, std::int64_t granules) {
    const ScalarOperand to = to_operand(builder_, multiply(builder_, part, room));
    builder_.dma_out(blocks_, builder_.add(result, to), granules, block_flag_);
  };
  const std::int64_t full = all / room;
  // One is under way while the next one starts.
  store({}, std::min(room, all));
  if (full > 1) {
    builder_.loop(static_cast<std::uint64_t>(full - 1), [&](SReg part) {
      store({part, 1}, room);
      builder_.wait(block_flag_, room);
    });
  }
  if (full > 0 && all % room != 0) store({{}, full}, all % room);
  builder_.wait(block_flag_, full > 0 ? room + all % room : all);
  builder_.new_block();
}

void BlockScatterKernel::emit_chunk(Index chunk, std::int64_t indices, SReg table, SReg updates) {
  BlockPipeline::Transfer load;
  load.flag = update_flag_;
  load.granules = [=](Index group) { return groups_.granules(builder_, group, indices); };
  load.start = [=](Index group, Index buffer) {
    const Index first = add(builder_, multiply(builder_, chunk, chunk_),
                            multiply(builder_, group, groups_.together));
    update_dma_.start(
        builder_.add(updates, to_operand(builder_, multiply(builder_, first, groups_.block))),
        at(updates_, multiply(builder_, buffer, groups_.together * piece_rows())),
        to_operand(builder_, buffer.plus(update_flag_)), load.granules(group));
  };
  const std::int64_t count = ceil_divide(indices, groups_.together);
  BlockPipeline(builder_, {count}, load, {}).run([&](Index group, Index buffer) {
    add_group(group, buffer, indices, table);
  });
}

void BlockScatterKernel::add_group(Index group, Index buffer, std::int64_t indices, SReg table) {
  const std::int64_t all = groups_.together * groups_.piece;
  const auto block_of = [&](std::int64_t i) {
    return builder_.load_smem(numbers_of_blocks_ + static_cast<std::uint32_t>(i));
  };
  const auto place_of = [&](SReg block) {
    return builder_.add(table, builder_.mul(block, static_cast<std::uint32_t>(groups_.block)));
  };
  builder_.new_block();
  find_blocks(multiply(builder_, group, groups_.together), indices);
  builder_.new_block();
  for (std::int64_t i = 0; i < groups_.together; ++i) {
    load_dma_.start(place_of(block_of(i)), at(blocks_, {{}, i * piece_rows()}), block_flag_,
                    groups_.piece);
  }
  find_slots();
  builder_.wait(block_flag_, all);
  builder_.new_block();
  builder_.loop(static_cast<std::uint64_t>(groups_.together),
                [&](SReg update) { combine(update, buffer); });
  builder_.new_block();
  for (std::int64_t i = 0; i < groups_.together; ++i) {
    const SReg slot = builder_.load_smem(slots_ + static_cast<std::uint32_t>(i));
    const Index from = multiply(builder_, {slot, 0}, piece_rows());
    store_dma_.start(place_of(block_of(i)), at(blocks_, from), block_flag_, groups_.piece);
  }
  builder_.wait(block_flag_, all);
  builder_.new_block();
}

/// Numbers behind the last one are whatever SMEM holds; they are for no block.
void BlockScatterKernel::find_blocks(Index first, std::int64_t indices) {
  for (std::int64_t i = 0; i < groups_.together; ++i) {
    const SReg number = numbers_->get(first.plus(i));
    const SReg block = builder_.min(builder_.max(number, 0), table_blocks_ - 1);
    PReg has_block = builder_.equal(number, block);
    if (indices % groups_.together != 0) {
      const SReg place = builder_.add(to_operand(builder_, first.plus(i)), 0);
      has_block = builder_.and_(has_block, builder_.less(place, indices));
    }
    const auto word = static_cast<std::uint32_t>(i);
    builder_.store_smem(numbers_of_blocks_ + word, block);
    builder_.store_smem(spares_ + word, builder_.select(has_block, 0, groups_.together));
  }
}

/// The slot of the first update with the same block.
void BlockScatterKernel::find_slots() {
  for (std::int64_t i = 0; i < groups_.together; ++i) {
    const auto word = static_cast<std::uint32_t>(i);
    const SReg block = builder_.load_smem(numbers_of_blocks_ + word);
    SReg slot = builder_.constant(word);
    for (std::int64_t before = i; before-- > 0;) {
      const SReg other =
          builder_.load_smem(numbers_of_blocks_ + static_cast<std::uint32_t>(before));
      slot = builder_.select(builder_.equal(other, block), before, slot);
    }
    builder_.store_smem(slots_ + word, slot);
  }
}

void BlockScatterKernel::combine(SReg update, Index buffer) {
  const SReg slot =
      builder_.max(builder_.load_smem(slots_, update), builder_.load_smem(spares_, update));
  const Index to = multiply(builder_, {slot, 0}, piece_rows());
  const Index from = add(builder_, multiply(builder_, buffer, groups_.together * piece_rows()),
                         multiply(builder_, {update, 0}, piece_rows()));
  in_pieces(builder_, groups_.piece / kRegisterGranules, kRegistersTogether,
            [&](Index first, std::int64_t many) {
              const Index row = multiply(builder_, first, kRegisterRows);
              for (std::int64_t i = 0; i < many; ++i) {
                const Index right = row.plus(kRegisterRows * i);
                const VmemAddress sum = at(blocks_, add(builder_, to, right));
                VReg value = builder_.load(at(updates_, add(builder_, from, right)));
                if (!combiner_.replaces()) {
                  value = combined_update(builder_, combiner_, builder_.load(sum), value);
                }
                builder_.store(sum, value);
              }
            });
}

}  // namespace

double scattered_blocks_cycles(const std::vector<std::int64_t>& block, std::int64_t count,
                               const Target& target) {
  // Measured: what an update takes beside its bytes, each comparison of two, and each register.
  constexpr double kUpdateCycles = 30, kComparedCycles = 1, kCombinedRegisterCycles = 1.5;
  const BlockGroups groups =
      scattered_groups(kRegisterGranules * fewest_registers(block), count, target);
  const auto pieces = static_cast<double>(groups.block / groups.piece);
  const auto together = static_cast<double>(groups.together);
  const auto bytes = static_cast<double>(groups.block * isa::kHbmGranuleBytes);
  const double waits = pieces * static_cast<double>(ceil_divide(count, groups.together));
  const double registers = static_cast<double>(groups.block / kRegisterGranules);
  return kKernelCycles +
         waits * (2 * target.dma_latency_cycles + kUpdateCycles * together +
                  kComparedCycles * together * together) +
         static_cast<double>(count) *
             (3 * bytes / target.hbm_bytes_per_cycle + kCombinedRegisterCycles * registers);
}

LoweredKernel lower_block_scatter(const hlo::Module& module, const hlo::Computation& computation,
                                  const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Shape& table = instruction.shape;
  const hlo::Shape& indices = computation.at(instruction.operands.at(1)).shape;
  const hlo::Shape& updates = computation.at(instruction.operands.at(2)).shape;
  const ScatterCombiner combiner{scatter_operation(module.computation(instruction.called.at(0))),
                                 table.type};
  const std::vector<std::int64_t> zero{0};
  const hlo::GatherDimensions& dimensions = instruction.gather;
  std::vector<std::int64_t> block = table.dimensions, update = updates.dimensions;
  block[0] = update[0] = 1;
  const bool is_of_blocks = indices.rank() == 1 && block == update &&
                            dimensions.collapsed_slice_dims == zero &&
                            dimensions.start_index_map == zero && dimensions.index_vector_dim == 1;
  const std::vector<std::int64_t> order = major_to_minor(table);
  const bool lie_alike = lies_for_parts(computation, instruction, order) &&
                         order == major_to_minor(updates) && table.type == updates.type &&
                         hlo::byte_size(table.type) == 4 && indices.type == hlo::ElementType::kS32;
  if (!is_of_blocks || !lie_alike || combiner.opcode == hlo::HloOpcode::kCount) {
    throw WorkloadError("no kernel for scatter \"" + instruction.name + "\" " +
                        hlo::to_string(table) + ", " + hlo::to_string(indices) + ", " +
                        hlo::to_string(updates) +
                        ": expected blocks of whole tiles of 32 bits by a vector of numbers");
  }
  return BlockScatterKernel(instruction, updates, combiner, uniform_start(computation, instruction),
                            target)
      .emit();
}

}  // namespace tpu::compiler
