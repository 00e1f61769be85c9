#include "models/core/sequencer.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "isa/cpu_clones.h"
#include "isa/disassembler.h"
#include "isa/opcode_table.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

constexpr std::size_t kDeepestCall = 64;
/// Units that work in the cycle of their bundle alone.
constexpr Unit kSlotUnits[] = {Unit::kScalar, Unit::kVectorAlu, Unit::kVectorLoad,
                               Unit::kVectorStore, Unit::kEup};

}  // namespace

Sequencer::Sequencer(const Place& place, const MachineParams& params, BlockTable& blocks,
                     const RunOptions& options, WarmUp& warm_up, StepRepetition& repetition,
                     ScalarUnit& scalar, SyncFlags& flags, WaitCauses& causes, WaitGraph& graph,
                     DataPath* data, CoreOutside& outside)
    : place_(place),
      params_(params),
      blocks_(blocks),
      options_(options),
      warm_up_(warm_up),
      repetition_(repetition),
      scalar_(scalar),
      flags_(flags),
      causes_(causes),
      graph_(graph),
      data_(data),
      outside_(outside),
      paths_(blocks.program(), options) {
  if (options.interpret) {
    scoreboard_.emplace(params.core);
    scoreboard_->set_conventions(blocks.program().conventions);
  }
  runs_quietly_ = options.interpret && !options.values && data == nullptr &&
                  options.observer == nullptr && place.clock.is_the_machines();
  result_.chip = place.chip;
  result_.core = place.core;
  result_.ops.resize(blocks.program().ops.size());
  blocks_.watch(state_);
  finished_ = options.steps == 0;
  limit_step();
  if (!finished_) go_to(0, 0);
}

void Sequencer::use_arrays(const std::vector<MatrixPort*>& arrays) {
  if (blocks_.program().conventions.interlocked) {
    throw ConfigurationError(
        "--detail mxu=array: expected code of v2 or v3 or of our compiler, found XLA's code for "
        "v4, which counts on interlocks that the array of single cells leaves out");
  }
  scoreboard_.emplace(params_.core, arrays);
  scoreboard_->set_conventions(blocks_.program().conventions);
  data_->use_arrays(arrays);
}

Sequencer::Next Sequencer::run(std::uint64_t now, bool ahead) {
  ahead_ = ahead;
  blocks_.limit_memory();
  const Next next = go_ahead(now);
  note_executions();  // The table may forget what they left idle.
  return next;
}

Sequencer::Next Sequencer::go_ahead(std::uint64_t now) {
  if (flags_.waiting()) {
    if (!flags_.at_least(flags_.wait().flag, flags_.wait().wanted)) return Next::kWait;
    end_wait(now);
  }
  while (!finished_) {
    if (step_ended_ || meets_outside()) {
      if (now_ > now) return Next::kAt;
      switch (step_ended_ ? decide_warm_up() : interact()) {
        case Contact::kDone:
          break;
        case Contact::kLater:
          return Next::kAt;
        case Contact::kSettle:
          return Next::kSettle;
        case Contact::kWait:
          return Next::kWait;
      }
    }
    if (step_ended_) {
      end_step();
      continue;
    }
    if (runs_quietly_) {
      execute_quiet_bundles();
      if (step_ended_ || meets_outside()) continue;
    }
    execute_block();
    go_on();
  }
  return Next::kFinished;
}

// ---- Blocks

void Sequencer::show_bundles() const {
  if (observer() == nullptr || looking_ahead_) return;
  const std::uint32_t op = frames_.empty() ? WaitGraph::kNone : frames_.back().op;
  observer()->on_bundles({place_.number, op, block_->kernel, block_->first, block_->end, now_});
}

void Sequencer::execute_block() {
  const Block& block = *block_;
  show_bundles();
  std::uint64_t guards = 0;
  if (block.guarded_queue_ops == 0) check_timing(0);
  if (options_.values) {
    execute_values();
  } else if (data_ != nullptr && data_->knowledge()->follows(block.kernel) && !looking_ahead_) {
    execute_followed();
  } else {
    run_scalar(block.first_op, block.end_op);
  }
  if (block.guarded_queue_ops != 0) {
    guards = scalar_.take_queue_guards();
    check_timing(guards);
    count_guarded(guards);
  }
  if (scoreboard_) {
    count_by_itself(block);
  } else {
    if (counted_ != &block || counted_idle_ != idle_) {
      note_executions();
      counted_ = &block;
      counted_idle_ = idle_;
    }
    ++executions_;
  }
  const std::uint64_t end = place_.clock.after(now_, block.duration + held_);
  now_ += block.duration;
  if (held_ != 0) hold(held_, ScheduleCause::kUnforced);
  held_ = 0;
  if (end != now_) hold(end - now_, ScheduleCause::kSlowClock);
  check_length();
}

