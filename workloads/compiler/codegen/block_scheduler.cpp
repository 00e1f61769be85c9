#include "workloads/compiler/codegen/block_scheduler.h"

#include <algorithm>

#include "isa/opcode_table.h"
#include "sim/base/error.h"

namespace tpu::compiler {

using isa::Opcode;
using isa::Slot;

namespace {

/// How far a lazy node may stand before its reader.
constexpr std::int32_t kWindow = 96;
/// A lazy tree of more nodes than this is cut: its parts are placed in program order.
constexpr int kLazyWeight = 12;
/// Cycles that a node is pushed back before the block counts as impossible.
constexpr std::int32_t kPatience = 20000;

constexpr int kSmemSlot = static_cast<int>(Slot::kCount);

int capacity(int slot) {
  const auto kind = static_cast<Slot>(slot);
  return kind == Slot::kScalar || kind == Slot::kVectorAlu ? 2 : 1;
}

bool uses_smem(Opcode opcode) { return isa::info(opcode).takes_smem_port; }

/// Nodes that compute a result from registers, immediates and VMEM alone.
bool is_pure(const Node& node) {
  const isa::OpcodeInfo& row = isa::info(node.opcode);
  if (node.dest == 0 || row.queue != isa::Queue::kNone || node.opcode == Opcode::kSld) return false;
  return row.slot == Slot::kScalar || row.slot == Slot::kVectorAlu || row.slot == Slot::kVectorLoad;
}

}  // namespace

template <class Visit>
void BlockScheduler::for_each_source(const Node& node, Visit&& visit) {
  if (node.guard.is_value()) visit(node.guard.payload);
  for (const Source& source : node.sources) {
    if (source.is_value()) visit(source.payload);
  }
  for (std::uint32_t base : node.base) {
    if (base != 0) visit(base);
  }
  if (node.mask_register != 0) visit(node.mask_register);
}

BlockScheduler::BlockScheduler(const KernelDraft& draft, const Target& target)
    : draft_(draft),
      latencies_(latencies_of(target)),
      units_(target, draft.name),
      values_(draft.values.size()) {}

bool BlockScheduler::crosses_blocks(std::uint32_t value) const {
  return draft_.values[value].fixed != isa::kNoRegister;
}

/// The variable that takes this value over at the end of the block; kNowhere: none.
std::uint32_t BlockScheduler::owner(std::uint32_t value) const {
  for (const auto& [variable, assigned] : draft_.blocks[block_].assigned) {
    if (assigned == value) return variable;
  }
  return kNowhere;
}

void BlockScheduler::begin(std::uint32_t block,
                           const std::array<std::uint32_t, 4>& free_registers) {
  block_ = block;
  values_.resize(draft_.values.size());
  nodes_ = draft_.blocks[block].nodes;
  states_.assign(nodes_.size(), {});
  registers_.clear();
  for (std::uint32_t pool : free_registers) registers_.emplace_back(pool);
  for (auto& slot : slots_) slot.clear();
  first_free_.fill(0);
  pending_loads_.clear();
  memory_.begin_block();
  units_.begin_block();
  result_ = {};
  end_ = 1;
}

/// What has an effect, what a variable takes over, what other blocks read, the condition of the
/// branch, and what those read.
void BlockScheduler::mark_live() {
  const Block& block = draft_.blocks[block_];
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].dest != 0) values_[nodes_[i].dest].node = i;
  }
  const auto read = [&](std::uint32_t value) {
    ++values_[value].readers;
    if (values_[value].node != kNowhere && draft_.values[value].block == block_ &&
        draft_.values[value].variable == kNowhere) {
      states_[values_[value].node].live = true;
    }
  };
  if (block.condition.is_value()) read(block.condition.payload);
  for (const auto& [variable, value] : block.assigned) read(value);
  for (std::uint32_t i = static_cast<std::uint32_t>(nodes_.size()); i-- > 0;) {
    const Node& node = nodes_[i];
    if (!is_pure(node) || crosses_blocks(node.dest)) states_[i].live = true;
    if (states_[i].live) for_each_source(node, read);
  }
}

