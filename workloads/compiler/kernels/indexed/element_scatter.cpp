#include <algorithm>
#include <optional>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/constant_word.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/indexed/scatter_combiner.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

namespace {

using isa::Opcode;

constexpr std::int64_t kElementsOfGranule = 256;
constexpr std::int64_t kTogetherElements = 8;  ///< Of a straight piece of code.

/// Scatters single elements into a vector, of which a part stands in VMEM while indices and updates
/// pass by in their order, as scalars. Each is stored through a mask of its lane.
class ElementScatterKernel {
 public:
  ElementScatterKernel(const hlo::HloInstruction& instruction, std::int64_t elements,
                       std::int64_t count, const ScatterCombiner& combiner,
                       const hlo::HloInstruction* start, const Target& target)
      : count_(count),
        combiner_(combiner),
        builder_(instruction.name, target),
        granules_(4 * ceil_divide(elements, 4 * kElementsOfGranule)),
        elements_(elements) {
    const auto room = static_cast<std::int64_t>(target.vmem_bytes / 2 / isa::kHbmGranuleBytes);
    if (start != nullptr) start_ = constant_word(*start, combiner.type);
    part_granules_ = std::min(granules_, room / 4 * 4);
    chunk_ = target.kernel_smem_words() >= 2 * 1024 + 64 ? 1024 : 512;
  }

  LoweredKernel emit();

 private:
  void emit_part(Index part, std::int64_t granules);
  void load_chunk(Index chunk);
  void scatter_chunk(std::int64_t count, SReg first, SReg end);
  void scatter_one(Index number, SReg first, SReg end);

