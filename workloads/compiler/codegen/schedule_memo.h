#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "workloads/compiler/codegen/block.h"
#include "workloads/compiler/codegen/unit_state.h"

namespace tpu::compiler {

/// An instruction with its cycle within a block.
struct PlacedInstruction {
  std::int32_t cycle = 0;
  isa::Instruction instruction;
};

/// A block with registers and cycles. Its length covers every latency and every unit's interval.
struct ScheduledBlock {
  std::vector<PlacedInstruction> instructions;  ///< By cycle.
  std::int32_t length = 1;
  bool branches = false;  ///< The last bundle but one branches; the last is its delay slot.
};

/// What BlockScheduler makes of a block.
struct BlockSchedule {
  std::optional<ScheduledBlock> block;           ///< Nothing: a register file is too small,
  RegisterFile lacking = RegisterFile::kScalar;  ///< this one.
  std::vector<std::uint32_t> pending;            ///< UnitState::pending_results() behind the block.
};

/// Everything that the schedule of a block is made of, as words: its nodes and what is known of
/// their values, variables and regions, by the order in which they appear; the registers that are
/// free; the units and what waits in their queues. Equal keys have equal schedules, in whatever
/// kernels the blocks stand.
/// Structures are taken apart by bindings that name every member: with a new one this does not
/// compile.
class BlockKey {
 public:
  BlockKey(const KernelDraft& draft, std::uint32_t block) : draft_(draft), block_(block) {}

  std::string take(const std::array<std::uint32_t, 4>& free_registers, const UnitState& units) {
    const auto& [nodes, assigned, entry_values, branches, condition, target] =
        draft_.blocks[block_];
    key_.reserve(nodes.size() * 120 + 256);
    units.describe([this](std::uint32_t word) { put(word); });
    for (const std::uint32_t pool : free_registers) put(pool);
    put(nodes.size());
    for (const Node& node : nodes) put_node(node);
    for (const auto& [variable, value] : assigned) {
      put_variable(variable);
      put_value(value);
    }
    put(branches ? 1 : 0);
    put_source(condition);
    put(branches ? target : 0);
    put_entries(entry_values);
    return std::move(key_);
  }

 private:
  template <class Number>
  void put(Number number) {
    const auto word = static_cast<std::uint32_t>(number);
    key_.append(reinterpret_cast<const char*>(&word), sizeof word);
  }

  /// A number by the order of appearance; true for one that is new.
  bool put_name(std::unordered_map<std::uint32_t, std::uint32_t>& names, std::uint32_t name) {
    const auto [found, is_new] =
        names.try_emplace(name, static_cast<std::uint32_t>(names.size()) + 1);
    put(found->second);
    return is_new;
  }

  void put_variable(std::uint32_t variable) {
    if (!put_name(variables_, variable)) return;
    const auto& [file, first_block, fixed] = draft_.variables[variable];
    static_cast<void>(first_block);  // Of the assignment of registers, which has ended in `fixed`.
    put(file);
    put(fixed);
  }

  /// 0: none.
  void put_value(std::uint32_t value) {
    if (value == 0) return put(0);
    if (!put_name(values_, value)) return;
    const auto& [file, block, variable, fixed] = draft_.values[value];
    put(file);
    put(block == block_ ? 1 : 0);
    put(fixed);
    put(variable == kNowhere ? 0 : 1);
    if (variable != kNowhere) put_variable(variable);
  }

  void put_source(const Source& source) {
    const auto& [kind, negated, payload] = source;
    put(static_cast<std::uint32_t>(kind) << 1 | (negated ? 1 : 0));
    if (kind == Source::Kind::kValue) return put_value(payload);
    put(payload);
  }

  void put_node(const Node& node) {
    const auto& [opcode, unit, dest, guard, sources, address, bases, mask_register, region,
                 reads_vmem] = node;
    put(static_cast<std::uint32_t>(opcode) << 16 | std::uint32_t{unit} << 1 | (reads_vmem ? 1 : 0));
    put_value(dest);
    put_source(guard);
    for (const Source& source : sources) put_source(source);
    const auto& [base, mask, sublane_mask, offset, stride, pattern] = address;
    put(std::uint32_t{base[0]} << 24 | std::uint32_t{base[1]} << 16 | std::uint32_t{mask} << 8 |
        sublane_mask);
    put(offset);
    put(stride);
    put(pattern);
    for (const std::uint32_t register_value : bases) put_value(register_value);
    put_value(mask_register);
    region == 0 ? put(0) : static_cast<void>(put_name(regions_, region));
  }

  /// By variable, in an order that does not depend on their numbers.
  void put_entries(const std::unordered_map<std::uint32_t, std::uint32_t>& entries) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> of_names;
    for (const auto& [variable, value] : entries) {
      const auto name = values_.find(value);
      if (name != values_.end()) of_names.emplace_back(name->second, variable);
    }
    std::sort(of_names.begin(), of_names.end());
    for (const auto& [name, variable] : of_names) {
      put(name);
      put_variable(variable);
    }
  }

  const KernelDraft& draft_;
  std::uint32_t block_;
  std::string key_;
  std::unordered_map<std::uint32_t, std::uint32_t> values_, variables_, regions_;
};

/// Schedules of blocks by their keys, for programs that are compiled one after the other and differ
/// in some kernels. Of a process; those that it starts begin with what it has.
class ScheduleMemo {
 public:
  static ScheduleMemo& of_process() {
    static ScheduleMemo memo;
    return memo;
  }

  /// Nothing is kept before this; `keeps` false forgets what was.
  void keep(bool keeps) {
    keeps_ = keeps;
    found_ = 0;
    if (keeps) return;
    schedules_.clear();
    bytes_ = 0;
  }
  bool keeps() const { return keeps_; }

  const BlockSchedule* find(const std::string& key) {
    const auto found = schedules_.find(key);
    if (found == schedules_.end()) return nullptr;
    ++found_;
    return &found->second;
  }
  void add(std::string key, const BlockSchedule& schedule) {
    const std::size_t instructions = schedule.block ? schedule.block->instructions.size() : 0;
    const std::size_t bytes = key.size() + instructions * sizeof(PlacedInstruction);
    if (bytes_ + bytes > kMostBytes) return;
    bytes_ += bytes;
    schedules_.emplace(std::move(key), schedule);
  }
  /// Blocks that need not be scheduled again, since keep().
  std::size_t found() const { return found_; }

 private:
  /// Bytes of keys and schedules, then no more are kept.
  static constexpr std::size_t kMostBytes = std::size_t{128} << 20;

  bool keeps_ = false;
  std::size_t bytes_ = 0, found_ = 0;
  std::unordered_map<std::string, BlockSchedule> schedules_;
};

}  // namespace tpu::compiler
