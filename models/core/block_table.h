#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/core/counted_loop.h"
#include "models/core/decoded_kernel.h"
#include "models/core/schedule_causes.h"
#include "models/core/scoreboard.h"
#include "models/machine.h"
#include "models/resource.h"

namespace tpu {

/// What every execution of a block adds to the counters.
struct BlockCounters {
  enum Count : std::size_t {
    kBundles,
    kDelay,
    kScalarOps,
    kVectorAluOps,
    kVectorLoads,
    kVectorStores,
    kMatmulPushes,
    kWeightPushes,
    kXluPushes,
    kEupPushes,
    kBusy,                                ///< First of kUnits.
    kSchedule = kBusy + kUnits,           ///< First of kScheduleCauses.
    kIdle = kSchedule + kScheduleCauses,  ///< First of kUnits: slots that a bundle leaves empty.
    kRan = kIdle + kUnits,  ///< First of kCoreResources: kSchedule by resource. The last.
    kCount = kRan + kCoreResources
  };
  std::array<std::uint32_t, kCount> values{};
};

/// Cycles of the units that work on behind a push: MXUs, then the XLU.
using UnitCycles = std::array<std::uint32_t, 5>;
using UnitTimes = std::array<std::uint64_t, UnitCycles().size()>;  ///< The same, of a whole run.
constexpr Unit pushed_unit(std::size_t index) {
  return index == 4 ? Unit::kXlu : static_cast<Unit>(static_cast<std::size_t>(Unit::kMxu0) + index);
}
/// Its place among all units.
constexpr std::size_t pushed_index(std::size_t index) {
  return static_cast<std::size_t>(pushed_unit(index));
}

/// A straight run of bundles: at most its first bundle touches the outside, and a branch or a call
/// is at its end. So its duration and counters are constants.
struct Block {
  enum class End : std::uint8_t {
    kNext,        ///< Goes on behind the last bundle.
    kBranch,      ///< Its last bundle is the delay slot of the one before.
    kBranchSlot,  ///< Ends with a branch; its delay slot is a block of its own.
    kSlot,        ///< Is the delay slot of the block before.
    kCall
  };
  std::uint32_t kernel = 0;
  std::uint32_t first = 0;
  std::uint32_t end = 0;  ///< One behind the last bundle.
  End how_it_ends = End::kNext;
  bool interacts = false;
  std::uint16_t guarded_queue_ops = 0;
  std::uint32_t target = 0;     ///< Of the branch.
  std::uint32_t call_site = 0;  ///< Of the call.
  std::uint32_t duration = 0;
  bool touches_units = false;  ///< Pushes, pops or writes a register slowly.
  bool is_quiet = false;       ///< Touches none, and calls nothing.
  const MicroOp* first_op = nullptr;
  const MicroOp* end_op = nullptr;
  bool repeats = false;   ///< Branches to its own begin, touches nothing outside and has no guards.
  CountedLoop loop;       ///< Of one that repeats.
  Block* next = nullptr;  ///< At `end`, once it has been reached.
  Block* branch = nullptr;  ///< At `target`, or that of the branch before a slot, once it has been.
  BlockCounters counters;

  // The last entry state and what it led to.
  std::uint32_t remembered_entry = ~std::uint32_t{0};
  std::uint32_t remembered_exit = 0;
  std::uint32_t remembered_held = 0;
  const UnitCycles* remembered_idle = nullptr;
  std::uint32_t number = 0;
};

/// The program as blocks, made when first reached and shared by all cores, and the memory of the
/// scoreboard: which state a block leaves behind for a state before it. States are relative to the
/// present cycle and numbered; what only a wait changes is aged.
class BlockTable {
 public:
  /// `longest`: bundles of a block at most; 1 makes every bundle a block. `most_remembered`: states
  /// and outcomes. The kernels, which belong to the program, have to outlive the table.
  BlockTable(const isa::Program& program, const std::vector<DecodedKernel>& kernels,
             const CoreParams& params, std::uint32_t longest, std::size_t most_remembered);

  const isa::Program& program() const { return program_; }
  const DecodedKernel& kernel(std::uint32_t index) const { return kernels_[index]; }
  /// The block that begins with a bundle; `slot`: as the delay slot of a branch. Throws
  /// ProgramFault where the code cannot be executed.
  Block& block(std::uint32_t kernel, std::uint32_t bundle, bool slot) {
    Block*& found =
        starts_[std::uint64_t{kernel} << 33 | std::uint64_t{bundle} << 1 | (slot ? 1 : 0)];
    if (found == nullptr) found = &make_block(kernel, bundle, slot);
    return *found;
  }