void BlockScheduler::classify() {
  const Block& block = draft_.blocks[block_];
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    NodeState& state = states_[i];
    if (!state.live) continue;
    int weight = 1;
    for_each_source(nodes_[i], [&](std::uint32_t value) {
      const std::uint32_t source = values_[value].node;
      if (source == kNowhere || draft_.values[value].block != block_ ||
          draft_.values[value].variable != kNowhere) {
        return;
      }
      if (states_[source].transient) state.transient = true;
      if (states_[source].lazy) weight += states_[source].weight;
    });
    const bool pure = is_pure(nodes_[i]);
    if (!pure && nodes_[i].dest != 0) state.transient = true;
    state.lazy = pure && !state.transient && weight <= kLazyWeight &&
                 !crosses_blocks(nodes_[i].dest) && owner(nodes_[i].dest) == kNowhere &&
                 !(block.condition.is_value() && block.condition.payload == nodes_[i].dest);
    if (pure && weight > kLazyWeight) state.transient = true;
    state.weight = static_cast<std::uint8_t>(std::min(weight, 255));
  }
}

std::optional<ScheduledBlock> BlockScheduler::schedule(
    std::uint32_t block, const std::array<std::uint32_t, 4>& free_registers) {
  ScheduleMemo& memo = ScheduleMemo::of_process();
  if (!memo.keeps()) return schedule_anew(block, free_registers);
  std::string key = BlockKey(draft_, block).take(free_registers, units_);
  if (const BlockSchedule* known = memo.find(key)) {
    lacking_ = known->lacking;
    if (known->block) units_.leave_block(known->pending);
    return known->block;
  }
  BlockSchedule schedule;
  schedule.block = schedule_anew(block, free_registers);
  schedule.lacking = lacking_;
  schedule.pending = units_.pending_results();
  memo.add(std::move(key), schedule);
  return std::move(schedule.block);
}

std::optional<ScheduledBlock> BlockScheduler::schedule_anew(
    std::uint32_t block, const std::array<std::uint32_t, 4>& free_registers) {
  const UnitState units = units_;
  begin(block, free_registers);
  mark_live();
  classify();
  if (!place_all()) {
    retract(units);
    return std::nullopt;
  }
  result_.length = end_;
  std::stable_sort(
      result_.instructions.begin(), result_.instructions.end(),
      [](const PlacedInstruction& a, const PlacedInstruction& b) { return a.cycle < b.cycle; });
  return std::move(result_);
}

/// Undoes what begin() and what was placed since have changed for later blocks.
void BlockScheduler::retract(const UnitState& units) {
  units_ = units;
  release_gathered();
  for (const Node& node : nodes_) {
    if (node.dest != 0) values_[node.dest] = {};
    for_each_source(node, [&](std::uint32_t value) { values_[value] = {}; });
  }
  for (const auto& [variable, value] : draft_.blocks[block_].assigned) values_[value] = {};
}

bool BlockScheduler::place_all() {
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    NodeState& state = states_[i];
    if (!state.live) continue;
    state.floor = memory_.floor();
    if (!state.lazy) {
      if (!place_node(i)) return false;
    } else if (nodes_[i].region != 0) {
      pending_loads_.push_back(i);
    }
  }
  if (!copy_variables()) return false;
  end_ = std::max(end_, units_.all_ready());
  return !draft_.blocks[block_].branches || place_branch();
}

std::int32_t BlockScheduler::latency_of(std::uint32_t value) const {
  const std::uint32_t node = values_[value].node;
  return static_cast<std::int32_t>(isa::result_latency(nodes_[node].opcode, latencies_));
}

// Slots.

bool BlockScheduler::slot_free(Opcode opcode, std::int32_t cycle) {
  const auto at = static_cast<std::size_t>(cycle);
  const int slot = static_cast<int>(isa::info(opcode).slot);
  for (int kind : {slot, uses_smem(opcode) ? kSmemSlot : slot}) {
    auto& used = slots_[static_cast<std::size_t>(kind)];
    if (used.size() <= at) used.resize(at * 2 + 256, 0);
    if (used[at] >= capacity(kind)) return false;
  }
  return true;
}

void BlockScheduler::use_slot(Opcode opcode, std::int32_t cycle, int change) {
  const auto at = static_cast<std::size_t>(cycle);
  const int slot = static_cast<int>(isa::info(opcode).slot);
  slots_[static_cast<std::size_t>(slot)][at] =
      static_cast<std::uint8_t>(slots_[static_cast<std::size_t>(slot)][at] + change);
  if (uses_smem(opcode)) {
    slots_[kSmemSlot][at] = static_cast<std::uint8_t>(slots_[kSmemSlot][at] + change);
  }
}

