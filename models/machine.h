#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "isa/dma_descriptor.h"
#include "isa/program.h"
#include "models/critical_path.h"
#include "models/params.h"
#include "models/part_account.h"
#include "models/schedule_cause.h"
#include "sim/base/cycle_account.h"

namespace tpu {

/// What a core does in a cycle.
enum class CoreState : std::uint8_t {
  kIssue,        ///< A bundle issues.
  kDelay,        ///< An empty cycle that the schedule asks for (vdelay), or an interlock (v4).
  kMemoryWait,   ///< Waits for a sync flag that a local DMA will raise.
  kInfeedWait,   ///< Waits for a DMA out of the infeed queue.
  kOutfeedWait,  ///< Waits for a DMA into the outfeed queue.
  kIciWait,      ///< Waits for what is on its way between cores, or has to leave this one.
  kPeerWait,     ///< Waits for another core that is late: it computes, or waits for its own memory.
  kPeerHostWait,  ///< Waits for another core that waits for its infeed or outfeed.
  kFinished,      ///< Has finished while other cores still run.
  kCount
};
const char* to_string(CoreState state);

/// The units of a core that have an account of their own.
enum class Unit : std::uint8_t {
  kScalar,
  kVectorAlu,
  kVectorLoad,
  kVectorStore,
  kMxu0,
  kMxu1,
  kMxu2,
  kMxu3,
  kXlu,
  kEup,
  kCount
};
const char* to_string(Unit unit);
constexpr std::size_t kUnits = static_cast<std::size_t>(Unit::kCount);

/// Counters of a stretch of code on one core; they add and subtract.
struct Counters {
  std::uint64_t bundles = 0;
  std::uint64_t scalar_ops = 0;
  std::uint64_t vector_alu_ops = 0;
  std::uint64_t vector_loads = 0;
  std::uint64_t vector_stores = 0;
  std::uint64_t matmul_pushes = 0;  ///< vmatmul, all MXUs; once per block of 128x128 it passes.
  std::uint64_t weight_pushes = 0;  ///< vmatpush, all MXUs.
  std::uint64_t xlu_pushes = 0;
  std::uint64_t eup_pushes = 0;
  std::uint64_t dmas = 0;
  std::uint64_t hbm_read_bytes = 0;                 ///< HBM to VMEM or SMEM.
  std::uint64_t hbm_write_bytes = 0;                ///< VMEM to HBM, infeed.
  std::uint64_t ici_bytes = 0;                      ///< Sent to other cores.
  std::array<std::uint64_t, kUnits> busy_cycles{};  ///< Cycles in which the unit works, per unit.
  /// Cycles in which the unit did nothing, by what the core did (kIssue: it ran, kDelay included).
  /// Counted where they pass: they are not what busy_cycles leaves.
  std::array<CycleAccount<CoreState>, kUnits> idle{};
  CycleAccount<CoreState> core;
  /// Its kIssue and kDelay together, by what made the schedule need them.
  ScheduleCauseCycles schedule{};

  Counters& operator+=(const Counters& other);
  friend Counters operator-(Counters later, const Counters& earlier);
};

/// Where the cycles of a unit went: busy, or idle while the core was in a state.
struct UnitAccount {
  std::uint64_t busy = 0;
  CycleAccount<CoreState> idle;
  std::uint64_t total() const { return busy + idle.total(); }
};
/// The account of a unit over a core's whole run; total() equals the cycles of the run, which the
/// core checks when it ends.
UnitAccount unit_account(const Counters& total, Unit unit);

/// All executions of one op of the program on one core, over all steps.
struct OpResult {
  static constexpr std::uint32_t kNoOp = ~std::uint32_t{0};
  std::uint64_t count = 0;
  std::uint64_t cycles = 0;
  Counters counters;
  /// Cycles in which something that it sends to other cores was under way while the core executed
  /// another op, by that op; kNoOp: between ops.
  std::map<std::uint32_t, std::uint64_t> beside{};
};

/// What the ops of the program did on a core, index as in Program::ops. Cores that did the same
/// share it; a change makes a copy of one's own.
class OpResults {
 public:
  std::size_t size() const { return results_->size(); }
  const OpResult& operator[](std::size_t op) const { return (*results_)[op]; }
  OpResult& operator[](std::size_t op) { return own()[op]; }
  void resize(std::size_t count) { own().resize(count); }
  std::vector<OpResult>::const_iterator begin() const { return results_->begin(); }
  std::vector<OpResult>::const_iterator end() const { return results_->end(); }

