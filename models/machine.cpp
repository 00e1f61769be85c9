#include "models/machine.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "models/clock_cycles.h"
#include "models/core/followed_kernels.h"
#include "models/core/step_repetition.h"
#include "models/core/warm_up.h"
#include "models/deadlock.h"
#include "models/folded_pod.h"
#include "models/host/loader.h"
#include "models/memory/hbm_timing.h"
#include "models/network/ici_routes.h"
#include "models/network/known_destinations.h"
#include "models/pod.h"
#include "models/slow_parts.h"
#include "models/wait_graph.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

/// A SystemC kernel of our own, current while this object lives: several machines can run one after
/// the other in one process.
class KernelContext {
 public:
  KernelContext() : before_(sc_core::sc_curr_simcontext), mine_(new sc_core::sc_simcontext()) {
    sc_core::sc_curr_simcontext = mine_.get();
    sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
  }
  ~KernelContext() {
    mine_.reset();
    sc_core::sc_curr_simcontext = before_;
  }
  KernelContext(const KernelContext&) = delete;
  KernelContext& operator=(const KernelContext&) = delete;

 private:
  sc_core::sc_simcontext* before_;
  std::unique_ptr<sc_core::sc_simcontext> mine_;
};

constexpr std::size_t kMostNames = 8;  ///< In a note.
/// Up to so many cores a fault is looked up again with every core simulated.
constexpr std::size_t kMostFaultyCores = 64;

/// Passes on what a representative does as what every member of its class does, up to where steps
/// repeat: behind that cycles are other ones than those of the whole run.
class MemberObserver : public Observer {
 public:
  MemberObserver(Observer* observer, const CoreClasses& classes, std::uint32_t cores_per_chip,
                 const StepRepetition& repetition)
      : observer_(observer),
        classes_(classes),
        cores_per_chip_(cores_per_chip),
        repetition_(repetition) {}
  void on_step(std::uint32_t core, std::uint32_t step, std::uint64_t begin,
               std::uint64_t end) override {
    for_members(core, [&](std::uint32_t member) { observer_->on_step(member, step, begin, end); });
  }
  void on_op(std::uint32_t core, std::uint32_t op, std::uint64_t begin, std::uint64_t end,
             const Counters& counters) override {
    for_members(core,
                [&](std::uint32_t member) { observer_->on_op(member, op, begin, end, counters); });
  }
  void on_wait(std::uint32_t core, CoreState reason, std::uint64_t begin,
               std::uint64_t end) override {
    for_members(core,
                [&](std::uint32_t member) { observer_->on_wait(member, reason, begin, end); });
  }
  void on_dma(const DmaEvent& event) override {
    if (!repetition_.found()) observer_->on_dma(event);
  }
  void on_bundles(const IssuedBundles& bundles) override {
    if (!repetition_.found()) observer_->on_bundles(bundles);
  }
  void on_account(const AccountBegin& begin) override {
    for_members(begin.number, [&](std::uint32_t member) {
      observer_->on_account(
          {member, member / cores_per_chip_, member % cores_per_chip_, begin.cycle});
    });
  }

 private:
  template <class Visit>
  void for_members(std::uint32_t core, const Visit& visit) {
    if (repetition_.found()) return;
    for (const std::uint32_t member : classes_.members(classes_.class_of(core))) visit(member);
  }

  Observer* observer_;
  const CoreClasses& classes_;
  std::uint32_t cores_per_chip_;
  const StepRepetition& repetition_;
};

/// When channels moved data is known up to a cycle; what they moved behind it repeats that.
void cut_history(ExactAccounts& parts, std::uint64_t cycle) {
  for (ExactAccount& part : parts) {
    if (part.moved.empty()) continue;
    const auto behind = std::find_if(part.moved.begin(), part.moved.end(),
                                     [&](const auto& moved) { return moved.begin_cycle >= cycle; });
    part.moved.erase(behind, part.moved.end());
    part.moved.push_back({cycle, 0});
  }
}