/// The block was executed just now and left the units as it found them, so that it will again;
/// nobody asks for single trips.
bool Sequencer::finds_units_alike(const Block& block) const {
  return counted_ == &block && counted_idle_ == block.remembered_idle &&
         state_ == block.remembered_entry && state_ == block.remembered_exit &&
         block.remembered_held == 0 && place_.clock.is_the_machines() && data_ == nullptr &&
         observer() == nullptr && !options_.values && !looking_ahead_;
}

/// Trips of a block that branches back to itself, up to the last one: what they do to the units is
/// known.
void Sequencer::repeat_block() {
  const Block& block = *block_;
  do {
    if (block.loop.counts()) count_trips(block.loop, block.duration);
    run_scalar(block.first_op, block.end_op);
    ++executions_;
    now_ += block.duration;
    check_length();
  } while (branch_taken());
}

/// The trips behind which another one follows, as far as check_length() finds nothing.
void Sequencer::count_trips(const CountedLoop& loop, std::uint64_t duration) {
  if (!scalar_.registers_plain() || (block_->kernel == 0 && paths_.any())) return;
  const std::uint64_t left =
      std::min(step_limit_ - now_, options_.runaway_cycles - (now_ - last_contact_));
  const std::uint64_t trips = std::min(
      loop.trips(scalar_.scalar(loop.counter), scalar_.assumed_value(loop.bound)), left / duration);
  scalar_.add_to_scalar(loop.counter, static_cast<std::uint32_t>(trips) * loop.step);
  executions_ += trips;
  now_ += trips * duration;
}

/// All but BlockCounters::kRan. Multiplying numbers of 64 bits is slow, and most blocks are
/// executed once.
TPU_CPU_CLONES void add_block_counters(const std::uint32_t* values, std::uint64_t times,
                                       std::uint64_t* counts) {
  if (times == 1) {
    for (std::size_t i = 0; i < BlockCounters::kRan; ++i) counts[i] += values[i];
    return;
  }
  for (std::size_t i = 0; i < BlockCounters::kRan; ++i) counts[i] += times * values[i];
}

/// A loop executes a block again and again: they are noted when another one comes, with what the
/// units left idle in them and what position() asks for at each DMA.
void Sequencer::note_last_executions() {
  for (const Block* block : executed_) {
    note_executions(*block, nullptr, std::exchange(executions_of_[block->number], 0));
  }
  executed_.clear();
  if (executions_ != 0) note_executions(*counted_, counted_idle_, std::exchange(executions_, 0));
}

void Sequencer::note_executions(const Block& block, const UnitCycles* idle, std::uint64_t times) {
  if (block.number >= pending_.size()) pending_.resize(2 * std::size_t{block.number} + 64);
  if (pending_[block.number] == 0) uncounted_.push_back(&block);
  pending_[block.number] += times;
  for (std::size_t r = BlockCounters::kRan; r < BlockCounters::kCount; ++r) {
    counts_[r] += times * block.counters.values[r];
  }
  if (idle == nullptr) return;
  for (std::size_t u = 0; u < idle->size(); ++u) {
    counts_[BlockCounters::kIdle + pushed_index(u)] += times * (*idle)[u];
  }
}

/// Adds the counters of the blocks that were executed since the last time somebody asked.
void Sequencer::count_blocks() {
  note_executions();
  for (const Block* block : uncounted_) {
    std::uint64_t& times = pending_[block->number];
    add_block_counters(block->counters.values.data(), times, counts_.data());
    times = 0;
  }
  uncounted_.clear();
}

void Sequencer::fault_of_length() const {
  if (now_ - last_contact_ > options_.runaway_cycles) {
    fault("the core has run for " + std::to_string(now_ - last_contact_) +
          " cycles without a DMA, a wait or an end: an endless loop");
  }
  fault("the step has taken more than " + std::to_string(options_.max_step_cycles) +
        " cycles, waits for the infeed aside: an endless loop, or --max-cycles has to allow more");
}

