#include "models/core/block_table.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "isa/opcode_table.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53ULL;
  return value ^ value >> 33;
}

/// When each unit is done with its last push.
UnitTimes times_of(const Scoreboard& scoreboard) {
  UnitTimes times{};
  for (std::size_t u = 0; u < times.size(); ++u) times[u] = scoreboard.busy_until(pushed_unit(u));
  return times;
}

std::size_t unit_index(Unit unit) { return BlockCounters::kBusy + static_cast<std::size_t>(unit); }
std::size_t idle_index(Unit unit) { return BlockCounters::kIdle + static_cast<std::size_t>(unit); }

/// A unit that works in the cycles in which something stands in its slot.
struct SlotUnit {
  isa::Slot slot;
  Unit unit;
  BlockCounters::Count operations;
};
constexpr SlotUnit kUnitsOfSlots[] = {
    {isa::Slot::kScalar, Unit::kScalar, BlockCounters::kScalarOps},
    {isa::Slot::kVectorAlu, Unit::kVectorAlu, BlockCounters::kVectorAluOps},
    {isa::Slot::kVectorLoad, Unit::kVectorLoad, BlockCounters::kVectorLoads},
    {isa::Slot::kVectorStore, Unit::kVectorStore, BlockCounters::kVectorStores}};

/// The instructions and the bundles of a block that have something in the slot of each of them:
/// bundle by bundle in bytes side by side, added up before one of them is full.
class SlotUses {
 public:
  void add(SlotCounts counts) {
    few_instructions_ += counts;
    few_bundles_ += (counts + kAnySlotTaken) >> 7 & kLowestOfSlots;
    if (((few_instructions_ | few_bundles_) & kTopOfSlots) != 0) add_up();
  }
  void add_up() {
    for (std::size_t u = 0; u < instructions.size(); ++u) {
      instructions[u] += count_of(few_instructions_, kUnitsOfSlots[u].slot);
      bundles[u] += count_of(few_bundles_, kUnitsOfSlots[u].slot);
    }
    few_instructions_ = few_bundles_ = 0;
  }
  std::array<std::uint32_t, std::size(kUnitsOfSlots)> instructions{};
  std::array<std::uint32_t, std::size(kUnitsOfSlots)> bundles{};

 private:
  SlotCounts few_instructions_ = 0;
  SlotCounts few_bundles_ = 0;
};

[[noreturn]] void refuse(const isa::Kernel& kernel, std::uint32_t bundle, const char* what) {
  std::ostringstream text;
  text << "kernel \"" << kernel.name << "\", bundle 0x" << std::hex << bundle << ": " << what;
  throw ProgramFault(text.str());
}

/// So that a block's duration and counters fit 32 bits.
constexpr std::uint32_t kLongestDelay = 1U << 30;

/// A bundle pushes, pops or writes a register slowly.
bool touches_units(const DecodedKernel& kernel, std::uint32_t bundle) {
  const DecodedBundle& mine = kernel.bundles[bundle];
  const DecodedBundle& next = kernel.bundles[bundle + 1];
  return mine.first_queue_op != next.first_queue_op ||
         mine.first_slow_write != next.first_slow_write;
}

bool is_push(QueueOp::Kind kind) { return kind > QueueOp::Kind::kScalarPop; }

/// Cycles for which a push keeps its unit busy.
std::uint64_t busy_cycles(const QueueOp& op, const CoreParams& params) {
  switch (op.kind) {
    case QueueOp::Kind::kMxuRows:
      return std::uint64_t{params.mxu.push_interval_cycles} * (op.packed ? 2 : 1);
    case QueueOp::Kind::kXluPush:
    case QueueOp::Kind::kTransposePush:
      return params.xlu_interval_cycles;
    case QueueOp::Kind::kEupPush:
      return 1;
    default:
      return 0;
  }
}

