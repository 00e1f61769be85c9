#include "models/critical_path.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>

#include "isa/cpu_clones.h"
#include "models/wait_graph.h"

namespace tpu {
namespace {

using Event = WaitGraph::Event;
using Transfer = WaitGraph::Transfer;
constexpr std::uint32_t kNoEvent = ~std::uint32_t{0};

/// Walks back from the last event of a core.
class PathWalk {
 public:
  PathWalk(const WaitGraph& graph, CriticalPath& result) : graph_(graph), result_(result) {}

  void from(std::uint32_t core) {
    const std::vector<Event>& events = graph_.events();
    std::uint32_t event = event_before(static_cast<std::uint32_t>(events.size()), core);
    if (event == kNoEvent) return;
    now_ = events[event].cycle;
    while (event != kNoEvent && now_ > graph_.begin_cycle()) event = pass(event);
    charge(Resource::kLatency, WaitGraph::kNone, now_ - std::min(now_, graph_.begin_cycle()));
  }

 private:
  /// The last event of a core before one. The path goes back, so each event is looked at once.
  std::uint32_t event_before(std::uint32_t number, std::uint32_t core) const {
    const std::vector<Event>& events = graph_.events();
    while (number-- > 0) {
      const Event& event = events[number];
      if (event.core == core && event.kind != Event::Kind::kDone) return number;
    }
    return kNoEvent;
  }

  /// The event behind which the path goes on.
  std::uint32_t pass(std::uint32_t number) {
    const Event& event = graph_.events()[number];
    const bool waits = event.kind == Event::Kind::kWait;
    const Transfer* const transfer = waits ? graph_.transfer(event.transfer) : nullptr;
    if (transfer != nullptr) return pass(*transfer);
    const std::uint32_t before = event_before(number, event.core);
    if (waits) {
      const std::uint64_t since =
          before == kNoEvent ? graph_.begin_cycle() : graph_.events()[before].cycle;
      charge(Resource::kLatency, event.op, now_ - std::min(since, now_));
    }
    for (std::size_t r = 0; r < kCoreResources; ++r) {
      charge(static_cast<Resource>(r), event.op, event.ran[r]);
    }
    return before;
  }

  /// The same for a transfer that is done now: the event that started it.
  std::uint32_t pass(const Transfer& last) {
    const Transfer* transfer = &last;
    const std::uint32_t op = op_of(*transfer);
    while (graph_.queued(*transfer)) {
      const Transfer* before = graph_.transfer(transfer->behind);
      charge(transfer->then, op, now_ - std::min(before->done, now_));
      transfer = before;
    }
    charge(transfer->then, op, now_ - std::min(transfer->split, now_));
    charge(transfer->first, op, now_ - std::min(transfer->issue, now_));
    return transfer->start < graph_.first_event()
               ? kNoEvent
               : static_cast<std::uint32_t>(transfer->start - graph_.first_event());
  }

  std::uint32_t op_of(const Transfer& transfer) const {
    if (transfer.start < graph_.first_event()) return WaitGraph::kNone;
    return graph_.events()[static_cast<std::size_t>(transfer.start - graph_.first_event())].op;
  }

  void charge(Resource resource, std::uint32_t op, std::uint64_t cycles) {
    const std::uint64_t charged = std::min(cycles, now_ - graph_.begin_cycle());
    const auto r = static_cast<std::size_t>(resource);
    result_.path[r] += charged;
    if (op < result_.ops.size()) result_.ops[op].path[r] += charged;
    now_ -= charged;
    result_.cycles += charged;
  }