/// A step begins, or what came before it ends.
void Sequencer::limit_step() {
  const std::uint64_t most = ~std::uint64_t{0} - now_;
  step_limit_ = now_ + std::min(options_.max_step_cycles, most);
}

void Sequencer::look_up_timing(std::uint64_t guards) {
  if (looking_ahead_) return;
  if (scoreboard_) return check_bundles(guards);
  const BlockTable::Outcome outcome = blocks_.check(*block_, state_, guards);
  if (outcome.violation) {
    fault(outcome.violation, outcome.bundle, now_ + outcome.offset,
          outcome.violation.hazard.ready - outcome.offset);
  }
  state_ = outcome.exit;
  held_ = outcome.held;
  idle_ = outcome.idle;
}

void Sequencer::run_scalar(const MicroOp* begin, const MicroOp* end) {
  if (begin == end) return;
  const MicroOp* failed = scalar_.run(begin, end);
  if (failed != nullptr) fault_in(failed);
}

void Sequencer::fault_in(const MicroOp* failed) {
  const DecodedKernel& kernel = blocks_.kernel(block_->kernel);
  const auto index = static_cast<std::uint32_t>(failed - kernel.ops.data());
  std::uint32_t bundle = block_->first;
  std::uint64_t cycle = now_;
  while (kernel.bundles[bundle + 1].first_op <= index) {
    cycle += 1 + kernel.bundles[bundle].delay;
    ++bundle;
  }
  const Origin origin = scalar_.problem_origin();
  if (origin.known()) fault(scalar_.problem(), bundle, cycle);
  throw UnknownControl(where(bundle, cycle) + ": " + scalar_.problem() + "\n  " + code(bundle),
                       origin);
}

void Sequencer::execute_values() {
  std::uint64_t cycle = now_;
  for (std::uint32_t b = block_->first; b < block_->end; ++b) {
    const isa::ControlRequest control = data_->control(block_->kernel, b);
    const DecodedKernel& kernel = blocks_.kernel(block_->kernel);
    const DecodedBundle& bundle = kernel.bundles[b];
    run_scalar(kernel.ops.data() + bundle.first_op,
               kernel.ops.data() + kernel.bundles[b + 1].first_op);
    TPU_CHECK(
        bundle.branch_target == DecodedBundle::kNone || control.branches == scalar_.branch_taken(),
        where(b, cycle) << ": the scalar slice and the data path disagree on the branch");
    try {
      data_->execute(block_->kernel, b, edges() + cycle - now_);
    } catch (const ProgramFault& problem) {
      fault(problem.what(), b, cycle);
    }
    cycle += 1 + bundle.delay;
  }
}

/// The bundles of a kernel that is followed with values off: scalar unit and vector unit both read
/// the state before the bundle.
void Sequencer::execute_followed() {
  const DecodedKernel& kernel = blocks_.kernel(block_->kernel);
  std::uint64_t cycle = now_;
  for (std::uint32_t b = block_->first; b < block_->end; ++b) {
    try {
      data_->prepare_followed(block_->kernel, b, scalar_);
    } catch (const UnknownControl& unknown) {
      throw UnknownControl(where(b, cycle) + ": " + unknown.what() + "\n  " + code(b),
                           unknown.origin(), block_->kernel);
    } catch (const ProgramFault& problem) {
      fault(problem.what(), b, cycle);
    }
    run_scalar(kernel.ops.data() + kernel.bundles[b].first_op,
               kernel.ops.data() + kernel.bundles[b + 1].first_op);
    try {
      data_->execute_followed(block_->kernel, b);
    } catch (const ProgramFault& problem) {
      fault(problem.what(), b, cycle);
    }
    cycle += 1 + kernel.bundles[b].delay;
  }
}

void Sequencer::count_guarded(std::uint64_t guards) {
  const DecodedKernel& kernel = blocks_.kernel(block_->kernel);
  const std::uint32_t end = kernel.bundles[block_->end].first_queue_op;
  for (std::uint32_t q = kernel.bundles[block_->first].first_queue_op; q < end; ++q) {
    const QueueOp& op = kernel.queue_ops[q];
    if (!op.guarded) continue;
    if ((guards & 1) != 0) {
      add_push(op, params_.core, counts_);
    } else if (op.kind == QueueOp::Kind::kEupPush) {
      ++counts_[BlockCounters::kIdle + static_cast<std::size_t>(Unit::kEup)];
    }
    guards >>= 1;
  }
}