// Placement of a node and of the lazy nodes that it needs.

/// Collects the node and the lazy nodes below it that stand nowhere yet.
void BlockScheduler::gather(std::uint32_t node) {
  states_[node].gathered = true;
  for_each_source(nodes_[node], [&](std::uint32_t value) {
    const std::uint32_t source = values_[value].node;
    if (source == kNowhere || draft_.values[value].block != block_ ||
        draft_.values[value].variable != kNowhere) {
      return;
    }
    if (states_[source].cycle < 0 && !states_[source].gathered) gather(source);
  });
  gathered_.push_back(node);
}

/// First cycle that operands, memory and unit allow, slots and registers not considered.
void BlockScheduler::compute_earliest(std::uint32_t index) {
  const Node& node = nodes_[index];
  NodeState& state = states_[index];
  std::int32_t earliest = std::max({0, memory_.earliest(node), units_.earliest(node)});
  if (node.region != 0) earliest = std::max(earliest, state.floor);
  for_each_source(node, [&](std::uint32_t value) {
    const std::uint32_t source = values_[value].node;
    if (source == kNowhere || draft_.values[value].block != block_ ||
        draft_.values[value].variable != kNowhere) {
      return;
    }
    const NodeState& from = states_[source];
    const std::int32_t cycle = from.cycle >= 0 ? from.cycle : from.earliest;
    earliest = std::max(earliest, cycle + latency_of(value));
  });
  const auto slot = static_cast<std::size_t>(isa::info(node.opcode).slot);
  const auto& used = slots_[slot];
  std::int32_t& first_free = first_free_[slot];
  while (static_cast<std::size_t>(first_free) < used.size() &&
         used[static_cast<std::size_t>(first_free)] >= capacity(static_cast<int>(slot))) {
    ++first_free;
  }
  state.earliest = std::max(earliest, first_free);
}

/// Places loads that wait for a reader and may read what the node is about to overwrite. Those that
/// the node itself needs precede it anyway.
bool BlockScheduler::force_loads(std::uint32_t index) {
  const Node& node = nodes_[index];
  if (node.region == 0 || node.dest != 0) return true;
  if (node.opcode == Opcode::kDmaVmemToHbm || node.reads_vmem) return true;
  std::vector<std::uint32_t> forced;
  std::size_t kept = 0;
  for (const std::uint32_t load : pending_loads_) {
    if (states_[load].cycle >= 0) continue;
    const bool force = !states_[load].gathered && MemoryOrder::overlap(nodes_[load], node);
    if (force) {
      forced.push_back(load);
    } else {
      pending_loads_[kept++] = load;
    }
  }
  pending_loads_.resize(kept);
  if (forced.empty()) return true;
  release_gathered();
  for (const std::uint32_t load : forced) {
    if (!place_node(load)) return false;
  }
  gather(index);
  return true;
}

void BlockScheduler::release_gathered() {
  for (const std::uint32_t each : gathered_) states_[each].gathered = false;
  gathered_.clear();
}

bool BlockScheduler::place_node(std::uint32_t node) {
  gather(node);
  if (!force_loads(node)) return false;
  std::sort(gathered_.begin(), gathered_.end());
  for (std::uint32_t each : gathered_) compute_earliest(each);
  std::int32_t cycle = states_[node].earliest;
  const std::int32_t last = cycle + kPatience;
  while (!attempt(cycle)) {
    if (++cycle >= last) return false;
  }
  commit();
  release_gathered();
  return true;
}

/// Tries to place the last gathered node in the cycle and the others before it.
bool BlockScheduler::attempt(std::int32_t cycle) {
  attempt_.clear();
  const bool done = attempt_cycles(cycle) && attempt_registers();
  if (!done) {
    for (const Attempt& each : attempt_) {
      use_slot(nodes_[each.node].opcode, each.cycle, -1);
      states_[each.node].cycle = -1;
    }
  }
  return done;
}