/// Of each core the place of the first one of its class.
std::vector<std::size_t> first_alike(const std::vector<std::uint32_t>& numbers,
                                     const CoreClasses& classes) {
  std::map<std::uint32_t, std::size_t> first;
  std::vector<std::size_t> alike;
  alike.reserve(numbers.size());
  for (const std::uint32_t number : numbers) {
    alike.push_back(first.try_emplace(classes.class_of(number), alike.size()).first->second);
  }
  return alike;
}

/// Which steps were not simulated, and what a file of events therefore lacks.
std::string repetition_note(const StepRepetition::Found& found, const RunOptions& options) {
  const std::uint64_t end = std::uint64_t{found.first} + found.period;
  std::string note = "steps " + std::to_string(end + 1) + " to " + std::to_string(options.steps) +
                     " repeat steps " + std::to_string(found.first + 1) + " to " +
                     std::to_string(end) + " cycle for cycle: they are counted, not simulated";
  if (options.observer != nullptr) note += ", and their events are not recorded";
  return note;
}

std::string listed(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    text += (i > 0 ? ", " : "") + names[i];
  }
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

std::uint32_t longest_block(const RunOptions& options) { return options.interpret ? 1 : 1U << 16; }

const Core& last_to_end(const std::vector<Core*>& cores) {
  const auto last = std::max_element(cores.begin(), cores.end(), [](const Core* a, const Core* b) {
    return a->end_cycle() < b->end_cycle();
  });
  return **last;
}

}  // namespace

bool is_short_for_refresh(const MachineParams& params, std::uint64_t cycles) {
  constexpr std::uint64_t kFewIntervals = 4;
  return cycles < kFewIntervals * cycles_of_ns(params.hbm.refresh_interval_ns, params.clock_mhz);
}

std::string refresh_note(const MachineParams& params) {
  const HbmTiming timing(params.hbm, params.clock_mhz);
  return "± a refresh of the HBM, " + std::to_string(timing.to_core(timing.refresh)) +
         " cycles: the run is a few refresh intervals long, and nothing says when the first one "
         "comes (hbm.first_refresh_ns)";
}

std::size_t repeated_step(const MachineParams& params, const std::vector<StepSpan>& before,
                          std::uint64_t cycles) {
  constexpr std::size_t kLongestPeriod = 4;
  const HbmTiming timing(params.hbm, params.clock_mhz);
  const std::uint64_t most = std::max<std::uint64_t>(timing.to_core(timing.refresh), cycles / 1000);
  for (std::size_t back = 1; back <= std::min(before.size(), kLongestPeriod); ++back) {
    const StepSpan& step = before[before.size() - back];
    const std::uint64_t other = step.end - step.begin;
    if ((other > cycles ? other - cycles : cycles - other) <= most) return back;
  }
  return 0;
}

class Machine::Impl {
 public:
  Impl(const MachineParams& params, const isa::Program& program)
      : params_(params), program_(program), hbm_(params.cores()), loads_(params.cores()) {
    if (params.chips() == 0 || params.cores_per_chip == 0 || params.clock_mhz == 0) {
      throw ConfigurationError("expected a machine with chips, cores and a clock; found " +
                               std::to_string(params.chips()) + " chips of " +
                               std::to_string(params.cores_per_chip) + " cores at " +
                               std::to_string(params.clock_mhz) + " MHz");
    }
    if (params.core.mxu.count > 4) {
      throw ConfigurationError("core.mxu.count: expected at most 4, found " +
                               std::to_string(params.core.mxu.count));
    }
    kernels_ = decode(program, params, FollowedKernels(program));
  }

  void load(std::uint32_t core, const CoreLoad& load) {
    check_core(core);
    loads_[core] = load;
  }

