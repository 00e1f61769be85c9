#include "workloads/compiler/codegen/link.h"

#include <algorithm>
#include <array>

#include "isa/opcode_table.h"
#include "sim/base/error.h"
#include "workloads/compiler/codegen/block_scheduler.h"

namespace tpu::compiler {

namespace {

/// Registers of each file that kernels use, as XLA's code does.
constexpr std::array<int, 4> kRegisterCounts{31, 32, 15, 8};

/// The blocks over which a value or variable must keep its register.
struct LiveRange {
  std::uint32_t first = kNowhere;
  std::uint32_t last = 0;
  RegisterFile file = RegisterFile::kScalar;
  std::uint8_t* fixed = nullptr;  ///< While registers are assigned: then values are added.
  std::uint8_t assigned = isa::kNoRegister;
};

class RegisterAssignment {
 public:
  explicit RegisterAssignment(KernelDraft& draft) : draft_(draft) {}

  /// False when too many values live across blocks.
  bool run() {
    resolve_foreign_reads();
    find_ranges();
    std::stable_sort(ranges_.begin(), ranges_.end(),
                     [](const LiveRange& a, const LiveRange& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (!assign(i)) return false;
    }
    for (LiveRange& range : ranges_) range.assigned = *range.fixed;
    return true;
  }

  /// Per file, the registers that nothing holds over the block.
  std::array<std::uint32_t, 4> free_registers(std::uint32_t block) const {
    std::array<std::uint32_t, 4> pools{};
    for (std::size_t file = 0; file < pools.size(); ++file) {
      pools[file] = static_cast<std::uint32_t>((std::uint64_t{1} << kRegisterCounts[file]) - 1);
    }
    for (const LiveRange& range : ranges_) {
      if (range.first <= block && block <= range.last) {
        pools[static_cast<std::size_t>(range.file)] &= ~(1U << range.assigned);
      }
    }
    return pools;
  }

 private:
  /// A variable's value at the begin of one block that another block reads becomes the value at the
  /// begin of that block; the variable must be the same in between.
  void resolve_foreign_reads();
  std::uint32_t entry_value(std::uint32_t block, std::uint32_t variable);
  void check_unassigned(std::uint32_t variable, std::uint32_t from, std::uint32_t to) const;
  void find_ranges();
  void extend(LiveRange& range, std::uint32_t born, std::uint32_t used) const;
  bool assign(std::size_t index);
  template <class Visit>
  static void for_each_read(Block& block, Visit&& visit);

  KernelDraft& draft_;
  std::vector<LiveRange> ranges_;
};

template <class Visit>
void RegisterAssignment::for_each_read(Block& block, Visit&& visit) {
  for (Node& node : block.nodes) {
    if (node.guard.is_value()) visit(node.guard.payload);
    for (Source& source : node.sources) {
      if (source.is_value()) visit(source.payload);
    }
    for (std::uint32_t& base : node.base) {
      if (base != 0) visit(base);
    }
    if (node.mask_register != 0) visit(node.mask_register);
  }
  if (block.condition.is_value()) visit(block.condition.payload);
}

std::uint32_t RegisterAssignment::entry_value(std::uint32_t block, std::uint32_t variable) {
  auto& entries = draft_.blocks[block].entry_values;
  const auto [entry, added] = entries.try_emplace(variable, 0);
  if (added) {
    ValueInfo info;
    info.file = draft_.variables[variable].file;
    info.block = block;
    info.variable = variable;
    entry->second = static_cast<std::uint32_t>(draft_.values.size());
    draft_.values.push_back(info);
  }
  return entry->second;
}

void RegisterAssignment::check_unassigned(std::uint32_t variable, std::uint32_t from,
                                          std::uint32_t to) const {
  for (std::uint32_t block = from; block < to; ++block) {
    for (const auto& [assigned, value] : draft_.blocks[block].assigned) {
      TPU_CHECK(assigned != variable, draft_.name << ": a value read from a variable in block "
                                                  << from << " is used in block " << to
                                                  << ", but block " << block
                                                  << " assigns the variable: copy the value");
    }
  }
}

void RegisterAssignment::resolve_foreign_reads() {
  for (std::uint32_t block = 0; block < draft_.blocks.size(); ++block) {
    for_each_read(draft_.blocks[block], [&](std::uint32_t& value) {
      const ValueInfo info = draft_.values[value];
      if (info.variable == kNowhere || info.block == block) return;
      check_unassigned(info.variable, info.block, block);
      for (const LoopRange& loop : draft_.loops) {
        const bool inside = loop.first <= block && block <= loop.last;
        if (inside && info.block < loop.first) {
          check_unassigned(info.variable, loop.first, loop.last + 1);
        }
      }
      value = entry_value(block, info.variable);
    });
  }
}

void RegisterAssignment::extend(LiveRange& range, std::uint32_t born, std::uint32_t used) const {
  range.last = std::max(range.last, used);
  for (bool grown = true; grown;) {
    grown = false;
    for (const LoopRange& loop : draft_.loops) {
      const bool inside = loop.first <= range.last && range.last < loop.last;
      if (inside && born < loop.first) {
        range.last = loop.last;
        grown = true;
      }
    }
  }
}

void RegisterAssignment::find_ranges() {
  std::vector<LiveRange> values(draft_.values.size());
  std::vector<LiveRange> variables(draft_.variables.size());
  for (std::uint32_t block = 0; block < draft_.blocks.size(); ++block) {
    const auto touch = [&](std::uint32_t variable) {
      LiveRange& range = variables[variable];
      range.first = draft_.variables[variable].block;
      extend(range, range.first, block);
    };
    for_each_read(draft_.blocks[block], [&](std::uint32_t value) {
      const ValueInfo& info = draft_.values[value];
      if (info.variable != kNowhere) return touch(info.variable);
      if (info.block == block) return;
      const std::uint32_t born = info.block == kNowhere ? 0 : info.block;
      values[value].first = born;
      extend(values[value], born, block);
    });
    for (const auto& [variable, value] : draft_.blocks[block].assigned) touch(variable);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].first == kNowhere) continue;
    values[i].file = draft_.values[i].file;
    values[i].fixed = &draft_.values[i].fixed;
    ranges_.push_back(values[i]);
  }
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].first == kNowhere) continue;
    variables[i].file = draft_.variables[i].file;
    variables[i].fixed = &draft_.variables[i].fixed;
    ranges_.push_back(variables[i]);
  }
}

