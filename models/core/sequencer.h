#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isa/dma_descriptor.h"
#include "models/code_place.h"
#include "models/core/block_table.h"
#include "models/core/control_paths.h"
#include "models/core/core_clock.h"
#include "models/core/data_path.h"
#include "models/core/scalar_unit.h"
#include "models/core/step_repetition.h"
#include "models/core/sync_flags.h"
#include "models/core/wait_causes.h"
#include "models/core/warm_up.h"
#include "models/machine.h"
#include "models/network/ici_message.h"
#include "models/wait_graph.h"

namespace tpu {

/// What the sequencer asks of the rest of the machine. Problems come back as text: the sequencer
/// knows which bundle caused them.
class CoreOutside {
 public:
  virtual ~CoreOutside() = default;
  /// Starts a DMA; returns what is wrong with it, or nothing.
  /// `destinations`: of the members of a class, of a remote one.
  virtual std::string start_dma(const isa::DmaDescriptor& descriptor, UnknownAddresses unknown,
                                CodePlace place, const MemberDestinations& destinations,
                                std::uint64_t now) = 0;
  /// The core begins its next step, behind so many that counted.
  virtual void begin_next_step(std::size_t steps) = 0;
  /// The account of the core begins.
  virtual void begin_account(std::uint64_t now) = 0;
  /// The core has waited from one cycle to another.
  virtual void waited(CoreState reason, std::uint64_t begin, std::uint64_t end) = 0;
  /// The flags are about to be read: what local DMAs do to them up to a cycle has to be done.
  virtual void catch_up(std::uint64_t now) = 0;
  /// An op begins, or goes on behind one that it called; OpResult::kNoOp: the program between ops.
  virtual void executes(std::uint32_t op, std::uint64_t now) = 0;
  virtual std::string add_to_remote_flag(std::uint32_t remote_address, std::uint32_t value,
                                         const MemberDestinations& destinations,
                                         std::uint64_t now) = 0;
};

/// The sequencer of a core: a bundle a cycle, plus the empty cycles that the bundle asks for.
/// Branches have one delay slot; calls and returns take no cycle. It stalls only on waits for sync
/// flags. Between two contacts with the outside it runs ahead of the machine's time, block by
/// block.
class Sequencer {
 public:
  enum class Next : std::uint8_t {
    kAt,      ///< Wants to go on at cycle().
    kSettle,  ///< Wants to go on in this cycle, after everything else that happens in it.
    kWait,    ///< Waits for a sync flag.
    kFinished
  };

  /// Which core this is.
  struct Place {
    std::uint32_t number = 0;
    std::uint32_t chip = 0;
    std::uint32_t core = 0;
    CoreClock clock;
  };

  Sequencer(const Place& place, const MachineParams& params, BlockTable& blocks,
            const RunOptions& options, WarmUp& warm_up, StepRepetition& repetition,
            ScalarUnit& scalar, SyncFlags& flags, WaitCauses& causes, WaitGraph& graph,
            DataPath* data, CoreOutside& outside);

  /// Systolic arrays cell by cell in place of the timing and the values of the MXUs.
  void use_arrays(const std::vector<MatrixPort*>& arrays);

  /// Runs until something has to happen at a later cycle than `now`. `ahead`: this cycle is still
  /// to come for the rest of the machine, which may notice nothing of what happens.
  Next run(std::uint64_t now, bool ahead);
  /// The cycle that the core has reached.
  std::uint64_t cycle() const { return now_; }

  /// Ends the account at the end of the whole run and returns it.
  CoreResult result(std::uint64_t run_end);
  /// The paths that loops and conditionals took.
  const std::vector<PathTaken>& paths() const { return paths_.taken(); }
  /// Something else than those went on without an unknown value.
  bool assumed() const { return assumed_; }
  /// DMAs of which an address was unknown.
  std::uint64_t unknown_dmas() const { return unknown_dmas_; }
  /// Its state between two steps.
  void describe(StepState& state) const;
  /// Bytes that others wrote into this core's HBM.
  void add_hbm_write_bytes(std::uint64_t bytes) { dynamic_.hbm_write_bytes += bytes; }