  RunResult run(const RunOptions& options);
  CoreClasses first_classes(const RunOptions& options,
                            const std::vector<std::uint32_t>& numbers) const;
  /// What a run comes to, and the steps that repeat in it.
  struct Attempt {
    RunResult result;
    ExactAccounts parts;
    std::uint64_t unknown_dmas = 0;
    std::optional<StepRepetition::Found> repetition;
  };
  Attempt attempt(const RunOptions& options, const std::vector<std::uint32_t>& numbers,
                  const FollowedKernels& followed, const CoreClasses& classes,
                  bool finds_repetition);
  RunResult with_all_steps(Attempt run, const RunOptions& options,
                           const std::vector<std::uint32_t>& numbers,
                           const FollowedKernels& followed, const CoreClasses& classes);
  bool may_repeat(const RunOptions& options, const FollowedKernels& followed) const;
  RunResult result(const std::vector<std::uint32_t>& numbers, const CoreClasses& classes,
                   const std::vector<Core*>& cores) const;
  bool follow_more(const RunOptions& options, const UnknownControl& unknown,
                   FollowedKernels& followed) const;
  void begin_again(const RunOptions& options, const std::vector<std::uint32_t>& numbers,
                   const FollowedKernels& followed);

  std::vector<std::uint32_t> read_hbm(std::uint32_t core, std::uint64_t granule,
                                      std::uint64_t words) const;

 private:
  void check_core(std::uint32_t core) const {
    if (core >= params_.cores()) {
      throw UsageError("expected a core below " + std::to_string(params_.cores()) + " (" +
                       params_.name + "), found core " + std::to_string(core));
    }
  }
  void check_length(const RunOptions& options, std::size_t cores) const;
  void load_hbm(std::uint32_t core);
  void assume_inputs(std::uint32_t of_class, const CoreClasses& classes, const RunOptions& options);
  const std::vector<std::uint32_t>& input(std::uint32_t of_class, const CoreClasses& classes,
                                          std::uint32_t buffer, const RunOptions& options);
  std::vector<std::string> notes(const std::vector<Core*>& cores, const FollowedKernels& followed,
                                 const RunOptions& options) const;
  void load_block(std::uint32_t core, std::uint64_t granule,
                  const std::vector<std::uint32_t>& words, const std::string& what);

  const MachineParams params_;
  KnownDestinations known_destinations_{params_.cores_per_chip};
  const isa::Program& program_;
  std::vector<DecodedKernel> kernels_;
  std::vector<MemoryImage> hbm_;
  std::vector<CoreLoad> loads_;
  /// Of parameters that control depends on, by core and buffer.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> inputs_;
  std::uint64_t abandoned_cycles_ = 0;  ///< Of attempts that ended where something was unknown.
};

void Machine::Impl::load_block(std::uint32_t core, std::uint64_t granule,
                               const std::vector<std::uint32_t>& words, const std::string& what) {
  const std::uint64_t half = (std::uint64_t{params_.hbm.gib} << 20) / params_.cores_per_chip;
  const std::uint64_t end = granule + (words.size() + 255) / 256;
  if (end > half) {
    throw WorkloadError(what + " ends at HBM granule " + std::to_string(end) +
                        ", but a core's half has " + std::to_string(half));
  }
  hbm_[core].load(granule, words);
}

void Machine::Impl::load_hbm(std::uint32_t core) {
  for (const isa::Buffer& buffer : program_.buffers) {
    if (buffer.zeroed) {
      hbm_[core].zero(buffer.granule,
                      (buffer.bytes + isa::kHbmGranuleBytes - 1) / isa::kHbmGranuleBytes);
    }
    if (!buffer.data.empty()) {
      load_block(core, buffer.granule, buffer.data, "buffer \"" + buffer.name + "\"");
    }
  }
  for (const MemoryBlock& block : loads_[core].hbm) {
    load_block(core, block.address, block.words, "a block loaded into HBM");
  }
}

/// The words of an input where control depends on it, in all members of a class: zeros when nobody
/// gave any. Where members have other ones, the class splits.
const std::vector<std::uint32_t>& Machine::Impl::input(std::uint32_t of_class,
                                                       const CoreClasses& classes,
                                                       std::uint32_t buffer,
                                                       const RunOptions& options) {
  const CoreClasses::Members& members = classes.members(of_class);
  const auto [found, first] = inputs_.try_emplace({members.front(), buffer});
  if (!first || !options.inputs) return found->second;
  std::vector<std::uint64_t> keys;
  for (std::size_t member = members.size(); member-- > 0;) {
    found->second = options.inputs(members[member], program_.buffers[buffer]);
    const auto* bytes = reinterpret_cast<const char*>(found->second.data());
    keys.push_back(
        std::hash<std::string_view>{}({bytes, found->second.size() * sizeof(std::uint32_t)}));
  }
  std::reverse(keys.begin(), keys.end());
  require_alike("an input that control depends on", of_class, keys);
  return found->second;
}