  using StateId = std::uint32_t;
  static constexpr StateId kRested = 0;  ///< Empty queues, nothing on its way.

  struct Outcome {
    StateId exit = kRested;
    std::uint32_t held = 0;            ///< Cycles that interlocks add to the block's.
    const UnitCycles* idle = nullptr;  ///< In the block; until the table forgets.
    Scoreboard::Violation violation;
    std::uint32_t bundle = 0;  ///< Of the violation.
    std::uint64_t offset = 0;  ///< Cycle of the violation in the block.
  };
  /// Checks a block that begins in a state; remembers what it found.
  Outcome check(Block& block, StateId entry, std::uint64_t guards) {
    if (entry == block.remembered_entry && block.guarded_queue_ops == 0) {
      return {block.remembered_exit, block.remembered_held, block.remembered_idle, {}, 0, 0};
    }
    return look_up(block, entry, guards);
  }
  /// The state after `cycles` in which nothing issued.
  StateId aged(StateId state, std::uint64_t cycles);

  /// For how long each unit is busy with what a bundle pushes; false: none is.
  bool pushed_work(const DecodedKernel& kernel, std::uint32_t bundle, UnitTimes& work) const;

  /// The cycles that units go on being busy in a state.
  const UnitCycles& busy(StateId state) const { return infos_[state].busy; }

  const Scoreboard::State& contents(StateId state) const { return *infos_[state].state; }

  /// The table renumbers a state that is being watched when it forgets the others.
  void watch(StateId& state) { watched_.push_back(&state); }
  /// Forgets all states that nobody watches, and all outcomes, when there are too many: they are
  /// computed again. Numbers of states that are not watched are invalid afterwards.
  void limit_memory() {
    if (remembered() > most_remembered_) forget();
  }
  std::size_t remembered() const { return infos_.size() + outcomes_.size() + ages_.size(); }

  /// Instructions of blocks that were reached whose meaning no experiment has confirmed, with what
  /// the table says instead: "vrng (guessed)".
  std::vector<std::string> unconfirmed() const;

 private:
  struct StateHash {
    std::size_t operator()(const Scoreboard::State& state) const;
  };
  struct NumberHash {
    std::size_t operator()(std::uint64_t number) const;
  };
  struct Key {
    std::uint64_t block_and_state = 0;
    std::uint64_t guards = 0;
    friend bool operator==(const Key& a, const Key& b) {
      return a.block_and_state == b.block_and_state && a.guards == b.guards;
    }
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Remembered {
    StateId exit = kRested;
    std::uint32_t held = 0;
    UnitCycles idle{};
  };
  struct StateInfo {
    const Scoreboard::State* state = nullptr;
    std::uint32_t horizon = 0;  ///< After so many cycles without an issue, waiting changes nothing.
    UnitCycles busy{};
  };

  Block& make_block(std::uint32_t kernel, std::uint32_t bundle, bool slot);
  void extend_block(Block& block, bool slot);
  std::uint32_t take_plain(Block& block, std::uint32_t bundle, std::uint32_t count) const;
  void count(Block& block);
  const ScheduleCauses& causes(std::uint32_t kernel);
  Outcome look_up(Block& block, StateId entry, std::uint64_t guards);
  Outcome compute(const Block& block, StateId entry, std::uint64_t guards, UnitCycles& idle);
  void add_idle(const UnitTimes& before, const UnitTimes& work, std::uint64_t now,
                std::uint64_t next, UnitCycles& idle) const;
  StateId number_of(Scoreboard::State state);
  void forget();

  const isa::Program& program_;
  const CoreParams params_;
  std::uint32_t longest_;
  std::size_t most_remembered_;
  const std::vector<DecodedKernel>& kernels_;
  /// By kernel, first bundle and whether as slot: few of a program's bundles begin a block.
  std::unordered_map<std::uint64_t, Block*, NumberHash> starts_;
  std::deque<Block> blocks_;
  std::vector<std::unique_ptr<ScheduleCauses>> causes_;  ///< Per kernel that was reached.
  Scoreboard scoreboard_;
  std::unordered_map<Scoreboard::State, StateId, StateHash> numbers_;
  std::vector<StateInfo> infos_;
  std::unordered_map<Key, Remembered, KeyHash> outcomes_;
  std::unordered_map<std::uint64_t, StateId> ages_;
  std::array<bool, isa::kOpcodeCount> reached_{};  ///< By opcode.
  std::vector<StateId*> watched_;
};

/// The counters of guarded pushes depend on the guards: adds one that acts, or does not.
void add_push(const QueueOp& op, const CoreParams& params,
              std::array<std::uint64_t, BlockCounters::kCount>& counters);

}  // namespace tpu