/// Cycles from `since` to `now`, in which nothing is pushed, that units do not need for the work
/// that they had.
void add_idle_until(const UnitTimes& busy_until, std::uint64_t since, std::uint64_t now,
                    UnitCycles& idle) {
  for (std::size_t u = 0; u < idle.size(); ++u) {
    idle[u] += static_cast<std::uint32_t>(now - std::max(since, std::min(busy_until[u], now)));
  }
}

}  // namespace

void add_push(const QueueOp& op, const CoreParams& params,
              std::array<std::uint64_t, BlockCounters::kCount>& counters) {
  switch (op.kind) {
    case QueueOp::Kind::kMxuRows:
      counters[BlockCounters::kMatmulPushes] += op.blocks;
      counters[unit_index(Unit::kMxu0) + op.unit] += busy_cycles(op, params);
      break;
    case QueueOp::Kind::kMxuWeights:
      ++counters[BlockCounters::kWeightPushes];
      break;
    case QueueOp::Kind::kXluPush:
    case QueueOp::Kind::kTransposePush:
      ++counters[BlockCounters::kXluPushes];
      if (op.unit == 0) counters[unit_index(Unit::kXlu)] += busy_cycles(op, params);
      break;
    case QueueOp::Kind::kEupPush:
      ++counters[BlockCounters::kEupPushes];
      counters[unit_index(Unit::kEup)] += busy_cycles(op, params);
      break;
    default:
      break;
  }
}

std::size_t BlockTable::StateHash::operator()(const Scoreboard::State& state) const {
  std::uint64_t hash = state.size();
  for (std::uint32_t word : state) hash = mix(hash ^ word);
  return hash;
}

std::size_t BlockTable::NumberHash::operator()(std::uint64_t number) const { return mix(number); }

std::size_t BlockTable::KeyHash::operator()(const Key& key) const {
  return mix(key.block_and_state ^ mix(key.guards));
}

BlockTable::BlockTable(const isa::Program& program, const std::vector<DecodedKernel>& kernels,
                       const CoreParams& params, std::uint32_t longest, std::size_t most_remembered)
    : program_(program),
      params_(params),
      longest_(longest),
      most_remembered_(most_remembered),
      kernels_(kernels),
      causes_(kernels.size()),
      scoreboard_(params) {
  scoreboard_.set_conventions(program.conventions);
  TPU_CHECK(params.mxu.count <= 4, params.mxu.count << " MXUs");
  number_of(scoreboard_.save(0));
}

Block& BlockTable::make_block(std::uint32_t kernel, std::uint32_t bundle, bool slot) {
  blocks_.emplace_back();
  Block& block = blocks_.back();
  block.number = static_cast<std::uint32_t>(blocks_.size() - 1);
  block.kernel = kernel;
  block.first = bundle;
  extend_block(block, slot);
  count(block);
  const DecodedKernel& code = kernels_[kernel];
  const DecodedBundle& first = code.bundles[block.first];
  const DecodedBundle& end = code.bundles[block.end];
  block.first_op = code.ops.data() + first.first_op;
  block.end_op = code.ops.data() + end.first_op;
  block.touches_units =
      first.first_queue_op != end.first_queue_op || first.first_slow_write != end.first_slow_write;
  block.is_quiet = !block.touches_units && block.how_it_ends != Block::End::kCall;
  block.repeats = block.how_it_ends == Block::End::kBranch && block.target == block.first &&
                  !block.interacts && block.guarded_queue_ops == 0;
  if (block.repeats) block.loop = counted_loop(block.first_op, block.end_op);
  return block;
}

/// Takes bundles behind the first that neither touch the outside nor branch nor call, while the
/// block stays shorter than it may become. Returns the one behind them.
std::uint32_t BlockTable::take_plain(Block& block, std::uint32_t bundle,
                                     std::uint32_t count) const {
  if (bundle == block.first) return bundle;
  const DecodedBundle* const bundles = kernels_[block.kernel].bundles.data();
  const DecodedBundle* const end =
      bundles + std::min<std::uint64_t>(count, std::uint64_t{block.first} + longest_);
  const DecodedBundle* each = bundles + bundle;
  std::uint64_t duration = block.duration;
  for (; each < end; ++each) {
    if (each->first_interaction != each[1].first_interaction || each->guarded_queue_ops != 0 ||
        std::max<std::uint64_t>(each->delay, duration) > kLongestDelay ||
        (each->branch_target & each->call_site) != DecodedBundle::kNone) {
      break;
    }
    duration += 1 + each->delay;
  }
  block.duration = static_cast<std::uint32_t>(duration);
  block.end = static_cast<std::uint32_t>(each - bundles);
  return block.end;
}