void Machine::Impl::assume_inputs(std::uint32_t of_class, const CoreClasses& classes,
                                  const RunOptions& options) {
  const std::uint32_t core = classes.members(of_class).front();
  hbm_[core].set_contents([
    this, of_class, &classes, &options
  ](std::uint32_t buffer) -> const auto& { return input(of_class, classes, buffer, options); });
  for (std::uint32_t b = 0; b < program_.buffers.size(); ++b) {
    const isa::Buffer& buffer = program_.buffers[b];
    if (buffer.role != isa::BufferRole::kParameter) continue;
    hbm_[core].assume(buffer.granule,
                      (buffer.bytes + isa::kHbmGranuleBytes - 1) / isa::kHbmGranuleBytes, b);
  }
}

/// The host alone may take longer than there are cycles to count.
void Machine::Impl::check_length(const RunOptions& options, std::size_t cores) const {
  double rate = 0;
  if (program_.infeed_bytes == 0) return;
  const std::uint64_t examples = std::max<std::uint64_t>(program_.examples_per_core, 1);
  const std::size_t of_a_host = std::size_t{params_.host.chips} * params_.cores_per_chip;
  const std::uint64_t on_a_host = examples * std::min(cores, of_a_host);
  const auto bounds = [&](double other) { rate = rate > 0 ? std::min(rate, other) : other; };
  for (const HostKind& kind : kinds_of_host(params_)) {
    if (kind.params.host.examples_per_s > 0) bounds(kind.params.host.examples_per_s);
    for (const LoaderStage& stage :
         loader_stages(kind.params, program_.infeed_bytes / examples, on_a_host)) {
      bounds(stage.examples_per_s);
    }
  }
  if (!(rate > 0)) return;
  const double batches = (static_cast<double>(options.steps) +
                          std::max(options.warmup_steps, options.most_warmup_steps)) *
                         static_cast<double>(std::min(cores, std::max<std::size_t>(of_a_host, 1)));
  const double seconds = batches * static_cast<double>(program_.examples_per_core) / rate;
  const double longest = static_cast<double>(kLongestRun) / params_.clock_mhz * 1e-6;
  if (seconds < longest) return;
  constexpr double kSecondsOfAYear = 365.0 * 24 * 3600;
  std::ostringstream text;
  text.precision(3);
  text << "expected a run of less than " << longest / kSecondsOfAYear
       << " years on the chip (2^60 cycles), found one of " << seconds / kSecondsOfAYear
       << " years: " << options.steps << " steps of a host that prepares " << rate << " examples/s"
       << "; run fewer steps or a faster host";
  throw UsageError(text.str());
}

/// The classes of cores that a run begins with. With values every core computes on its own data;
/// what was loaded into a core is its own, too. Chips of different clocks never are alike.
CoreClasses Machine::Impl::first_classes(const RunOptions& options,
                                         const std::vector<std::uint32_t>& numbers) const {
  const bool loaded = std::any_of(loads_.begin(), loads_.end(), [](const CoreLoad& load) {
    return !load.hbm.empty() || !load.smem.empty() || !load.infeed.empty();
  });
  const bool alike = !options.values && !options.pod_full && !options.ici_packet && !loaded;
  CoreClasses classes(numbers, params_.cores(), alike);
  const ChipClocks slow = slow_chips(params_);
  if (!alike || slow.empty()) return classes;
  std::vector<std::uint64_t> clocks;
  for (const std::uint32_t core : classes.members(0)) {
    const auto found = slow.find(core / params_.cores_per_chip);
    clocks.push_back(found != slow.end() ? found->second : params_.clock_mhz);
  }
  const bool differ = std::any_of(clocks.begin(), clocks.end(),
                                  [&](std::uint64_t clock) { return clock != clocks.front(); });
  if (differ) classes.split(0, clocks);
  return classes;
}