bool RegisterAssignment::assign(std::size_t index) {
  LiveRange& range = ranges_[index];
  if (*range.fixed != isa::kNoRegister) return true;
  std::uint32_t taken = 0;
  for (const LiveRange& other : ranges_) {
    if (&other == &range || other.file != range.file || *other.fixed == isa::kNoRegister) continue;
    if (other.first <= range.last && range.first <= other.last) taken |= 1U << *other.fixed;
  }
  for (int reg = 0; reg < kRegisterCounts[static_cast<std::size_t>(range.file)]; ++reg) {
    if ((taken >> reg & 1) == 0) {
      *range.fixed = static_cast<std::uint8_t>(reg);
      return true;
    }
  }
  return false;
}

/// Results that wait in the queues must be as many on every way into a block.
class QueueCheck {
 public:
  explicit QueueCheck(const KernelDraft& draft) : draft_(draft), at_begin_(draft.blocks.size()) {}

  void enter(std::uint32_t block, const std::vector<std::uint32_t>& pending) {
    expect(block, pending);
  }
  void leave(std::uint32_t block, const std::vector<std::uint32_t>& pending) {
    if (draft_.blocks[block].branches) expect(draft_.blocks[block].target, pending);
  }

 private:
  void expect(std::uint32_t block, const std::vector<std::uint32_t>& pending) {
    if (at_begin_[block].empty()) at_begin_[block] = pending;
    TPU_CHECK(at_begin_[block] == pending, draft_.name
                                               << ": two ways into block " << block
                                               << " leave different numbers of results in a queue");
  }
  const KernelDraft& draft_;
  std::vector<std::vector<std::uint32_t>> at_begin_;
};

