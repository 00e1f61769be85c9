#include "models/core/core.h"

#include <algorithm>
#include <map>

#include "models/slow_parts.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

/// SMEM words that the runtime fills on the real chip, as XLA's programs read them.
constexpr std::uint32_t kChipWord = 0;
constexpr std::uint32_t kCoreWord = 1;
constexpr std::uint32_t kPartitionWord = 0x3f88 / 4;

constexpr std::uint32_t kTicksPerProgressCall = 4096;

CoreClock clock_of(const MachineParams& params, std::uint32_t chip) {
  const ChipClocks slow = slow_chips(params);
  const auto found = slow.find(chip);
  return {found != slow.end() ? found->second : params.clock_mhz, params.clock_mhz};
}

}  // namespace

Core::Core(const sc_core::sc_module_name& name, RunClock& clock, const CoreSetup& setup,
           std::uint32_t number, MemoryImage& hbm, const CoreLoad& load)
    : TimedModule(name, clock, Phase::kCores),
      setup_(setup),
      number_(number),
      chip_(number / setup.params.cores_per_chip),
      core_(number % setup.params.cores_per_chip),
      hbm_(hbm),
      begins_alike_(!setup.options.values && load.hbm.empty()),
      runs_ahead_(!setup.options.values && !setup.options.interpret && !setup.followed.any() &&
                  setup.options.observer == nullptr),
      scalar_(setup.params.core.smem_words, chip_, core_),
      flags_(setup.params.core.sync_flags) {
  if (setup.options.values) {
    data_ = std::make_unique<DataPath>(setup.program, setup.params, chip_, core_,
                                       setup.options.check_names);
  } else if (setup.followed.any()) {
    data_ = std::make_unique<DataPath>(setup.program, setup.params, chip_, core_, setup.followed);
  }
  if (setup.options.mxu_array) {
    TPU_CHECK(setup.options.values && setup.options.interpret,
              "arrays cell by cell run with values, bundle by bundle");
    for (std::uint32_t u = 0; u < setup.params.core.mxu.count; ++u) {
      arrays_.push_back(std::make_unique<SystolicArray>(("mxu" + std::to_string(u)).c_str(),
                                                        setup.params.core.mxu));
      out_mxu(*arrays_.back());
    }
  }
  if (data_) scalar_.set_vectors(&data_->state(), data_->knowledge());
  scalar_.set_followed(setup.followed);
  load_smem(load);
  set_lanes();
  DmaPorts& dma_ports = *this;
  CoreOutside& outside = *this;
  dma_ = std::make_unique<DmaEngine>(DmaEngine::Core{chip_, core_}, setup.params, setup.program,
                                     hbm, scalar_, data_ ? &data_->state() : nullptr,
                                     data_ ? data_->knowledge() : nullptr, setup.wait_graph,
                                     overlap_, dma_ports);
  sequencer_ = std::make_unique<Sequencer>(
      Sequencer::Place{number_, chip_, core_, clock_of(setup.params, chip_)}, setup.params,
      setup.blocks, setup.options, setup.warm_up, setup.repetition, scalar_, flags_,
      setup.wait_causes, setup.wait_graph, data_.get(), outside);
}

void Core::start_of_simulation() {
  std::vector<MatrixPort*> arrays;
  arrays.reserve(static_cast<std::size_t>(out_mxu.size()));
  for (int u = 0; u < out_mxu.size(); ++u) arrays.push_back(out_mxu[u]);
  if (!arrays.empty()) sequencer_->use_arrays(arrays);
  begin_to_run();
  wake_at(0);
}

void Core::load_smem(const CoreLoad& load) {
  set_smem(kChipWord, chip_);
  set_smem(kCoreWord, core_);
  if (setup_.program.cores > 1 && kPartitionWord < setup_.params.core.smem_words) {
    set_smem(kPartitionWord, setup_.params.partition_of(number_));
  }
  for (const auto& [word, value] : setup_.program.initial_smem) set_smem(word, value);
  for (const MemoryBlock& block : load.smem) {
    for (std::size_t i = 0; i < block.words.size(); ++i) {
      set_smem(block.address + i, block.words[i]);
    }
  }
}

/// What the members of a class find in SMEM before the run in place of what the representative
/// does.
void Core::set_lanes() {
  const std::uint32_t of_class = setup_.classes.class_of(number_);
  const CoreClasses::Members& members = setup_.classes.members(of_class);
  if (members.size() == 1) return;
  lanes_.emplace(setup_.classes, of_class);
  const MachineParams& params = setup_.params;
  std::map<std::uint32_t, ScalarLanes::Values> words;
  for (const std::uint32_t member : members) {
    words[kChipWord].push_back(member / params.cores_per_chip);
    words[kCoreWord].push_back(member % params.cores_per_chip);
    if (setup_.program.cores > 1 && kPartitionWord < params.core.smem_words) {
      words[kPartitionWord].push_back(params.partition_of(member));
    }
  }
  for (const auto& [word, value] : setup_.program.initial_smem) words.erase(word);
  for (auto& [word, values] : words) lanes_->set_word(word, std::move(values));
  scalar_.set_lanes(&*lanes_);
}