  const WaitGraph& graph_;
  CriticalPath& result_;
  std::uint64_t now_ = 0;
};

/// What each resource takes of a time that is known for each of the first `sets` sets of free ones:
/// the mean of what freeing it gains, over all orders of freeing those that occur in the sets.
template <class Cycles>
std::array<double, kResources> shapley(const Cycles& without, std::size_t sets) {
  std::array<double, kResources> shares{};
  const auto resources = static_cast<std::size_t>(__builtin_ctzll(sets));
  std::array<double, kResources> weights{};  // By how many are free before: k! (n-1-k)! / n!.
  weights[0] = 1.0 / static_cast<double>(resources);
  for (std::size_t k = 1; k < resources; ++k) {
    weights[k] = weights[k - 1] * static_cast<double>(k) / static_cast<double>(resources - k);
  }
  for (std::size_t set = 0; set < sets; ++set) {
    const auto free = static_cast<std::size_t>(__builtin_popcountll(set));
    for (std::size_t r = 0; r < resources; ++r) {
      const std::size_t with = set | std::size_t{1} << r;
      if (with == set) continue;
      // Whole cycles: what changes nothing has no share at all.
      const double gain = static_cast<double>(without[set]) - static_cast<double>(without[with]);
      shares[r] += weights[free] * gain;
    }
  }
  return shares;
}

/// The run again, once for each set of free resources that the run has: all of them side by side,
/// event by event, and behind them the one with MXUs of twice the rate. kSets: of the first
/// resources, those that the run has.
template <std::size_t kSets>
class FreeRuns {
 public:
  FreeRuns(const WaitGraph& graph, std::vector<std::uint32_t> last_use, CriticalPath& result)
      : graph_(graph), result_(result), last_use_(std::move(last_use)) {
    slots_.assign(graph.transfers(), kNoSlot);
  }

  /// Up to where `last` is, or the last of all cores.
  void run(std::uint32_t last) {
    const std::vector<Event>& events = graph_.events();
    for (std::uint32_t e = 0; e < events.size(); ++e) pass(events[e], e);
    Clocks end{};
    for (const OfCore& core : cores_) {
      end_op(core);
      if (last != WaitGraph::kNone && &core != &cores_[last]) continue;
      for (std::size_t s = 0; s < kRuns; ++s) end[s] = std::max(end[s], core.clocks[s]);
    }
    for (std::size_t s = 0; s < CriticalPath::kSets; ++s) {
      result_.without[s] += since_begin(end[s & (kSets - 1)]);
    }
    result_.twice_the_mxus += since_begin(end[kSets]);
  }

 private:
  static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
  static constexpr std::size_t kRuns = kSets + 1;   ///< Sets, and MXUs of twice the rate.
  using Clocks = std::array<std::uint64_t, kRuns>;  ///< By run.
  struct LastDone {
    std::uint32_t transfer = WaitGraph::kNone;
    Clocks clocks{};
  };
  struct OfCore {
    bool known = false;
    std::uint32_t op = WaitGraph::kNone;
    Clocks clocks{};
    Clocks op_begin{};
    std::array<LastDone, kResources> last;  ///< By Transfer::then.
    LastDone last_batch;                    ///< Out of the host; its end there.
  };

  std::uint64_t since_begin(std::uint64_t cycle) const {
    return cycle - std::min(cycle, graph_.begin_cycle());
  }
  /// Visits the runs in which a resource takes time; of the HBM, which is asked for most, in loops
  /// that the compiler knows.
  template <class Visit>
  void for_runs_with(Resource resource, const Visit& visit) const {
    constexpr std::size_t kOfHbm = CriticalPath::set_of(Resource::kHbm);
    if (resource == Resource::kHbm) return for_runs_without(kOfHbm, visit);
    for_runs_without(CriticalPath::set_of(resource), visit);
  }
  template <class Visit>
  static void for_runs_without(std::size_t bit, const Visit& visit) {
    for (std::size_t first = 0; first < kSets; first += 2 * bit) {
      for (std::size_t s = first; s < first + bit; ++s) visit(s);
    }
    visit(kSets);
  }

  /// The core of its first event in the record. Of what it ran when the record began, the part
  /// behind that counts, by the order that the path takes.
  OfCore& begin_core(Event& event) {
    OfCore& core = core_at(event.core);
    core.known = true;
    const std::uint64_t begin = graph_.begin_cycle();
    std::uint64_t left = event.cycle - std::min(event.cycle, begin), ran = 0;
    for (std::uint32_t& each : event.ran) {
      each = static_cast<std::uint32_t>(std::min<std::uint64_t>(each, left));
      left -= each;
      ran += each;
    }
    const bool waited = event.kind == Event::Kind::kWait || event.cycle < begin;
    core.clocks.fill(waited ? begin : event.cycle - ran);
    return core;
  }
  OfCore& core_at(std::uint32_t number) {
    if (number >= cores_.size()) cores_.resize(number + 1);
    return cores_[number];
  }