void BlockTable::extend_block(Block& block, bool slot) {
  const isa::Kernel& source = program_.kernels[block.kernel];
  const std::vector<DecodedBundle>& bundles = kernels_[block.kernel].bundles;
  const auto interacts = [&](std::uint32_t b) {
    return bundles[b].first_interaction != bundles[b + 1].first_interaction;
  };
  const std::uint32_t count = static_cast<std::uint32_t>(source.bundles.size());
  block.interacts = interacts(block.first);
  std::uint32_t b = block.first;
  const auto take = [&] {
    if (bundles[b].delay > kLongestDelay) refuse(source, b, "a delay of more than 2^30 cycles");
    block.duration += 1 + bundles[b].delay;
    block.guarded_queue_ops =
        static_cast<std::uint16_t>(block.guarded_queue_ops + bundles[b].guarded_queue_ops);
    block.end = ++b;
  };
  if (slot) {
    if (bundles[b].branch_target != DecodedBundle::kNone ||
        bundles[b].call_site != DecodedBundle::kNone) {
      refuse(source, b, "a branch or a call stands in the delay slot of a branch");
    }
    block.how_it_ends = Block::End::kSlot;
    take();
    return;
  }
  while (b < count) {
    b = take_plain(block, b, count);
    if (b == count) return;
    const bool first = b == block.first;
    if (!first && (interacts(b) || b - block.first >= longest_ || block.duration > kLongestDelay ||
                   block.guarded_queue_ops + bundles[b].guarded_queue_ops > 64)) {
      return;
    }
    if (bundles[b].call_site != DecodedBundle::kNone) {
      if (bundles[b].branch_target != DecodedBundle::kNone) {
        refuse(source, b, "a branch and a call stand in one bundle");
      }
      block.how_it_ends = Block::End::kCall;
      block.call_site = bundles[b].call_site;
      take();
      return;
    }
    if (bundles[b].branch_target == DecodedBundle::kNone) {
      take();
      continue;
    }
    if (b + 1 == count) refuse(source, b, "the branch has no bundle in its delay slot");
    block.target = bundles[b].branch_target;
    take();
    if (interacts(b) || longest_ < 2) {
      block.how_it_ends = Block::End::kBranchSlot;
      return;
    }
    if (bundles[b].branch_target != DecodedBundle::kNone ||
        bundles[b].call_site != DecodedBundle::kNone) {
      refuse(source, b, "a branch or a call stands in the delay slot of a branch");
    }
    block.how_it_ends = Block::End::kBranch;
    take();
    return;
  }
}

const ScheduleCauses& BlockTable::causes(std::uint32_t kernel) {
  std::unique_ptr<ScheduleCauses>& found = causes_[kernel];
  if (found == nullptr) {
    found = std::make_unique<ScheduleCauses>(program_.kernels[kernel], kernels_[kernel], params_);
  }
  return *found;
}

