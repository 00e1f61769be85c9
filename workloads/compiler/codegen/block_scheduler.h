#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "isa/instruction.h"
#include "workloads/compiler/codegen/block.h"
#include "workloads/compiler/codegen/memory_order.h"
#include "workloads/compiler/codegen/register_timeline.h"
#include "workloads/compiler/codegen/schedule_memo.h"
#include "workloads/compiler/codegen/unit_state.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Gives the nodes of one block after the other their cycles and registers.
///
/// Nodes are taken in program order. Those with an effect (stores, pushes, DMAs, branches), results
/// of queues and what is computed from these go into the first cycle that everything before them
/// allows. Loads and what depends on loads and long-lived values alone wait for their first reader
/// and then go as late before it as slots and registers allow; what has no reader is left out.
class BlockScheduler {
 public:
  BlockScheduler(const KernelDraft& draft, const Target& target);

  /// Schedules a block; `free_registers`: per file, the registers that no value which crosses
  /// blocks holds here. Blocks come in program order; one that ScheduleMemo has is not scheduled
  /// again. Nothing when a register file is too small:
  /// lacking() says which, and the block may be scheduled again after a change.
  std::optional<ScheduledBlock> schedule(std::uint32_t block,
                                         const std::array<std::uint32_t, 4>& free_registers);
  RegisterFile lacking() const { return lacking_; }

  const UnitState& units() const { return units_; }

 private:
  struct NodeState {
    std::int32_t cycle = -1;  ///< -1: not placed.
    std::int32_t deadline = 0;
    std::int32_t earliest = 0;
    std::int32_t floor = 0;  ///< VMEM accesses may not precede.
    bool live = false;
    bool lazy = false;
    bool gathered = false;
    bool transient = false;  ///< Computed from the result of a queue.
    std::uint8_t weight = 0;
  };
  struct ValueState {
    std::uint32_t node = kNowhere;  ///< In the present block.
    std::uint32_t readers = 0;      ///< Not yet placed.
    std::int32_t last_read = -1;
    std::uint8_t reg = isa::kNoRegister;
    bool open = false;
  };
  /// A node placed by the present attempt.
  struct Attempt {
    std::uint32_t node = 0;
    std::int32_t cycle = 0;
    std::uint8_t reg = isa::kNoRegister;
    bool taken = false;
    RegisterTimeline::Taken undo;
  };
  static constexpr int kSlotKinds = static_cast<int>(isa::Slot::kCount) + 1;  ///< And SMEM.

  std::optional<ScheduledBlock> schedule_anew(std::uint32_t block,
                                              const std::array<std::uint32_t, 4>& free_registers);
  void begin(std::uint32_t block, const std::array<std::uint32_t, 4>& free_registers);
  void retract(const UnitState& units);
  bool place_all();
  void mark_live();
  void classify();
  /// These are false when no register is free for a node, however late it stands.
  bool place_node(std::uint32_t node);
  bool force_loads(std::uint32_t index);
  bool copy_variables();
  bool place_branch();
  void gather(std::uint32_t node);
  void compute_earliest(std::uint32_t node);
  void release_gathered();
  bool attempt(std::int32_t cycle);
  bool attempt_cycles(std::int32_t cycle);
  bool attempt_registers();
  bool variable_is_read(std::uint32_t variable, std::int32_t cycle) const;
  bool take_register(Attempt& each);
  void commit();
  std::int32_t latency_of(std::uint32_t value) const;
  bool crosses_blocks(std::uint32_t value) const;
  std::uint32_t owner(std::uint32_t value) const;
  bool slot_free(isa::Opcode opcode, std::int32_t cycle);
  void use_slot(isa::Opcode opcode, std::int32_t cycle, int change);
  void emit(const Node& node, std::int32_t cycle, std::uint8_t reg);
  std::uint8_t register_of(std::uint32_t value) const;
  template <class Visit>
  static void for_each_source(const Node& node, Visit&& visit);

  const KernelDraft& draft_;
  isa::Latencies latencies_;
  UnitState units_;
  MemoryOrder memory_;
  std::vector<ValueState> values_;

  // The present block.
  std::vector<Node> nodes_;
  std::uint32_t block_ = 0;
  std::vector<NodeState> states_;
  std::vector<RegisterTimeline> registers_;
  std::array<std::vector<std::uint8_t>, kSlotKinds> slots_;
  std::array<std::int32_t, kSlotKinds> first_free_{};
  std::vector<std::uint32_t> pending_loads_;
  std::vector<std::uint32_t> gathered_;
  std::vector<Attempt> attempt_;
  ScheduledBlock result_;
  std::int32_t end_ = 0;
  RegisterFile lacking_ = RegisterFile::kScalar;
};

}  // namespace tpu::compiler