  Clocks& slot(std::uint32_t transfer) {
    std::uint32_t& number = slots_[transfer - graph_.first_transfer()];
    if (number == kNoSlot) {  // It was under way at the begin.
      number = free_slot();
      pool_[number].fill(graph_.begin_cycle());
    }
    return pool_[number];
  }
  void start(std::uint32_t transfer, const Clocks& clocks) {
    std::uint32_t& number = slots_[transfer - graph_.first_transfer()];
    if (number == kNoSlot) number = free_slot();
    pool_[number] = clocks;
  }
  std::uint32_t free_slot() {
    if (free_.empty()) {
      pool_.emplace_back();
      return static_cast<std::uint32_t>(pool_.size() - 1);
    }
    const std::uint32_t number = free_.back();
    free_.pop_back();
    return number;
  }

  void pass(const Event& event, std::uint32_t number) {
    const Transfer* transfer = graph_.transfer(event.transfer);
    if (event.kind == Event::Kind::kDone) {
      if (transfer != nullptr) finish(*transfer, event.transfer);
    } else if (OfCore& core = core_at(event.core); core.known) {
      pass_on_core(event, transfer, core);
    } else {
      Event first = event;
      OfCore& mine = begin_core(first);
      pass_on_core(first, transfer, mine);
    }
    if (transfer == nullptr) return;
    const std::size_t of = event.transfer - graph_.first_transfer();
    if (last_use_[of] == number && slots_[of] != kNoSlot) {
      free_.push_back(slots_[of]);
      slots_[of] = kNoSlot;
    }
  }

  void pass_on_core(const Event& event, const Transfer* transfer, OfCore& mine) {
    if (event.op != mine.op) {
      end_op(mine);
      mine.op = event.op;
      mine.op_begin = mine.clocks;
    }
    const std::uint64_t before = mine.clocks[0];
    run_core(event, mine.clocks);
    const bool waits = event.kind == Event::Kind::kWait || event.kind == Event::Kind::kMet;
    if (event.kind == Event::Kind::kStart) start(event.transfer, mine.clocks);
    if (waits && transfer != nullptr) {
      const Clocks& done = slot(event.transfer);
      for (std::size_t s = 0; s < kRuns; ++s) mine.clocks[s] = std::max(mine.clocks[s], done[s]);
    } else if (event.kind == Event::Kind::kWait) {
      const std::uint64_t waited = event.cycle - std::min(event.cycle, before);
      for_runs_with(Resource::kLatency, [&](std::size_t s) { mine.clocks[s] += waited; });
    }
  }

  void end_op(const OfCore& core) {
    if (core.op >= result_.ops.size()) return;
    CriticalPath::Op& op = result_.ops[core.op];
    std::array<std::int64_t, CriticalPath::kSets> took{};
    for (std::size_t s = 0; s < kSets; ++s) {
      took[s] = static_cast<std::int64_t>(core.clocks[s] - core.op_begin[s]);
    }
    const std::array<double, kResources> shares = shapley(took, kSets);
    for (std::size_t r = 0; r < kResources; ++r) {
      op.cycles[r] += shares[r];
      op.gain[r] += took[0] - took[CriticalPath::set_of(static_cast<Resource>(r)) & (kSets - 1)];
    }
  }

  void run_core(const Event& event, Clocks& clocks) const {
    std::uint32_t any = 0;
    for (const std::uint32_t ran : event.ran) any |= ran;
    if (any == 0) return;
    std::array<std::uint64_t, std::size_t{1} << kCoreResources> time{};
    for (std::size_t set = 0; set < time.size(); ++set) {
      for (std::size_t r = 0; r < kCoreResources; ++r) {
        if ((set >> r & 1) == 0) time[set] += event.ran[r];
      }
    }
    for (std::size_t first = 0; first < kSets; first += time.size()) {
      for (std::size_t t = 0; t < time.size(); ++t) clocks[first + t] += time[t];
    }
    clocks[kSets] += time[0] - event.ran[static_cast<std::size_t>(Resource::kMxu)] / 2;
  }