RunResult Machine::Impl::run(const RunOptions& options) {
  std::vector<std::uint32_t> numbers = options.cores;
  if (numbers.empty()) {
    numbers.reserve(params_.cores());
    for (std::uint32_t core = 0; core < params_.cores(); ++core) numbers.push_back(core);
  }
  for (std::uint32_t core : numbers) check_core(core);
  check_length(options, numbers.size());
  FollowedKernels followed(program_);
  known_destinations_ = KnownDestinations(params_.cores_per_chip);
  CoreClasses classes = first_classes(options, numbers);
  const CoreClasses unfolded(numbers, params_.cores(), false);
  std::size_t spent = 0;  ///< Cores that were simulated in vain, run by run.
  while (true) {
    followed.begin_run(options.follow);
    // What vector units do with data is followed for each core by itself.
    const CoreClasses& these = followed.any_kernel() ? unfolded : classes;
    try {
      return with_all_steps(
          attempt(options, numbers, followed, these, may_repeat(options, followed)), options,
          numbers, followed, these);
    } catch (const MembersDiffer& differ) {
      spent += classes.size();
      classes.split(differ.of_class(), differ.keys());
      known_destinations_.split(classes);
      // Cores that all differ in the end are sooner done by themselves.
      if (2 * (spent + classes.size()) > numbers.size()) classes = unfolded;
    } catch (const UnknownControl& unknown) {
      if (!follow_more(options, unknown, followed)) throw;
    } catch (const FollowedInVain&) {
      followed.refuse_all();
    } catch (const FollowLimit& limit) {
      followed.refuse(limit.kernel());
      if (limit.is_of_memory()) followed.refuse_copies(limit.kernel());
    } catch (const ProgramFault&) {
      // The text names cores: each for itself, where that takes no minutes.
      if (!these.folded() || numbers.size() > kMostFaultyCores) throw;
      classes = unfolded;
    }
    begin_again(options, numbers, followed);
  }
}

/// Whether a run that begins again gets past an unknown value.
bool Machine::Impl::follow_more(const RunOptions& options, const UnknownControl& unknown,
                                FollowedKernels& followed) const {
  if (options.values) return false;
  if (abandoned_cycles_ > options.follow.cycles) followed.refuse_others();
  if (followed.add(unknown.origin())) return true;
  if (!followed.refused(unknown.origin())) return false;
  if (unknown.followed_kernel()) followed.refuse(*unknown.followed_kernel());
  return true;
}

void Machine::Impl::begin_again(const RunOptions& options,
                                const std::vector<std::uint32_t>& numbers,
                                const FollowedKernels& followed) {
  if (options.observer != nullptr) options.observer->on_restart();
  kernels_ = decode(program_, params_, followed);
  for (std::uint32_t core : numbers) hbm_[core] = MemoryImage();
}

/// No vector unit is followed, and no slow twin takes part, of which the state is not described.
bool Machine::Impl::may_repeat(const RunOptions& options, const FollowedKernels& followed) const {
  return !options.pod_full && !options.values && !options.interpret && !options.hbm_command &&
         !options.ici_packet && !followed.any_kernel();
}