 private:
  std::vector<OpResult>& own() {
    if (results_.use_count() > 1) results_ = std::make_shared<std::vector<OpResult>>(*results_);
    return *results_;
  }
  std::shared_ptr<std::vector<OpResult>> results_ = std::make_shared<std::vector<OpResult>>();
};

/// Begin and end of a step of one core, in its cycles.
struct StepSpan {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct CoreResult {
  std::uint32_t chip = 0;
  std::uint32_t core = 0;
  std::vector<StepSpan> warmup;  ///< Steps that do not count, before those that do.
  std::vector<StepSpan> steps;
  OpResults ops;
  std::uint64_t begin_cycle = 0;  ///< Where the account begins: behind the warm-up steps.
  Counters total;                 ///< From begin_cycle to the end of the run (all cores' end).
  std::uint64_t end_cycle = 0;    ///< When this core finished.
  /// Of its waits kPeerWait and kPeerHostWait: cycles by the core that was late.
  std::map<std::uint32_t, std::uint64_t> waited_for;
};

/// A DMA as the trace sees it, in cycles of the core clock.
struct DmaEvent {
  std::uint32_t source_chip = 0, source_core = 0, destination_chip = 0, destination_core = 0;
  isa::MemorySpace source = isa::MemorySpace::kHbm;
  isa::MemorySpace destination = isa::MemorySpace::kVmem;
  std::uint64_t begin = 0;  ///< Issued.
  std::uint64_t end = 0;    ///< Sync flag raised.
  std::uint64_t bytes = 0;
};

/// The cycle in which the account of a core begins.
struct AccountBegin {
  std::uint32_t number = 0;  ///< As in RunOptions::cores.
  std::uint32_t chip = 0, core = 0;
  std::uint64_t cycle = 0;
};

/// Bundles that a core issues one behind the other, each in the cycle behind the delay of the one
/// before.
struct IssuedBundles {
  std::uint32_t core = 0;
  std::uint32_t op = ~std::uint32_t{0};  ///< Of the program; or of none.
  std::uint32_t kernel = 0;
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  std::uint64_t cycle = 0;  ///< In which the first one issues.
};

/// Watches a run from outside; absent, it costs a branch.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_step(std::uint32_t core, std::uint32_t step, std::uint64_t begin,
                       std::uint64_t end) = 0;
  /// One execution of an op; `counters` are its own.
  virtual void on_op(std::uint32_t core, std::uint32_t op, std::uint64_t begin, std::uint64_t end,
                     const Counters& counters) = 0;
  virtual void on_wait(std::uint32_t core, CoreState reason, std::uint64_t begin,
                       std::uint64_t end) = 0;
  virtual void on_dma(const DmaEvent& event) = 0;
  /// Of each core that is simulated (of a class of cores, its representative). A core hands them on
  /// as it executes them: what it waited for before is told before.
  virtual void on_bundles(const IssuedBundles& /*bundles*/) {}
  /// What was seen of a core so far belongs to a step of the warm-up: its account begins here.
  virtual void on_account(const AccountBegin& /*begin*/) {}
  /// The run begins again from cycle 0: what was seen so far did not happen. (A run with values off
  /// does that when it turns out that control depends on more data than it has followed.)
  virtual void on_restart() {}
};

/// Words that are in memory before the run.
struct MemoryBlock {
  std::uint64_t address = 0;  ///< HBM: granule; SMEM: word.
  std::vector<std::uint32_t> words;
};

/// What one core starts with, beside what the program holds.
struct CoreLoad {
  std::vector<MemoryBlock> hbm;
  std::vector<MemoryBlock> smem;
  std::vector<MemoryBlock> infeed;  ///< Values of the infeed batches in order (address unused);
                                    ///< reused when fewer than steps.
};

/// The path that a `while` or `conditional` of the program (Program::control) took on a core.
struct PathTaken {
  std::uint32_t op = 0;
  std::uint64_t executions = 0;
  std::uint64_t least_trips = 0, most_trips = 0;  ///< Of a loop, in one execution.
  std::vector<std::uint64_t> branch_counts;       ///< Of a conditional: how often each ran.
  bool stated = false;                            ///< By RunOptions::paths.
  bool assumed = false;                           ///< Out of data that was not followed.
};