  /// A transfer is done in each of the runs: its slot goes from its issue to its end.
  void finish(const Transfer& transfer, std::uint32_t number) {
    Clocks& clocks = slot(number);
    OfCore& owner = core_at(transfer.core);
    pass_first_part(transfer, number, owner, clocks);
    LastDone& last = owner.last[static_cast<std::size_t>(transfer.then)];
    const Transfer* before = graph_.transfer(last.transfer);
    const std::uint64_t begin = std::max(transfer.split, graph_.begin_cycle());
    const std::uint64_t alone = transfer.done - std::min(transfer.done, begin);
    const bool queued = before != nullptr && graph_.queued(transfer);
    const std::uint64_t behind = before == nullptr ? 0 : transfer.done - before->done;
    const std::uint64_t passage =
        std::min(graph_.least_cycles(transfer.then, transfer.bytes), std::min(alone, behind));
    const std::uint64_t least = queued ? passage : alone;
    const std::uint64_t gap = queued ? behind : passage;
    if (before == nullptr) {
      for_runs_with(transfer.then, [&](std::size_t s) { clocks[s] += least; });
    } else {
      for_runs_with(transfer.then, [&](std::size_t s) {
        clocks[s] = std::max(clocks[s] + least, last.clocks[s] + gap);
      });
    }
    last.transfer = number;
    last.clocks = clocks;
  }

  /// What comes before Transfer::split. A batch that is late comes a batch's time behind the one
  /// before it; how early one is that was not waited for is not known.
  void pass_first_part(const Transfer& transfer, std::uint32_t number, OfCore& owner,
                       Clocks& clocks) const {
    const std::uint64_t issue = std::max(transfer.issue, graph_.begin_cycle());
    if (transfer.split <= issue) return;
    const std::uint64_t part = transfer.split - issue;
    LastDone& last = owner.last_batch;
    const bool of_host = transfer.first == Resource::kHost;
    const Transfer* before = of_host ? graph_.transfer(last.transfer) : nullptr;
    for_runs_with(transfer.first, [&](std::size_t s) {
      clocks[s] = before == nullptr
                      ? clocks[s] + part
                      : std::max(clocks[s], last.clocks[s] + transfer.split - before->split);
    });
    if (!of_host) return;
    last.transfer = number;
    last.clocks = clocks;
  }

  const WaitGraph& graph_;
  CriticalPath& result_;
  std::vector<std::uint32_t> last_use_;  ///< Event, per transfer.
  std::vector<std::uint32_t> slots_;     ///< Per transfer; in pool_.
  std::vector<Clocks> pool_;
  std::vector<std::uint32_t> free_;
  std::vector<OfCore> cores_;
};

}  // namespace

std::array<double, kResources> CriticalPath::shares() const {
  std::array<double, kResources> shares = shapley(without, kSets);
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share = total > 0 ? share / total : 0;
  return shares;
}

void add_path(const WaitGraph& graph, std::uint32_t core, CriticalPath& result) {
  PathWalk(graph, result).from(core);
}

/// Sets of resources that the run does not have need not be looked at.
template <Resource kMost>
using SetsUpTo = std::integral_constant<std::size_t, 2 * CriticalPath::set_of(kMost)>;

/// What goes on side by side in the runs is for wide registers, with all that is called.
#define TPU_SIDE_BY_SIDE TPU_CPU_CLONES __attribute__((flatten)) void
TPU_SIDE_BY_SIDE run(FreeRuns<SetsUpTo<Resource::kHbm>::value>& runs, std::uint32_t last) {
  runs.run(last);
}
TPU_SIDE_BY_SIDE run(FreeRuns<SetsUpTo<Resource::kHost>::value>& runs, std::uint32_t last) {
  runs.run(last);
}
TPU_SIDE_BY_SIDE run(FreeRuns<SetsUpTo<Resource::kIci>::value>& runs, std::uint32_t last) {
  runs.run(last);
}
#undef TPU_SIDE_BY_SIDE

void add_free_runs(const WaitGraph& graph, std::uint32_t core, CriticalPath& result) {
  std::vector<std::uint32_t> last_use(graph.transfers(), 0);
  Resource most = Resource::kHbm;
  const std::vector<Event>& events = graph.events();
  for (std::uint32_t e = 0; e < events.size(); ++e) {
    const Transfer* transfer = graph.transfer(events[e].transfer);
    if (transfer == nullptr) continue;
    last_use[events[e].transfer - graph.first_transfer()] = e;
    most = std::max({most, transfer->first, transfer->then});
  }
  const auto with_sets = [&](auto sets) {
    FreeRuns<decltype(sets)::value> runs(graph, std::move(last_use), result);
    run(runs, core);
  };
  if (most == Resource::kHbm) return with_sets(SetsUpTo<Resource::kHbm>());
  if (most == Resource::kHost) return with_sets(SetsUpTo<Resource::kHost>());
  with_sets(SetsUpTo<Resource::kIci>());
}

}  // namespace tpu