/// The result of a run in which periods of steps were taken out, with them; the notes on it.
RunResult Machine::Impl::with_all_steps(Attempt run, const RunOptions& options,
                                        const std::vector<std::uint32_t>& numbers,
                                        const FollowedKernels& followed,
                                        const CoreClasses& classes) {
  if (run.repetition) {
    const StepRepetition::Found& found = *run.repetition;
    RunOptions of_shorter = options;
    of_shorter.observer = nullptr;
    of_shorter.progress = nullptr;
    of_shorter.steps =
        static_cast<std::uint32_t>(run.result.cores.front().steps.size()) - found.period;
    for (const std::uint32_t core : numbers) hbm_[core] = MemoryImage();
    const Attempt shorter = attempt(of_shorter, numbers, followed, classes, false);
    run.unknown_dmas += found.times * (run.unknown_dmas - shorter.unknown_dmas);
    run.result =
        with_periods(std::move(run.result), shorter.result, found, first_alike(numbers, classes));
    run.parts = with_periods(std::move(run.parts), shorter.parts, found.times);
    cut_history(run.parts, run.result.cores.front().steps[found.first + found.period - 1].end);
    run.result.notes.push_back(repetition_note(found, options));
  }
  run.result.parts.assign(run.parts.begin(), run.parts.end());
  if (run.unknown_dmas > 0) {
    run.result.notes.insert(
        run.result.notes.begin(),
        std::to_string(run.unknown_dmas) +
            " DMAs go to or from addresses that are unknown with values off: others in the same "
            "buffers were taken, and their bounds were not checked");
  }
  return std::move(run.result);
}

Machine::Impl::Attempt Machine::Impl::attempt(const RunOptions& options,
                                              const std::vector<std::uint32_t>& numbers,
                                              const FollowedKernels& followed,
                                              const CoreClasses& classes, bool finds_repetition) {
  for (std::size_t c = 0; c < classes.size(); ++c) {
    load_hbm(classes.members(c).front());
    if (followed.any()) assume_inputs(static_cast<std::uint32_t>(c), classes, options);
  }
  const KernelContext kernel;
  RunClock clock;
  BlockTable blocks(program_, kernels_, params_.core, longest_block(options),
                    options.most_remembered);
  WaitCauses wait_causes(params_.cores());
  WarmUp warm_up(options, params_);
  StepRepetition repetition(options.steps, classes.size(), finds_repetition);
  WaitGraph wait_graph(params_, classes.folded() ? classes.size() : numbers.size(),
                       program_.ops.size(), warm_up.at_least());
  const IciRoutes routes(params_);
  MemberObserver observer(options.observer, classes, params_.cores_per_chip, repetition);
  RunOptions of_cores = options;
  if (options.observer != nullptr) of_cores.observer = &observer;
  const CoreSetup setup{params_,    program_, of_cores,   blocks,  followed, wait_causes,
                        wait_graph, warm_up,  repetition, classes, routes};
  std::unique_ptr<Pod> pod;
  std::unique_ptr<FoldedPod> folded;
  if (classes.folded()) {
    folded = std::make_unique<FoldedPod>("pod", clock, setup, hbm_, loads_, known_destinations_);
  } else {
    pod = std::make_unique<Pod>("pod", clock, setup, hbm_, loads_);
  }
  const auto set_parts = [&](const auto& of) {
    repetition.set_parts([&](StepState& state) { of.describe_hosts(state); },
                         [&](StepState& state) { of.describe_network(state); });
  };
  folded ? set_parts(*folded) : set_parts(*pod);
  const std::vector<Core*>& cores = folded ? folded->cores() : pod->cores();
  sc_core::sc_start();
  if (clock.running == 0 && !clock.failure) {  // The kernel has paused.
    for (Core* core : cores) core->end_account(last_to_end(cores).end_cycle());
    if (sc_core::sc_pending_activity()) sc_core::sc_start();  // What nobody waits for.
  }
  if (clock.failure) {
    std::uint64_t reached = 0;
    for (Core* core : cores) reached = std::max(reached, core->sequencer().cycle());
    abandoned_cycles_ += reached;
    std::rethrow_exception(clock.failure);
  }
  for (Core* core : cores) {
    if (!core->finished()) throw ProgramFault(describe_deadlock(params_, cores));
  }
  Attempt done;
  done.repetition = repetition.found();
  RunResult& run = done.result;
  run = result(numbers, classes, cores);
  run.critical_path = wait_graph.finish(last_to_end(cores).number());
  done.parts = folded ? folded->accounts(run.cycles) : pod->accounts(run.cycles);
  run.events = clock.events;
  run.notes = notes(cores, followed, options);
  for (Core* core : cores) {
    done.unknown_dmas +=
        core->sequencer().unknown_dmas() * classes.members(classes.class_of(core->number())).size();
  }
  if (!blocks.unconfirmed().empty()) {
    run.notes.push_back("executed instructions whose meaning no experiment has confirmed: " +
                        listed(blocks.unconfirmed(), isa::kOpcodeCount));
  }
  return done;
}