// ---- Control

void Sequencer::go_to(std::uint32_t kernel, std::uint32_t bundle) {
  while (bundle == blocks_.program().kernels[kernel].bundles.size()) {
    if (frames_.empty()) {
      step_ended_ = true;
      settled_ = kNever;
      return;
    }
    const Frame frame = frames_.back();
    return_from_kernel();
    scalar_.enter(frame.kernel);
    if (data_ != nullptr) data_->return_to(frame.kernel, kernel);
    kernel = frame.kernel;
    bundle = frame.bundle;
  }
  enter(blocks_.block(kernel, bundle, false));
}

/// Inside the kernel, with the block that was found there before.
void Sequencer::go_to(Block*& remembered, std::uint32_t bundle) {
  if (remembered != nullptr) return enter(*remembered);
  const std::uint32_t kernel = block_->kernel;
  if (bundle == blocks_.program().kernels[kernel].bundles.size()) return go_to(kernel, bundle);
  remembered = &blocks_.block(kernel, bundle, false);
  enter(*remembered);
}

void Sequencer::enter(Block& block) {
  block_ = &block;
  if (!block.interacts) return;
  next_interaction_ = blocks_.kernel(block.kernel).bundles[block.first].first_interaction;
}

std::uint32_t Sequencer::branch_bundle() const {
  const DecodedKernel& kernel = blocks_.kernel(block_->kernel);
  std::uint32_t bundle = block_->end - 1;
  while (kernel.bundles[bundle].branch_target == DecodedBundle::kNone) --bundle;
  return bundle;
}

/// What the code has decided, or what the user has stated for a loop or a conditional.
bool Sequencer::branch_taken() {
  const bool is_stated = block_->kernel == 0 && paths_.any();
  if (!is_stated && scalar_.branch_known()) return scalar_.branch_taken();
  const Origin origin = scalar_.branch_origin();
  const bool assumes = scalar_.assumes(origin);
  std::optional<bool> taken;
  if (origin.known()) taken = scalar_.branch_taken();
  if (is_stated) {
    taken = paths_.decide(branch_bundle(), taken, assumes);
    if (paths_.endless() != nullptr) {
      fault(paths_.endless()->name + " has made more than " + std::to_string(options_.max_trips) +
            " trips: an endless loop, or --max-trips has to allow more");
    }
  }
  if (taken) return *taken;
  if (assumes) {
    assumed_ = true;
    return scalar_.branch_taken();
  }
  const std::uint32_t bundle = branch_bundle();
  throw UnknownControl(where(bundle, now_) +
                           ": a branch depends on a value that the vector unit computed, which is "
                           "unknown with values off; run with --values on\n  " +
                           code(bundle),
                       origin);
}

void Sequencer::go_on() {
  Block& block = *block_;
  switch (block.how_it_ends) {
    case Block::End::kNext:
      return go_to(block.next, block.end);
    case Block::End::kBranch:
      if (branch_taken()) {
        if (!block.repeats || !finds_units_alike(block)) return go_to(block.branch, block.target);
        repeat_block();
      }
      return go_to(block.next, block.end);
    case Block::End::kBranchSlot:
      pending_target_ = branch_taken() ? block.target : block.end + 1;
      if (block.next == nullptr) block.next = &blocks_.block(block.kernel, block.end, true);
      return enter(*block.next);
    case Block::End::kSlot:  // Of one branch: the bundle before it.
      return go_to(pending_target_ == block.end ? block.next : block.branch, pending_target_);
    case Block::End::kCall:
      if (scalar_.call_taken()) return call();
      return go_to(block.next, block.end);
  }
}

void Sequencer::call() {
  const Block& block = *block_;
  const isa::CallSite& site = blocks_.program().call_sites[block.call_site];
  if (frames_.size() == kDeepestCall) {
    fault("calls are nested deeper than " + std::to_string(kDeepestCall));
  }
  if (data_ != nullptr) {
    try {
      data_->enter(site, block.kernel);
    } catch (const ProgramFault& problem) {
      fault(problem.what());
    }
  }
  graph_.pass(position());
  frames_.push_back({block.kernel, block.end, site.op, site.is_opening(), now_, counters()});
  outside_.executes(site.op, now_);
  scalar_.enter(site.kernel);
  go_to(site.kernel, 0);
}