void Core::set_smem(std::uint64_t word, std::uint32_t value) {
  if (word >= setup_.params.core.smem_words) {
    throw WorkloadError("program \"" + setup_.program.name + "\": initial SMEM word " +
                        std::to_string(word) + ", but there are " +
                        std::to_string(setup_.params.core.smem_words));
  }
  scalar_.write_smem(static_cast<std::uint32_t>(word), value);
  if (data_) data_->state().scalar.smem[word] = value;
}

void Core::tick() {
  cycle_ = now();
  if (runs_ahead_) out_hbm->set_awaited(false);
  acts_ = true;
  bool goes_on = true;
  while (goes_on) {
    goes_on = next_contact();
    if (++ticks_ % kTicksPerProgressCall == 0 && setup_.options.progress) {
      setup_.options.progress(sequencer_->progress());
    }
  }
  acts_ = false;
}

/// Acts in cycle_. True when the core goes on at once, in the cycle that cycle_ is then.
bool Core::next_contact() {
  switch (sequencer_->run(cycle_, cycle_ > now())) {
    case Sequencer::Next::kAt:
      if (runs_ahead_ && sequencer_->cycle() > cycle_ && quiet_until(sequencer_->cycle())) {
        cycle_ = sequencer_->cycle();
        return true;
      }
      wake_at(sequencer_->cycle());
      return false;
    case Sequencer::Next::kSettle:
      wake_soon();
      return false;
    case Sequencer::Next::kWait:
      return runs_ahead_ && wait_ahead();
    case Sequencer::Next::kFinished:
      if (!finished_) end_to_run();
      finished_ = true;
      return false;
  }
  return false;
}

/// The core waits: as long as nothing outside happens before, what the HBM does next. True when
/// that ends the wait; else the HBM goes on by itself.
bool Core::wait_ahead() {
  const SyncFlags::Wait& wait = flags_.wait();
  while (const std::optional<std::uint64_t> next = next_of_hbm(wait.flag)) {
    cycle_ = std::max(cycle_, *next);
    out_hbm->advance(cycle_);
    if (flags_.at_least(wait.flag, wait.wanted)) return true;
  }
  out_hbm->set_awaited(true);
  return false;
}

/// The next cycle to look at the HBM in, while nothing outside happens before: that of what may
/// raise the flag. What else is done by then is told with its own cycle; all channels are taken
/// there at once, and not once for each request.
std::optional<std::uint64_t> Core::next_of_hbm(std::uint32_t flag) const {
  const std::optional<std::uint64_t> awaited = out_hbm->next_event_of(flag);
  if (awaited && quiet_until(*awaited)) return awaited;
  const std::optional<std::uint64_t> next = out_hbm->next_event();
  if (next && quiet_until(*next)) return next;
  return std::nullopt;
}

std::string Core::start_dma(const isa::DmaDescriptor& descriptor, UnknownAddresses unknown,
                            CodePlace place, const MemberDestinations& destinations,
                            std::uint64_t now) {
  return dma_->start(descriptor, unknown, place, destinations, now);
}

/// With values off every step has the inputs of the first: what it would make of them for the next
/// one is not computed. Where data is still on its way out of the core, all stays as it is.
void Core::begin_next_step(std::size_t steps) {
  catch_up(cycle_);
  Knowledge* knowledge = data_ ? data_->knowledge() : nullptr;
  if (knowledge != nullptr) knowledge->end_step();
  if (begins_alike_ && dma_->idle()) {
    hbm_.begin_step();
    if (knowledge != nullptr) knowledge->begin_step();
  }
  steps_ = static_cast<std::uint32_t>(steps);
  if (steps > 0 && setup_.repetition.looks()) end_step();
}

/// What this core and its half of the HBM are like, for the search for steps that repeat.
void Core::end_step() {
  StepState state(cycle_);
  if (!begins_alike_) state.leave_open();
  sequencer_->describe(state);
  dma_->describe(state);
  hbm_.describe(state);
  out_hbm->describe(state);
  setup_.repetition.end_step(setup_.classes.class_of(number_), steps_, state);
}

/// The account of what this core has for itself begins with its own.
void Core::begin_account(std::uint64_t now) {
  catch_up(now);
  dma_->begin_account(now);
  overlap_.begin_account(now);
  out_hbm->begin_account(now);
  out_ici->begin_account(now);
  out_host->begin_account(now);
}