  /// `core 3 (chip 1, core 1), cycle 99, kernel "x", bundle 0x1f`.
  std::string where(std::uint32_t bundle, std::uint64_t cycle) const;
  std::string where() const { return where(block_->first, now_); }
  /// The text of a bundle of the present kernel.
  std::string code(std::uint32_t bundle) const;
  std::string code() const { return code(block_->first); }
  /// Of the whole run, by the top-level program's position.
  double progress() const;

  /// Contacts with other cores that the code makes from here on if no wait ever stalls it: for the
  /// report of a deadlock, after which the core is of no further use.
  struct FlagAddition {
    std::uint32_t chip = 0;
    std::uint32_t core = 0;  ///< Of the chip.
    std::uint32_t flag = 0;
    std::string where;
  };
  std::vector<FlagAddition> look_ahead(std::uint64_t blocks);

 private:
  struct Frame {
    std::uint32_t kernel = 0;  ///< Caller.
    std::uint32_t bundle = 0;  ///< Where to go on.
    std::uint32_t op = 0;
    bool is_opening = false;  ///< Of an op that is executed later.
    std::uint64_t begin = 0;
    Counters before;
  };
  enum class Contact : std::uint8_t { kDone, kLater, kSettle, kWait };

  Next go_ahead(std::uint64_t now);
  Contact interact();
  Contact act(const Interaction& interaction);
  void note_addition(const Interaction& interaction);
  Contact wait_for(std::uint32_t flag, std::uint32_t wanted);
  void end_wait(std::uint64_t now);
  WaitGraph::Position position();
  void count_late_core(const WaitCauses::Piece& piece);
  void require_strides(const isa::Instruction& instruction) const;
  isa::DmaDescriptor descriptor_of(const Interaction& interaction, UnknownAddresses& unknown);
  UnknownAddresses unknown_addresses(const Interaction& interaction) const;
  Contact start_dma(const Interaction& interaction);
  void follow_address(Origin origin) const;
  std::string add_to_remote_flag(const Interaction& interaction);
  void count_dma(const isa::DmaDescriptor& descriptor);
  bool meets_outside() const {
    return block_->interacts && next_interaction_ != DecodedBundle::kNone;
  }
  void execute_block();
  bool finds_units_alike(const Block& block) const;
  void repeat_block();
  void count_trips(const CountedLoop& loop, std::uint64_t duration);
  std::uint64_t edges() const { return place_.clock.edges(now_); }
  void hold(std::uint64_t cycles, ScheduleCause cause);
  /// Of the stretch without a contact and of the step.
  void check_length() const {
    if (now_ - last_contact_ > options_.runaway_cycles || now_ > step_limit_) fault_of_length();
  }
  void fault_of_length() const;
  void limit_step();
  void execute_values();
  void execute_followed();
  void run_scalar(const MicroOp* begin, const MicroOp* end);
  [[noreturn]] void fault_in(const MicroOp* failed);
  void check_timing(std::uint64_t guards) {
    const Block& block = *block_;
    if (state_ != block.remembered_entry || guards != 0 || block.guarded_queue_ops != 0 ||
        scoreboard_ || looking_ahead_) {
      return look_up_timing(guards);
    }
    state_ = block.remembered_exit;
    held_ = block.remembered_held;
    idle_ = block.remembered_idle;
  }
  void look_up_timing(std::uint64_t guards);
  void check_bundles(std::uint64_t guards);
  void execute_quiet_bundles();
  void execute_quiet_run();
  void count_by_itself(const Block& block);
  void count_guarded(std::uint64_t guards);
  bool branch_taken();
  std::uint32_t branch_bundle() const;
  void go_on();
  void go_to(std::uint32_t kernel, std::uint32_t bundle);
  void go_to(Block*& remembered, std::uint32_t bundle);
  void enter(Block& block);
  void call();
  void return_from_kernel();
  Contact decide_warm_up();
  void end_step();
  void begin_step();
  void begin_account();
  Observer* observer() const { return options_.observer; }
  void show_bundles() const;
  UnitCycles busy_now() const;
  void count_idle(CoreState state, std::uint64_t cycles);
  UnitTimes times_of_units() const;
  void pass_cycles(CoreState state, std::uint64_t from, std::uint64_t to);
  void pass_cycles(CoreState state, std::uint64_t from, std::uint64_t to, const UnitTimes& before,
                   const UnitTimes& begin);
  void check_accounts() const;
  Counters counters();
  void note_executions() {
    if (executions_ != 0 || !executed_.empty()) note_last_executions();
  }
  void note_last_executions();
  void note_executions(const Block& block, const UnitCycles* idle, std::uint64_t times);
  void count_blocks();
  std::uint32_t known(const ScalarOperand& operand, const char* what) const;
  void require(Origin origin, const std::string& what) const;
  std::uint32_t checked_flag(std::uint32_t flag) const;
  [[noreturn]] void fault(const std::string& what, std::uint32_t bundle, std::uint64_t cycle) const;
  [[noreturn]] void fault(const std::string& what) const { fault(what, block_->first, now_); }
  [[noreturn]] void fault(const Scoreboard::Violation& violation, std::uint32_t bundle,
                          std::uint64_t cycle, std::uint64_t too_early) const;