/// How much a run with values off may spend on data that control depends on. What needs more is not
/// followed, and the path is assumed.
struct FollowLimits {
  std::uint64_t instructions = std::uint64_t{1} << 22;  ///< Vector instructions on data.
  std::uint64_t bytes = std::uint64_t{128} << 20;       ///< Of HBM contents, over all cores.
  std::uint64_t cycles = std::uint64_t{1} << 26;        ///< Of the runs that begin again.
};

struct RunOptions {
  std::uint32_t steps = 1;
  /// Steps before those, which are in no account: they fill the infeed queues.
  std::uint32_t warmup_steps = 0;
  /// If greater: as many as it takes until a step repeats the one before, at most so many.
  std::uint32_t most_warmup_steps = 0;
  bool values = false;     ///< Compute on data.
  bool interpret = false;  ///< Slow twin of the core: every bundle by itself, no remembered blocks.
  /// Slow twin of the MXUs: systolic arrays cell by cell; with values, and interpreted.
  bool mxu_array = false;
  /// Slow twin of the HBM: every command of every pseudo channel.
  bool hbm_command = false;
  /// Slow twin of the interconnect: packets, buffers, credits. Every core is simulated.
  bool ici_packet = false;
  bool pod_full = false;  ///< Slow twin of the slice: every core by itself, none for others.
  /// Other than 0: modules are made in an order that is shuffled by it. No result depends on it.
  std::uint32_t construction_seed = 0;
  bool check_names = false;  ///< Check virtual names on every register read (values on).
  /// A core that runs this long without touching anything outside has run away.
  std::uint64_t runaway_cycles = std::uint64_t{1} << 28;
  /// A core whose step takes longer, waits for the infeed aside, is in an endless loop: 106 s of
  /// the chip.
  std::uint64_t max_step_cycles = 100'000'000'000;
  /// A loop of Program::control that makes more trips at once, and of which `paths` says nothing,
  /// is an endless loop.
  std::uint64_t max_trips = std::uint64_t{1} << 20;
  /// States of the scoreboard and outcomes of blocks that are remembered; then they are forgotten.
  std::size_t most_remembered = std::size_t{1} << 20;
  std::vector<std::uint32_t> cores;  ///< Cores that run the program, by number (chip = number /
                                     ///< cores_per_chip); empty: all.
  /// With values off, by number in Program::control: trips of a loop, branch of a conditional.
  std::map<std::uint32_t, std::uint64_t> paths;
  FollowLimits follow;
  /// With values off, where control depends on it: the words of a parameter buffer on a core, by
  /// number; zeros when absent. `inputs_from` says where they come from.
  std::function<std::vector<std::uint32_t>(std::uint32_t core, const isa::Buffer& buffer)> inputs;
  std::string inputs_from;
  Observer* observer = nullptr;
  std::function<void(double fraction)> progress;  ///< Called now and then.
};

struct RunResult {
  std::vector<CoreResult> cores;      ///< In the order of RunOptions::cores.
  std::uint64_t cycles = 0;           ///< When the last core finished.
  std::uint64_t events = 0;           ///< Of the SystemC kernel.
  std::uint32_t simulated_cores = 0;  ///< Each stands for a class of cores whose state is equal.
  CriticalPath critical_path;         ///< From the begin of the account on.
  std::vector<PartAccount> parts;
  std::vector<PathTaken> paths;    ///< Of the first of the cores, by number in Program::control.
  std::vector<std::string> notes;  ///< What was not modelled or not confirmed in this run.
};

/// A run of a few intervals of the HBM's refresh: when the first one comes, which nobody chooses,
/// makes a visible part of it.
bool is_short_for_refresh(const MachineParams& params, std::uint64_t cycles);
/// What the report of such a run says.
std::string refresh_note(const MachineParams& params);

/// How many steps before it is the last one that a step of `cycles` repeats, of the four before it;
/// 0: none. The difference is no more than a refresh of the HBM, or a thousandth.
std::size_t repeated_step(const MachineParams& params, const std::vector<StepSpan>& before,
                          std::uint64_t cycles);

/// A machine in which a program has run: its memories can be read afterwards.
class Machine {
 public:
  Machine(const MachineParams& params, const isa::Program& program);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Loads memory of one core (number as in RunOptions::cores) before run().
  void load(std::uint32_t core, const CoreLoad& load);
  /// Runs to the end. Throws ProgramFault for faults and deadlocks of the simulated program.
  RunResult run(const RunOptions& options);
  /// Words of a core's half of the HBM after a run with values.
  std::vector<std::uint32_t> read_hbm(std::uint32_t core, std::uint64_t granule,
                                      std::uint64_t words) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tpu