void Sequencer::return_from_kernel() {
  graph_.pass(position());
  const Frame frame = frames_.back();
  frames_.pop_back();
  outside_.executes(frames_.empty() ? OpResult::kNoOp : frames_.back().op, now_);
  const Counters own = counters() - frame.before;
  OpResult& op = result_.ops[frame.op];
  if (!frame.is_opening) ++op.count;
  op.cycles += now_ - frame.begin;
  op.counters += own;
  if (observer() != nullptr) {
    observer()->on_op(place_.number, frame.op, frame.begin, now_, own);
  }
}

/// All cores of a run have the same steps of warm-up, whichever is simulated first.
Sequencer::Contact Sequencer::decide_warm_up() {
  const std::vector<StepSpan>& before = result_.warmup;
  if (!result_.steps.empty() || !warm_up_.asks(before.size())) return Contact::kDone;
  warm_up_.end_step(now_, place_.number, before, now_ - step_begin_);
  if (ahead_) return Contact::kLater;
  if (settled_ == now_) return Contact::kDone;
  settled_ = now_;
  return Contact::kSettle;
}

void Sequencer::end_step() {
  step_ended_ = false;
  limit_step();
  graph_.pass(position());
  const StepSpan span{step_begin_, now_};
  step_begin_ = now_;
  causes_.begin_step(place_.number, now_);
  if (result_.steps.empty()) {
    if (warm_up_.has(result_.warmup.size())) {
      result_.warmup.push_back(span);
      begin_account();
      return begin_step();
    }
  }
  if (observer() != nullptr) {
    observer()->on_step(place_.number, static_cast<std::uint32_t>(result_.steps.size()), span.begin,
                        span.end);
  }
  result_.steps.push_back(span);
  finished_ = result_.steps.size() == repetition_.steps();
  if (!finished_) begin_step();
}

void Sequencer::describe(StepState& state) const {
  if (now_ != state.now() || scoreboard_) state.leave_open();
  state.add(place_.clock.phase(now_));
  state.add_past(last_contact_);
  const Scoreboard::State& units = blocks_.contents(state_);
  state.add_list({units.begin(), units.end()});
  paths_.describe(state);
  flags_.describe(state);
  scalar_.describe(state);
}

void Sequencer::begin_step() {
  outside_.begin_next_step(result_.steps.size());
  finished_ = result_.steps.size() == repetition_.steps();
  if (!finished_) go_to(0, 0);
}

/// A step of the warm-up ends here. What units still do of its pushes belongs to the account.
void Sequencer::begin_account() {
  before_account_ = counters();
  const UnitCycles busy = busy_now();
  for (std::size_t u = 0; u < busy.size(); ++u) {
    before_account_.busy_cycles[pushed_index(u)] -= busy[u];
  }
  busy_passed_ = {};
  result_.ops = OpResults();
  result_.ops.resize(blocks_.program().ops.size());
  result_.waited_for.clear();
  result_.begin_cycle = now_;
  graph_.begin(place_.number, now_);
  outside_.begin_account(now_);
  if (observer() != nullptr) {
    observer()->on_account({place_.number, place_.chip, place_.core, now_});
  }
}

double Sequencer::progress() const {
  if (finished_ || options_.steps == 0) return 1;
  const std::uint32_t top =
      frames_.empty() ? (block_->kernel == 0 ? block_->first : 0) : frames_.front().bundle;
  const double part =
      static_cast<double>(top) / static_cast<double>(blocks_.program().kernels[0].bundles.size());
  // As many steps of the warm-up as there usually are, or as there have been.
  constexpr std::size_t kUsualWarmUp = 2;
  const std::size_t warm = result_.warmup.size();
  std::size_t all_warm = warm;
  if (result_.steps.empty()) {
    const std::size_t usual = std::min<std::size_t>(kUsualWarmUp, options_.most_warmup_steps);
    all_warm = std::max({warm, usual, std::size_t{options_.warmup_steps}});
  }
  return (static_cast<double>(result_.steps.size() + warm) + part) /
         static_cast<double>(repetition_.steps() + all_warm);
}

// ---- Accounts