void BlockTable::count(Block& block) {
  const isa::Kernel& source = program_.kernels[block.kernel];
  const DecodedKernel& kernel = kernels_[block.kernel];
  const ScheduleCauses& causes = this->causes(block.kernel);
  std::array<std::uint64_t, BlockCounters::kCount> values{};
  SlotUses uses;
  std::uint64_t eup_bundles = 0;
  for (const auto* charge = causes.begin(block.first); charge != causes.begin(block.end);
       ++charge) {
    values[BlockCounters::kSchedule + static_cast<std::size_t>(charge->cause)] += charge->cycles;
  }
  for (std::size_t c = 0; c < kScheduleCauses; ++c) {
    const auto resource = static_cast<std::size_t>(resource_of(static_cast<ScheduleCause>(c)));
    values[BlockCounters::kRan + resource] += values[BlockCounters::kSchedule + c];
  }
  for (std::uint32_t b = block.first; b < block.end; ++b) {
    values[BlockCounters::kDelay] += kernel.bundles[b].delay;
    const BriefInstruction* const end = kernel.brief.end(source.bundles[b]);
    SlotCounts slots = 0;
    for (const BriefInstruction* i = kernel.brief.begin(source.bundles[b]); i != end; ++i) {
      reached_[i->opcode] = true;
      slots += kSlotCounts[i->opcode];
    }
    uses.add(slots);
    bool pushes_eup = false;  // A guarded push counts when its guard is known.
    for (std::uint32_t q = kernel.bundles[b].first_queue_op;
         q < kernel.bundles[b + 1].first_queue_op; ++q) {
      const QueueOp& op = kernel.queue_ops[q];
      if (op.kind == QueueOp::Kind::kEupPush) pushes_eup = true;
      if (!op.guarded && is_push(op.kind)) add_push(op, params_, values);
    }
    eup_bundles += pushes_eup ? 1 : 0;
  }
  uses.add_up();
  const std::uint64_t bundles = block.end - block.first;
  const std::uint64_t cycles = bundles + values[BlockCounters::kDelay];
  values[BlockCounters::kBundles] = bundles;
  for (std::size_t u = 0; u < std::size(kUnitsOfSlots); ++u) {
    values[kUnitsOfSlots[u].operations] = uses.instructions[u];
    values[unit_index(kUnitsOfSlots[u].unit)] += uses.bundles[u];
    values[idle_index(kUnitsOfSlots[u].unit)] += cycles - uses.bundles[u];
  }
  values[idle_index(Unit::kEup)] += cycles - eup_bundles;
  for (std::size_t i = 0; i < values.size(); ++i) {
    block.counters.values[i] = static_cast<std::uint32_t>(values[i]);
  }
}

std::vector<std::string> BlockTable::unconfirmed() const {
  std::vector<std::string> names;
  for (std::size_t o = 0; o < isa::kOpcodeCount; ++o) {
    const auto opcode = static_cast<isa::Opcode>(o);
    if (!reached_[o] || isa::is_confirmed(opcode)) continue;
    names.push_back(isa::opcode_text(opcode) + " (" + isa::to_string(isa::info(opcode).status) +
                    ")");
  }
  return names;
}

BlockTable::StateId BlockTable::number_of(Scoreboard::State state) {
  const auto [entry, is_new] = numbers_.emplace(std::move(state), infos_.size());
  if (!is_new) return entry->second;
  StateInfo info;
  info.state = &entry->first;
  info.horizon = *std::max_element(entry->first.begin(), entry->first.end());
  scoreboard_.load(entry->first);
  const UnitTimes until = times_of(scoreboard_);
  for (std::size_t u = 0; u < until.size(); ++u) {
    info.busy[u] = static_cast<std::uint32_t>(until[u]);
  }
  infos_.push_back(info);
  return entry->second;
}

void BlockTable::forget() {
  std::vector<Scoreboard::State> kept = {*infos_[kRested].state};
  for (const StateId* watched : watched_) kept.push_back(*infos_[*watched].state);
  numbers_.clear();
  infos_.clear();
  outcomes_.clear();
  ages_.clear();
  for (Block& block : blocks_) block.remembered_entry = ~std::uint32_t{0};
  number_of(std::move(kept[0]));
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    *watched_[i] = number_of(std::move(kept[i + 1]));
  }
}