  std::int64_t count_;
  ScatterCombiner combiner_;
  std::optional<std::uint32_t> start_;  ///< What the vector has everywhere; else it is operand 0.
  KernelBuilder builder_;
  std::int64_t granules_, elements_, part_granules_ = 0, chunk_ = 0;
  SReg table_, indices_, updates_, result_;
  VmemRegion part_;
  std::uint32_t index_words_ = 0, update_words_ = 0, flag_ = 0;
};

LoweredKernel ElementScatterKernel::emit() {
  if (!start_) table_ = builder_.operand(0);
  indices_ = builder_.operand(1);
  updates_ = builder_.operand(2);
  result_ = builder_.operand(3);
  flag_ = builder_.allocate_flag();
  index_words_ = builder_.allocate_smem(static_cast<std::uint32_t>(chunk_));
  update_words_ = builder_.allocate_smem(static_cast<std::uint32_t>(chunk_));
  // One row more than the part has, for what is not scattered.
  part_ = builder_.allocate_vmem(static_cast<std::uint64_t>(2 * part_granules_ + 8));
  const std::int64_t full = granules_ / part_granules_;
  in_pieces(builder_, full, 1, [&](Index part, std::int64_t) { emit_part(part, part_granules_); });
  if (granules_ % part_granules_ != 0) emit_part({{}, full}, granules_ % part_granules_);
  return lowered_kernel(builder_);
}

void ElementScatterKernel::emit_part(Index part, std::int64_t granules) {
  const Index place = multiply(builder_, part, part_granules_);
  const Index begin = multiply(builder_, part, part_granules_ * kElementsOfGranule);
  if (start_) {
    builder_.new_block();
    fill_tiles(builder_, part_, {}, granules / 4, *start_, 16);
  } else {
    builder_.dma_in(builder_.add(table_, to_operand(builder_, place)), part_, granules, flag_);
    builder_.wait(flag_, granules);
  }
  builder_.new_block();
  const SReg first = builder_.add(to_operand(builder_, begin), 0);
  const SReg last = builder_.add(first, granules * kElementsOfGranule);
  const SReg end = builder_.min(last, elements_);
  const std::int64_t chunks = count_ / chunk_;
  if (chunks > 0) {
    builder_.loop(static_cast<std::uint64_t>(chunks), [&](SReg chunk) {
      load_chunk({chunk, 0});
      scatter_chunk(chunk_, first, end);
    });
  }
  if (count_ % chunk_ != 0) {
    load_chunk({{}, chunks});
    scatter_chunk(count_ % chunk_, first, end);
  }
  builder_.new_block();
  builder_.dma_out(part_, builder_.add(result_, to_operand(builder_, place)), granules, flag_);
  builder_.wait(flag_, granules);
  builder_.new_block();
}

void ElementScatterKernel::load_chunk(Index chunk) {
  const std::int64_t granules = chunk_ / kElementsOfGranule;
  const ScalarOperand place = to_operand(builder_, multiply(builder_, chunk, granules));
  builder_.misc(Opcode::kDmaHbmToSmem,
                {builder_.add(indices_, place), granules, index_words_, flag_});
  builder_.misc(Opcode::kDmaHbmToSmem,
                {builder_.add(updates_, place), granules, update_words_, flag_});
  builder_.wait(flag_, 2 * granules);
  builder_.new_block();
}

void ElementScatterKernel::scatter_chunk(std::int64_t count, SReg first, SReg end) {
  in_pieces(builder_, count, kTogetherElements, [&](Index from, std::int64_t many) {
    for (std::int64_t i = 0; i < many; ++i) scatter_one(from.plus(i), first, end);
  });
  builder_.new_block();
}

void ElementScatterKernel::scatter_one(Index number, SReg first, SReg end) {
  const auto offset = static_cast<std::uint32_t>(number.offset);
  const SReg index = builder_.load_smem(index_words_ + offset, number.reg);
  const SReg update = builder_.load_smem(update_words_ + offset, number.reg);
  const PReg is_below = builder_.less(index, end);
  const PReg is_above = builder_.compare(Opcode::kScmpGeS32, index, first);
  const SReg row = builder_.shift_right(builder_.sub(index, first), 7);
  const SReg place = builder_.select(builder_.and_(is_below, is_above), row, 2 * part_granules_);
  const VReg lanes = builder_.splat(builder_.and_(index, 127));
  const VReg lane = builder_.and_(builder_.lane_sequence(), 127);
  const MReg is_here = builder_.vector_compare(Opcode::kVcmpEqS32, lane, lanes);
  const VmemAddress address = VmemAddress(part_, 0, place).mask(0x1);
  VReg value = builder_.splat(update);
  if (!combiner_.replaces()) {
    value = combined_update(builder_, combiner_, builder_.load(address), value);
  }
  builder_.store(address, is_here, value);
}

}  // namespace

LoweredKernel lower_element_scatter(const hlo::Module& module, const hlo::Computation& computation,
                                    const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Shape& table = computation.at(instruction.operands.at(0)).shape;
  const hlo::Shape& indices = computation.at(instruction.operands.at(1)).shape;
  const hlo::Shape& updates = computation.at(instruction.operands.at(2)).shape;
  const ScatterCombiner combiner{scatter_operation(module.computation(instruction.called.at(0))),
                                 table.type};
  const hlo::GatherDimensions& dimensions = instruction.gather;
  const std::vector<std::int64_t> zero{0};
  const bool is_plain = indices.rank() == 1 && updates.rank() == 1 && updates.type == table.type &&
                        indices.type == hlo::ElementType::kS32 && hlo::byte_size(table.type) == 4 &&
                        dimensions.offset_dims.empty() && dimensions.collapsed_slice_dims == zero &&
                        dimensions.start_index_map == zero && dimensions.index_vector_dim == 1;
  if (!is_plain || combiner.opcode == hlo::HloOpcode::kCount) {
    throw WorkloadError("no kernel for scatter \"" + instruction.name + "\" " +
                        hlo::to_string(table) + ", " + hlo::to_string(indices) + ", " +
                        hlo::to_string(updates) +
                        ": expected vectors of 32 bits and one operation on their elements");
  }
  return ElementScatterKernel(instruction, table.dimensions[0], indices.dimensions[0], combiner,
                              uniform_start(computation, instruction), target)
      .emit();
}

}  // namespace tpu::compiler