bool BlockScheduler::attempt_cycles(std::int32_t cycle) {
  for (std::uint32_t each : gathered_) states_[each].deadline = cycle;
  for (std::size_t i = gathered_.size(); i-- > 0;) {
    const std::uint32_t index = gathered_[i];
    NodeState& state = states_[index];
    const Node& node = nodes_[index];
    const bool is_root = i + 1 == gathered_.size();
    const std::int32_t first = is_root ? cycle : std::max(state.earliest, state.deadline - kWindow);
    std::int32_t at = state.deadline;
    while (at >= first && !slot_free(node.opcode, at)) --at;
    if (at < first) return false;
    state.cycle = at;
    use_slot(node.opcode, at, 1);
    attempt_.push_back({index, at, isa::kNoRegister, false, {}});
    for_each_source(node, [&](std::uint32_t value) {
      const std::uint32_t source = values_[value].node;
      if (source == kNowhere || draft_.values[value].block != block_ ||
          draft_.values[value].variable != kNowhere || !states_[source].gathered) {
        return;
      }
      states_[source].deadline = std::min(states_[source].deadline, at - latency_of(value));
    });
  }
  return true;
}

/// All readers of the value that the variable has at the block's begin stand in this cycle or
/// before.
bool BlockScheduler::variable_is_read(std::uint32_t variable, std::int32_t cycle) const {
  const auto& entries = draft_.blocks[block_].entry_values;
  const auto entry = entries.find(variable);
  if (entry == entries.end()) return true;
  std::uint32_t readers = values_[entry->second].readers;
  std::int32_t last_read = values_[entry->second].last_read;
  for (const Attempt& reader : attempt_) {
    for_each_source(nodes_[reader.node], [&](std::uint32_t value) {
      if (value != entry->second) return;
      --readers;
      last_read = std::max(last_read, reader.cycle);
    });
  }
  return readers == 0 && last_read <= cycle;
}

bool BlockScheduler::take_register(Attempt& each) {
  const Node& node = nodes_[each.node];
  if (node.dest == 0) return true;
  const ValueInfo& info = draft_.values[node.dest];
  if (info.fixed != isa::kNoRegister) {
    each.reg = info.fixed;
    return true;
  }
  const std::uint32_t variable = owner(node.dest);
  if (variable != kNowhere && variable_is_read(variable, each.cycle)) {
    each.reg = draft_.variables[variable].fixed;
    return true;
  }
  // Readers within the attempt are known; others leave the value open.
  std::uint32_t readers = values_[node.dest].readers;
  std::int32_t last_read =
      each.cycle +
      std::max(1, static_cast<std::int32_t>(isa::result_latency(node.opcode, latencies_)) - 1);
  for (const Attempt& reader : attempt_) {
    for_each_source(nodes_[reader.node], [&](std::uint32_t value) {
      if (value != node.dest) return;
      --readers;
      last_read = std::max(last_read, reader.cycle);
    });
  }
  RegisterTimeline& registers = registers_[static_cast<std::size_t>(info.file)];
  const auto taken = registers.take(each.cycle, readers == 0 ? last_read : RegisterTimeline::kOpen);
  if (!taken) return false;
  each.taken = true;
  each.undo = *taken;
  each.reg = taken->reg;
  return true;
}

bool BlockScheduler::attempt_registers() {
  for (std::size_t i = 0; i < attempt_.size(); ++i) {
    if (take_register(attempt_[i])) continue;
    lacking_ = draft_.values[nodes_[attempt_[i].node].dest].file;
    while (i-- > 0) {
      if (!attempt_[i].taken) continue;
      const RegisterFile file = draft_.values[nodes_[attempt_[i].node].dest].file;
      registers_[static_cast<std::size_t>(file)].release(attempt_[i].undo);
    }
    return false;
  }
  return true;
}

void BlockScheduler::commit() {
  for (const Attempt& each : attempt_) {
    const Node& node = nodes_[each.node];
    if (node.dest == 0) continue;
    ValueState& value = values_[node.dest];
    value.reg = each.reg;
    value.open = each.taken && each.undo.last_read == RegisterTimeline::kOpen;
    value.last_read = std::max(
        value.last_read,
        each.cycle + static_cast<std::int32_t>(isa::result_latency(node.opcode, latencies_)) - 1);
    end_ = std::max(
        end_, each.cycle + static_cast<std::int32_t>(isa::result_latency(node.opcode, latencies_)));
  }
  for (const Attempt& each : attempt_) {
    const Node& node = nodes_[each.node];
    for_each_source(node, [&](std::uint32_t source) {
      ValueState& value = values_[source];
      --value.readers;
      value.last_read = std::max(value.last_read, each.cycle);
      if (value.readers == 0 && value.open) {
        registers_[static_cast<std::size_t>(draft_.values[source].file)].close(value.reg,
                                                                               value.last_read);
        value.open = false;
      }
    });
  }
  for (const Attempt& each : attempt_) {
    const Node& node = nodes_[each.node];
    memory_.place(node, each.cycle);
    units_.issue(node, each.cycle);
    emit(node, each.cycle, each.reg);
  }
}