/// Cycles behind a block: of the machine in which this chip's slower clock has no edge, or in which
/// interlocks have held bundles of the block.
void Sequencer::hold(std::uint64_t cycles, ScheduleCause cause) {
  counts_[BlockCounters::kDelay] += cycles;
  counts_[BlockCounters::kSchedule + static_cast<std::size_t>(cause)] += cycles;
  counts_[BlockCounters::kRan + static_cast<std::size_t>(resource_of(cause))] += cycles;
  for (const Unit unit : kSlotUnits) {
    counts_[BlockCounters::kIdle + static_cast<std::size_t>(unit)] += cycles;
  }
  if (cause == ScheduleCause::kSlowClock) {  // Interlocks stand in the block's own account.
    for (std::size_t u = 0; u < UnitCycles().size(); ++u) {
      counts_[BlockCounters::kIdle + pushed_index(u)] += cycles;
    }
  }
  now_ += cycles;
}

/// How long the units go on working when nothing issues from now on.
UnitCycles Sequencer::busy_now() const {
  if (!scoreboard_) return blocks_.busy(state_);
  UnitCycles busy{};
  for (std::size_t u = 0; u < busy.size(); ++u) {
    const std::uint64_t until = scoreboard_->busy_until(pushed_unit(u));
    busy[u] = static_cast<std::uint32_t>(until > edges() ? until - edges() : 0);
  }
  return busy;
}

/// Counts the idle cycles of the units while the core, from now on, does not run.
void Sequencer::count_idle(CoreState state, std::uint64_t cycles) {
  for (const Unit unit : kSlotUnits) {
    dynamic_.idle[static_cast<std::size_t>(unit)].add(state, cycles);
  }
  const std::uint64_t works = place_.clock.edges(now_ + cycles) - edges();
  for (std::size_t u = 0; u < UnitCycles().size(); ++u) {
    dynamic_.idle[pushed_index(u)].add(state, cycles - works);  // A slower clock has no edge.
  }
  if (scoreboard_) return pass_cycles(state, edges(), edges() + works);
  const UnitCycles busy = blocks_.busy(state_);
  for (std::size_t u = 0; u < busy.size(); ++u) {
    if (busy[u] < works) dynamic_.idle[pushed_index(u)].add(state, works - busy[u]);
  }
}

Counters Sequencer::counters() {
  count_blocks();
  Counters all = dynamic_;
  all.bundles = counts_[BlockCounters::kBundles];
  all.scalar_ops = counts_[BlockCounters::kScalarOps];
  all.vector_alu_ops = counts_[BlockCounters::kVectorAluOps];
  all.vector_loads = counts_[BlockCounters::kVectorLoads];
  all.vector_stores = counts_[BlockCounters::kVectorStores];
  all.matmul_pushes = counts_[BlockCounters::kMatmulPushes];
  all.weight_pushes = counts_[BlockCounters::kWeightPushes];
  all.xlu_pushes = counts_[BlockCounters::kXluPushes];
  all.eup_pushes = counts_[BlockCounters::kEupPushes];
  for (std::size_t u = 0; u < kUnits; ++u) {
    all.busy_cycles[u] += counts_[BlockCounters::kBusy + u];
    all.idle[u].add(CoreState::kIssue, counts_[BlockCounters::kIdle + u]);
  }
  for (std::size_t u = 0; u < UnitCycles().size(); ++u) all.idle[pushed_index(u)] += none_works_;
  for (std::size_t c = 0; c < kScheduleCauses; ++c) {
    all.schedule[c] = counts_[BlockCounters::kSchedule + c];
  }
  all.core.add(CoreState::kIssue, counts_[BlockCounters::kBundles]);
  all.core.add(CoreState::kDelay, counts_[BlockCounters::kDelay]);
  return all;
}

CoreResult Sequencer::result(std::uint64_t run_end) {
  const std::uint64_t rest = run_end - now_;
  count_idle(CoreState::kFinished, rest);
  dynamic_.core.add(CoreState::kFinished, rest);
  result_.total = counters() - before_account_;
  const UnitCycles busy = busy_now();
  const std::uint64_t works = place_.clock.edges(run_end) - edges();
  for (std::size_t u = 0; u < busy.size(); ++u) {
    std::uint64_t& mine = result_.total.busy_cycles[pushed_index(u)];
    if (scoreboard_) {
      mine = busy_passed_[u];
    } else if (busy[u] > works) {
      mine -= busy[u] - works;  // What it would do behind the end belongs to no cycle of the run.
    }
  }
  check_accounts();
  result_.end_cycle = now_;
  return std::move(result_);
}