void append(isa::Kernel& kernel, const ScheduledBlock& block) {
  std::int32_t next = 0;
  std::size_t i = 0;
  while (next < block.length) {
    isa::Bundle bundle;
    bundle.first_instruction = static_cast<std::uint32_t>(kernel.instructions.size());
    for (; i < block.instructions.size() && block.instructions[i].cycle == next; ++i) {
      kernel.instructions.push_back(block.instructions[i].instruction);
      ++bundle.instruction_count;
    }
    std::stable_sort(kernel.instructions.begin() + bundle.first_instruction,
                     kernel.instructions.end(),
                     [](const isa::Instruction& a, const isa::Instruction& b) {
                       return isa::info(a.opcode).slot < isa::info(b.opcode).slot;
                     });
    std::int32_t following =
        i < block.instructions.size() ? block.instructions[i].cycle : block.length;
    if (block.branches && next < block.length - 1)
      following = std::min(following, block.length - 1);
    bundle.delay = static_cast<std::uint32_t>(following - next - 1);
    kernel.bundles.push_back(bundle);
    next = following;
  }
}

/// A block with as few values waiting in the space as make it possible. What is scheduled ahead of
/// its place takes registers, too, so that less than all may be needed in program order.
std::optional<ScheduledBlock> schedule(BlockScheduler& scheduler, KernelDraft& draft,
                                       std::uint32_t block,
                                       const std::array<std::uint32_t, 4>& free_registers,
                                       SpillSpace* space) {
  std::optional<ScheduledBlock> scheduled = scheduler.schedule(block, free_registers);
  for (std::uint32_t spared = 2; !scheduled && space != nullptr; spared *= 2) {
    const RegisterFile file = scheduler.lacking();
    const auto free = static_cast<std::uint32_t>(
        __builtin_popcount(free_registers[static_cast<std::size_t>(file)]));
    if (spared >= free) return std::nullopt;
    if (spill(draft, block, file, free - spared, *space)) {
      scheduled = scheduler.schedule(block, free_registers);
    }
  }
  return scheduled;
}

}  // namespace

std::optional<isa::Kernel> link(KernelDraft& draft, const Target& target, SpillSpace* space) {
  RegisterAssignment assignment(draft);
  if (!assignment.run()) return std::nullopt;
  BlockScheduler scheduler(draft, target);
  QueueCheck queues(draft);
  isa::Kernel kernel;
  kernel.name = draft.name;
  std::vector<std::uint32_t> first_bundle;
  for (std::uint32_t block = 0; block < draft.blocks.size(); ++block) {
    first_bundle.push_back(static_cast<std::uint32_t>(kernel.bundles.size()));
    queues.enter(block, scheduler.units().pending_results());
    const auto scheduled =
        schedule(scheduler, draft, block, assignment.free_registers(block), space);
    if (!scheduled) {
      draft.crowded_block = block;
      return std::nullopt;
    }
    append(kernel, *scheduled);
    std::uint64_t times = 1;
    for (const LoopRange& loop : draft.loops) {
      if (loop.first <= block && block <= loop.last) times *= loop.trips;
    }
    draft.cycles += times * static_cast<std::uint64_t>(scheduled->length);
    queues.leave(block, scheduler.units().pending_results());
  }
  for (isa::Instruction& instruction : kernel.instructions) {
    if (instruction.opcode != isa::Opcode::kSbrRel) continue;
    instruction.operands[0].immediate = first_bundle[instruction.operands[0].immediate];
  }
  for (std::uint32_t pending : scheduler.units().pending_results()) {
    TPU_CHECK(pending == 0, draft.name << ": the kernel ends with results in a queue");
  }
  return kernel;
}

}  // namespace tpu::compiler