/// Values that could not be computed into their variable's register move there at the end.
bool BlockScheduler::copy_variables() {
  const Block& block = draft_.blocks[block_];
  for (const auto& [variable, value] : block.assigned) {
    ValueState& state = values_[value];
    const std::uint32_t source_node = state.node;
    if (states_[source_node].cycle < 0 && !place_node(source_node)) return false;
    const VariableInfo& info = draft_.variables[variable];
    --state.readers;
    if (state.reg == info.fixed) continue;
    Node move;
    move.opcode = info.file == RegisterFile::kScalar ? Opcode::kSmov : Opcode::kVmov;
    move.sources[0] = Source::of_value(value);
    std::int32_t cycle = states_[source_node].cycle + latency_of(value);
    const auto entry = block.entry_values.find(variable);
    if (entry != block.entry_values.end()) {
      const ValueState& old = values_[entry->second];
      TPU_CHECK(old.readers == 0,
                draft_.name << ": block " << block_ << ": a variable is read after the end");
      cycle = std::max(cycle, old.last_read);
    }
    while (!slot_free(move.opcode, cycle)) ++cycle;
    use_slot(move.opcode, cycle, 1);
    state.last_read = std::max(state.last_read, cycle);
    if (state.readers == 0 && state.open) {
      registers_[static_cast<std::size_t>(info.file)].close(state.reg, state.last_read);
      state.open = false;
    }
    end_ = std::max(end_, cycle + 1);
    emit(move, cycle, info.fixed);
  }
  return true;
}

/// The branch issues in the last cycle but one: the last bundle is its delay slot.
bool BlockScheduler::place_branch() {
  Node jump;
  jump.opcode = Opcode::kSbrRel;
  jump.guard = draft_.blocks[block_].condition;
  jump.sources[0] = Source::of_immediate(draft_.blocks[block_].target);
  if (jump.guard.is_value() && draft_.values[jump.guard.payload].block == block_) {
    const std::uint32_t node = values_[jump.guard.payload].node;
    if (states_[node].cycle < 0 && !place_node(node)) return false;
    end_ = std::max(end_, states_[node].cycle + 3);
  }
  end_ = std::max(end_, 2);
  while (!slot_free(jump.opcode, end_ - 2)) ++end_;
  emit(jump, end_ - 2, isa::kNoRegister);
  result_.branches = true;
  return true;
}

std::uint8_t BlockScheduler::register_of(std::uint32_t value) const {
  const ValueInfo& info = draft_.values[value];
  if (info.fixed != isa::kNoRegister) return info.fixed;
  if (info.variable != kNowhere) return draft_.variables[info.variable].fixed;
  TPU_CHECK(values_[value].reg != isa::kNoRegister, draft_.name << ": block " << block_
                                                                << " reads value " << value
                                                                << " that was never computed");
  return values_[value].reg;
}

void BlockScheduler::emit(const Node& node, std::int32_t cycle, std::uint8_t reg) {
  end_ = std::max(end_, cycle + 1);
  isa::Instruction instruction;
  instruction.opcode = node.opcode;
  instruction.unit = node.unit;
  instruction.dest = reg;
  if (node.guard.is_value()) {
    instruction.guard = {register_of(node.guard.payload), node.guard.negated};
  }
  for (std::size_t i = 0; i < node.sources.size(); ++i) {
    const Source& source = node.sources[i];
    if (source.kind == Source::Kind::kImmediate) {
      instruction.operands[i] = isa::Operand::immediate_(source.payload);
    } else if (source.is_value()) {
      instruction.operands[i] =
          isa::Operand::register_(register_of(source.payload), source.negated);
    }
  }
  instruction.address = node.address;
  std::size_t terms = 0;
  for (std::uint32_t base : node.base) {
    if (base != 0) instruction.address.base[terms++] = register_of(base);
  }
  if (node.mask_register != 0) {
    instruction.address.mask_register = register_of(node.mask_register);
  }
  result_.instructions.push_back({cycle, instruction});
}

}  // namespace tpu::compiler