CoreResult Core::result(std::uint64_t run_end) {
  CoreResult result = sequencer_->result(run_end);
  overlap_.add_to(result.ops, run_end);
  return result;
}

void Core::end_account(std::uint64_t end) {
  catch_up(end);  // DMAs that nobody waits for end all the same.
  dma_account_ = dma_->account(end, sequencer_->cycle());
  out_hbm->end_account(number_, end);
}

void Core::catch_up(std::uint64_t now) {
  if (runs_ahead_) out_hbm->advance(now);
}

std::string Core::add_to_remote_flag(std::uint32_t remote_address, std::uint32_t value,
                                     const MemberDestinations& destinations, std::uint64_t now) {
  const isa::CodeConventions& conventions = setup_.program.conventions;
  const RemoteFlag to = remote_flag(remote_address, conventions);
  if (!to.is_one || to.flag >= setup_.params.core.sync_flags) {
    return "expected a remote sync flag (" + std::string(form_of_remote_flag(conventions)) +
           ") with a flag below " + std::to_string(setup_.params.core.sync_flags) + ", found " +
           std::to_string(remote_address);
  }
  if (!runs(to.chip, to.core)) {
    return "the addition goes to chip " + std::to_string(to.chip) + ", core " +
           std::to_string(to.core) + ", which does not take part in the run";
  }
  IciMessage message;
  message.source_chip = chip_;
  message.source_core = core_;
  message.destination_chip = to.chip;
  message.destination_core = to.core;
  message.flag = to.flag;
  message.value = value;
  message.sent = now;
  message.transfer = setup_.wait_graph.start(number_, 0, Resource::kIci, Resource::kIci);
  message.destinations = destinations;
  send(message, now);
  return {};
}

void Core::message_left(const IciMessage& message, std::uint64_t now) {
  setup_.repetition.network_contact(steps_);
  guarded([&] { dma_->message_left(message, now); });
}
void Core::message_arrived(const IciMessage& message, std::uint64_t now) {
  setup_.repetition.network_contact(steps_);
  guarded([&] { dma_->message_arrived(message, now); });
}
void Core::infeed_arrived(std::uint64_t token, std::vector<std::uint32_t> words,
                          std::uint64_t now) {
  setup_.repetition.host_contact(steps_);
  dma_->infeed_arrived(token, std::move(words), now);
}
void Core::outfeed_sent(std::uint64_t token, std::uint64_t now) {
  setup_.repetition.host_contact(steps_);
  dma_->outfeed_sent(token, now);
}

void Core::submit_hbm(const HbmRequest& request, std::uint64_t now) {
  out_hbm->submit(request, now);
}
void Core::send(const IciMessage& message, std::uint64_t now) {
  setup_.repetition.network_contact(steps_);
  out_ici->send(message, now);
}
void Core::take_infeed(std::uint64_t granules, std::uint64_t token, std::uint64_t) {
  setup_.repetition.host_contact(steps_);
  out_host->take_infeed(number_, granules, token);
}
void Core::send_outfeed(std::uint64_t bytes, std::uint64_t token, std::uint64_t) {
  setup_.repetition.host_contact(steps_);
  out_host->send_outfeed(number_, bytes, token);
}

void Core::raise_flag(std::uint32_t flag, std::uint32_t granules, const FlagRaiser& raiser,
                      std::uint64_t now) {
  if (flags_.add(flag, granules, raiser) && !acts_) wake_at(now);
}

void Core::note_hbm_write(std::uint64_t bytes) { sequencer_->add_hbm_write_bytes(bytes); }

void Core::note_dma(const DmaEvent& event, const MemberDestinations& destinations) {
  const std::uint32_t per_chip = setup_.params.cores_per_chip;
  const CoreClasses::Members& members = setup_.classes.members(setup_.classes.class_of(number_));
  for (std::size_t place = 0; place < members.size(); ++place) {
    DmaEvent of_member = event;
    of_member.source_chip = members[place] / per_chip;
    of_member.source_core = members[place] % per_chip;
    if (lanes_) {
      const std::uint32_t to = destinations ? (*destinations)[place] : members[place];
      of_member.destination_chip = to / per_chip;
      of_member.destination_core = to % per_chip;
    }
    setup_.options.observer->on_dma(of_member);
  }
}

bool Core::runs(std::uint32_t chip, std::uint32_t core) const {
  if (core >= setup_.params.cores_per_chip) return false;
  const std::uint64_t number = std::uint64_t{chip} * setup_.params.cores_per_chip + core;
  return number < setup_.params.cores() && setup_.classes.runs(static_cast<std::uint32_t>(number));
}

}  // namespace tpu