  const Place place_;
  const MachineParams& params_;
  BlockTable& blocks_;
  const RunOptions& options_;
  WarmUp& warm_up_;
  StepRepetition& repetition_;
  ScalarUnit& scalar_;
  SyncFlags& flags_;
  WaitCauses& causes_;
  WaitGraph& graph_;
  DataPath* data_;
  CoreOutside& outside_;
  ControlPaths paths_;

  Block* block_ = nullptr;
  std::uint32_t next_interaction_ = 0;  ///< Of the block's first bundle; behind the last: done.
  std::uint32_t pending_target_ = 0;    ///< Where a branch goes after its delay slot's block.
  std::uint64_t now_ = 0;
  bool ahead_ = false;  ///< The machine has not reached now_.
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  std::uint64_t settled_ = kNever;  ///< Cycle in which everything else has happened.
  std::uint64_t last_contact_ = 0;
  std::vector<Frame> frames_;
  bool finished_ = false;
  bool step_ended_ = false;  ///< And the code has not begun again.
  bool looking_ahead_ = false;
  std::vector<FlagAddition> additions_;  ///< That were met while looking ahead.
  std::uint64_t step_begin_ = 0;
  std::uint64_t step_limit_ = 0;  ///< A step that is under way behind this cycle never ends.

  BlockTable::StateId state_ = BlockTable::kRested;
  std::uint64_t held_ = 0;                ///< Cycles that interlocks add to the block.
  std::optional<Scoreboard> scoreboard_;  ///< With options.interpret: checked bundle by bundle.
  /// With a scoreboard: what is not checked goes by without anybody looking.
  bool runs_quietly_ = false;

  std::array<std::uint64_t, BlockCounters::kCount> counts_{};
  const Block* counted_ = nullptr;            ///< Its last executions are not in counts_ yet.
  const UnitCycles* counted_idle_ = nullptr;  ///< That each of them left.
  std::uint64_t executions_ = 0;
  std::vector<std::uint64_t> pending_;   ///< Executions that are not in counts_ yet, by block.
  std::vector<const Block*> uncounted_;  ///< Those blocks.
  // With a scoreboard, where the next bundle is another block: executions that are not even noted.
  std::vector<std::uint64_t> executions_of_;  ///< By block.
  std::vector<const Block*> executed_;        ///< Those blocks.
  const UnitCycles* idle_ = nullptr;          ///< Of the present block; absent with a scoreboard.
  // With a scoreboard: what units that work on behind a push have done, until when one of them
  // does, and the cycles in which none did.
  std::array<std::uint64_t, UnitCycles().size()> busy_passed_{};
  std::uint64_t work_until_ = 0;
  CycleAccount<CoreState> none_works_;
  Counters dynamic_;         ///< Waits, DMAs, bytes: what is no constant of a block.
  Counters before_account_;  ///< What the warm-up steps did.
  std::uint64_t unknown_dmas_ = 0;
  mutable bool assumed_ = false;
  CoreResult result_;
};

}  // namespace tpu