/// Busy and idle cycles are counted apart from each other and from those of the core.
void Sequencer::check_accounts() const {
  const std::uint64_t cycles = result_.total.core.total();
  for (std::size_t u = 0; u < kUnits; ++u) {
    const UnitAccount account = unit_account(result_.total, static_cast<Unit>(u));
    TPU_CHECK(account.total() == cycles, "core " << place_.number << ": of " << cycles << " cycles "
                                                 << to_string(static_cast<Unit>(u)) << " counts "
                                                 << account.busy << " busy and "
                                                 << account.idle.total() << " idle");
  }
}

// ---- Looking ahead

std::vector<Sequencer::FlagAddition> Sequencer::look_ahead(std::uint64_t blocks) {
  looking_ahead_ = true;
  idle_ = nullptr;  // Of the last block; the table may have forgotten it, and nobody asks it now.
  flags_.end_wait();
  try {
    for (std::uint64_t i = 0; i < blocks && !finished_; ++i) {
      if (step_ended_) {
        decide_warm_up();
        end_step();
        continue;
      }
      if (block_->interacts && next_interaction_ != DecodedBundle::kNone) interact();
      execute_block();
      go_on();
    }
  } catch (const ProgramFault&) {
    // As far as the code can be followed without the awaited data.
  }
  return std::move(additions_);
}

// ---- Faults

std::string Sequencer::where(std::uint32_t bundle, std::uint64_t cycle) const {
  return "core " + std::to_string(place_.number) + " (chip " + std::to_string(place_.chip) +
         ", core " + std::to_string(place_.core) + "), cycle " + std::to_string(cycle) + ", " +
         to_string(CodePlace{block_->kernel, bundle}, blocks_.program());
}

std::string Sequencer::code(std::uint32_t bundle) const {
  const isa::Kernel& kernel = blocks_.program().kernels[block_->kernel];
  return isa::format_bundle(kernel, kernel.bundles[bundle]);
}

void Sequencer::fault(const std::string& what, std::uint32_t bundle, std::uint64_t cycle) const {
  throw ProgramFault(where(bundle, cycle) + ": " + what + "\n  " + code(bundle));
}

void Sequencer::fault(const Scoreboard::Violation& violation, std::uint32_t bundle,
                      std::uint64_t cycle, std::uint64_t too_early) const {
  const isa::Kernel& kernel = blocks_.program().kernels[block_->kernel];
  std::string subject = "a register";
  if (violation.op != nullptr) {
    const isa::Instruction& instruction =
        kernel.begin(kernel.bundles[bundle])[violation.op->instruction];
    subject = isa::opcode_text(instruction.opcode, instruction.unit);
  }
  std::string what;
  switch (violation.hazard.kind) {
    case Hazard::Kind::kRegisterEarly:
      what = "a register is read before its value is there";
      break;
    case Hazard::Kind::kPushEarly:
      what = subject + ": the unit does not take a push yet";
      break;
    case Hazard::Kind::kWeightsEarly:
      what = subject + ": the matmul overtakes the weights that it swaps in; their last push is";
      break;
    case Hazard::Kind::kPopEarly:
      what = subject + ": the unit does not give another result yet";
      break;
    case Hazard::Kind::kResultEarly:
      what = subject + ": the result is not ready yet";
      break;
    case Hazard::Kind::kQueueEmpty:
      what = subject + ": expected a result, but nothing was pushed that this could pop";
      break;
    case Hazard::Kind::kQueueFull:
      what = subject + ": the queue holds " + std::to_string(violation.hazard.ready) +
             " results and has no place for another; pop first";
      break;
    case Hazard::Kind::kNoSuchUnit:
    case Hazard::Kind::kNone:
      break;
  }
  const bool timed = violation.hazard.kind != Hazard::Kind::kQueueEmpty &&
                     violation.hazard.kind != Hazard::Kind::kQueueFull;
  if (timed) {
    what += ": " + std::to_string(too_early) + " cycles too early for the machine's latencies";
  }
  fault(what, bundle, cycle);
}

}  // namespace tpu