/// What the cores did, each member of a class as its representative.
RunResult Machine::Impl::result(const std::vector<std::uint32_t>& numbers,
                                const CoreClasses& classes, const std::vector<Core*>& cores) const {
  RunResult result;
  result.simulated_cores = static_cast<std::uint32_t>(cores.size());
  for (Core* core : cores) result.cycles = std::max(result.cycles, core->end_cycle());
  std::map<std::uint32_t, CoreResult> of_classes;
  for (Core* core : cores) {
    of_classes.emplace(classes.class_of(core->number()), core->result(result.cycles));
    if (core->number() == classes.representative_of(numbers.at(0))) {
      result.paths = core->sequencer().paths();
    }
  }
  for (const std::uint32_t number : numbers) {
    result.cores.push_back(of_classes.at(classes.class_of(number)));
    result.cores.back().chip = number / params_.cores_per_chip;
    result.cores.back().core = number % params_.cores_per_chip;
  }
  return result;
}

/// What of the data a run with values off knew, and what not.
std::vector<std::string> Machine::Impl::notes(const std::vector<Core*>& cores,
                                              const FollowedKernels& followed,
                                              const RunOptions& options) const {
  std::vector<std::string> notes;
  if (!followed.names().empty()) {
    notes.push_back(
        "control depends on data: with values off, that of these kernels was followed: " +
        listed(followed.names(), kMostNames));
  }
  const bool went_on = std::any_of(cores.begin(), cores.end(), [](Core* core) {
    const std::vector<PathTaken>& paths = core->sequencer().paths();
    return core->sequencer().assumed() ||
           std::any_of(paths.begin(), paths.end(), [](auto& path) { return path.assumed; });
  });
  if (went_on) {
    notes.push_back(
        "control depends on more data than is followed with values off, and goes on without: a "
        "loop makes one trip, a conditional runs its first branch; state them with --trips and "
        "--branch, or run with --values on");
  }
  const bool has_padding = std::any_of(
      cores.begin(), cores.end(), [](Core* core) { return core->scalar_unit().has_padding(); });
  if (has_padding) {
    notes.push_back(
        "control may depend on rows of tiles that nobody knows with values off: they stand behind "
        "known ones and are taken for padding");
  }
  std::set<std::uint32_t> assumed;
  for (Core* core : cores) {
    const std::set<std::uint32_t>& buffers = core->scalar_unit().assumed_buffers();
    assumed.insert(buffers.begin(), buffers.end());
  }
  std::vector<std::string> names;
  names.reserve(assumed.size());
  for (const std::uint32_t buffer : assumed) names.push_back(program_.buffers[buffer].name);
  if (!names.empty()) {
    const std::string from = options.inputs ? options.inputs_from : "zeros, for nobody gave them";
    notes.push_back("control may depend on inputs: " + listed(names, kMostNames) + " (" + from +
                    ")");
  }
  return notes;
}

std::vector<std::uint32_t> Machine::Impl::read_hbm(std::uint32_t core, std::uint64_t granule,
                                                   std::uint64_t words) const {
  check_core(core);
  const std::uint64_t granules = (words + 255) / 256;
  std::vector<std::uint32_t> result(granules * 256);
  hbm_[core].read(granule, result.data(), granules);
  result.resize(words);
  return result;
}

Machine::Machine(const MachineParams& params, const isa::Program& program)
    : impl_(std::make_unique<Impl>(params, program)) {}
Machine::~Machine() = default;

void Machine::load(std::uint32_t core, const CoreLoad& load) { impl_->load(core, load); }
RunResult Machine::run(const RunOptions& options) { return impl_->run(options); }
std::vector<std::uint32_t> Machine::read_hbm(std::uint32_t core, std::uint64_t granule,
                                             std::uint64_t words) const {
  return impl_->read_hbm(core, granule, words);
}

}  // namespace tpu