BlockTable::Outcome BlockTable::look_up(Block& block, StateId entry, std::uint64_t guards) {
  const Key key{std::uint64_t{block.number} << 32 | entry, guards};
  const auto found = outcomes_.find(key);
  Outcome outcome;
  if (found != outcomes_.end()) {
    outcome.exit = found->second.exit;
    outcome.held = found->second.held;
    outcome.idle = &found->second.idle;
  } else {
    UnitCycles idle{};
    outcome = compute(block, entry, guards, idle);
    if (outcome.violation) return outcome;
    const Remembered remembered{outcome.exit, outcome.held, idle};
    outcome.idle = &outcomes_.emplace(key, remembered).first->second.idle;
  }
  block.remembered_entry = entry;
  block.remembered_exit = outcome.exit;
  block.remembered_held = outcome.held;
  block.remembered_idle = outcome.idle;
  return outcome;
}

bool BlockTable::pushed_work(const DecodedKernel& kernel, std::uint32_t bundle,
                             UnitTimes& work) const {
  bool any = false;
  work.fill(0);
  for (std::uint32_t q = kernel.bundles[bundle].first_queue_op;
       q < kernel.bundles[bundle + 1].first_queue_op; ++q) {
    const QueueOp& op = kernel.queue_ops[q];
    if (op.kind == QueueOp::Kind::kEupPush) continue;
    const std::uint64_t cycles = busy_cycles(op, params_);
    if (cycles == 0) continue;
    work[op.kind == QueueOp::Kind::kMxuRows ? op.unit : work.size() - 1] = cycles;
    any = true;
  }
  return any;
}

/// Cycles from `now` to `next`, a bundle's own, in which units neither end the work that they had
/// `before` nor do that of its pushes, which begins later where interlocks hold them.
void BlockTable::add_idle(const UnitTimes& before, const UnitTimes& work, std::uint64_t now,
                          std::uint64_t next, UnitCycles& idle) const {
  for (std::size_t u = 0; u < idle.size(); ++u) {
    const std::uint64_t after = scoreboard_.busy_until(pushed_unit(u));
    std::uint64_t free = std::max(now, std::min(before[u], next));
    if (after != before[u]) {
      idle[u] += static_cast<std::uint32_t>(after - work[u] - free);
      free = std::min(after, next);
    }
    idle[u] += static_cast<std::uint32_t>(next - free);
  }
}

BlockTable::Outcome BlockTable::compute(const Block& block, StateId entry, std::uint64_t guards,
                                        UnitCycles& idle) {
  const DecodedKernel& kernel = kernels_[block.kernel];
  scoreboard_.load(*infos_[entry].state);
  std::uint64_t now = 0, counted = 0;
  UnitTimes before = times_of(scoreboard_), work{};
  Outcome outcome;
  for (std::uint32_t b = block.first; b < block.end; ++b) {
    if (scoreboard_.registers_settled() && !touches_units(kernel, b)) {
      now += 1 + kernel.bundles[b].delay;
      continue;
    }
    const Scoreboard::Violation violation = scoreboard_.issue(kernel, b, guards, now);
    if (violation) return {kRested, 0, nullptr, violation, b, now};
    const std::uint16_t used = kernel.bundles[b].guarded_queue_ops;
    guards = used < 64 ? guards >> used : 0;
    const std::uint32_t held = scoreboard_.take_held();
    outcome.held += held;
    const std::uint64_t next = now + held + 1 + kernel.bundles[b].delay;
    if (pushed_work(kernel, b, work)) {
      add_idle_until(before, counted, now, idle);
      add_idle(before, work, now, next, idle);
      before = times_of(scoreboard_);
      counted = next;
    }
    now = next;
  }
  add_idle_until(before, counted, now, idle);
  outcome.exit = number_of(scoreboard_.save(now));
  return outcome;
}

BlockTable::StateId BlockTable::aged(StateId state, std::uint64_t cycles) {
  const std::uint64_t step = std::min<std::uint64_t>(cycles, infos_[state].horizon);
  if (step == 0) return state;
  const std::uint64_t key = std::uint64_t{state} << 32 | step;
  const auto found = ages_.find(key);
  if (found != ages_.end()) return found->second;
  scoreboard_.load(*infos_[state].state);
  const StateId result = number_of(scoreboard_.save(step));
  ages_.emplace(key, result);
  return result;
}

}  // namespace tpu
