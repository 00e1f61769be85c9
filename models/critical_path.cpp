#include "models/critical_path.h"

#include <algorithm>

#include "models/wait_graph.h"

namespace tpu {
namespace {

using Event = WaitGraph::Event;
using Transfer = WaitGraph::Transfer;
constexpr std::size_t kNoEvent = ~std::size_t{0};

/// Walks back from the last event of a core.
class PathWalk {
 public:
  PathWalk(const WaitGraph& graph, CriticalPath& result) : graph_(graph), result_(result) {}

  void from(std::uint32_t core) {
    find_events_before();
    std::size_t event = core < last_.size() ? last_[core] : kNoEvent;
    if (event == kNoEvent) return;
    now_ = graph_.events()[event].cycle;
    while (event != kNoEvent && now_ > graph_.begin_cycle()) event = pass(event);
    charge(Resource::kLatency, WaitGraph::kNone, now_ - std::min(now_, graph_.begin_cycle()));
  }

 private:
  void find_events_before() {
    const std::vector<Event>& events = graph_.events();
    before_.assign(events.size(), kNoEvent);
    for (std::size_t e = 0; e < events.size(); ++e) {
      if (events[e].kind == Event::Kind::kDone) continue;
      if (events[e].core >= last_.size()) last_.resize(events[e].core + 1, kNoEvent);
      before_[e] = last_[events[e].core];
      last_[events[e].core] = e;
    }
  }

  /// The event behind which the path goes on.
  std::size_t pass(std::size_t number) {
    const Event& event = graph_.events()[number];
    const std::size_t before = before_[number];
    if (event.kind == Event::Kind::kWait) {
      if (const Transfer* transfer = graph_.transfer(event.transfer)) return pass(*transfer);
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
  std::size_t pass(const Transfer& last) {
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
               : static_cast<std::size_t>(transfer->start - graph_.first_event());
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
  std::vector<std::size_t> before_;  ///< Of an event, of the same core.
  std::vector<std::size_t> last_;    ///< Per core.
  std::uint64_t now_ = 0;
};

/// The run again, once for each set of free resources: all of them side by side, event by event.
class FreeRuns {
 public:
  FreeRuns(const WaitGraph& graph, CriticalPath& result) : graph_(graph), result_(result) {
    find_last_uses();
    slots_.assign(graph.transfers(), kNoSlot);
  }

  void run() {
    const std::vector<Event>& events = graph_.events();
    for (std::size_t e = 0; e < events.size(); ++e) pass(events[e], e);
    Clocks end{};
    for (const OfCore& core : cores_) {
      for (std::size_t s = 0; s < end.size(); ++s) end[s] = std::max(end[s], core.clocks[s]);
    }
    for (std::size_t s = 0; s < CriticalPath::kSets; ++s) {
      result_.without[s] += since_begin(end[s & (sets_ - 1)]);
    }
    result_.twice_the_mxus += since_begin(end[kTwice]);
  }

 private:
  static constexpr std::size_t kTwice = CriticalPath::kSets;  ///< MXUs of twice the rate.
  static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
  using Clocks = std::array<std::uint64_t, CriticalPath::kSets + 1>;
  struct LastDone {
    std::uint32_t transfer = WaitGraph::kNone;
    Clocks clocks{};
  };
  struct OfCore {
    bool known = false;
    Clocks clocks{};
    std::array<LastDone, kResources> last;  ///< By Transfer::then.
    LastDone last_batch;                    ///< Out of the host; its end there.
  };

  std::uint64_t since_begin(std::uint64_t cycle) const {
    return cycle - std::min(cycle, graph_.begin_cycle());
  }
  static bool is_free(std::size_t set, Resource resource) {
    return set < CriticalPath::kSets && (set & CriticalPath::set_of(resource)) != 0;
  }
  template <class Visit>
  void for_sets(const Visit& visit) const {
    for (std::size_t s = 0; s < sets_; ++s) visit(s);
    visit(kTwice);
  }

  /// Also which resources the run has at all: sets of others need not be looked at.
  void find_last_uses() {
    last_use_.assign(graph_.transfers(), 0);
    const std::vector<Event>& events = graph_.events();
    for (std::size_t e = 0; e < events.size(); ++e) {
      const Transfer* transfer = graph_.transfer(events[e].transfer);
      if (transfer == nullptr) continue;
      last_use_[events[e].transfer - graph_.first_transfer()] = e;
      const auto most = std::max({Resource::kHbm, transfer->first, transfer->then});
      sets_ = std::max(sets_, 2 * CriticalPath::set_of(most));
    }
  }

  OfCore& core(std::uint32_t number, const Event& event) {
    if (number >= cores_.size()) cores_.resize(number + 1);
    OfCore& core = cores_[number];
    if (!core.known) {
      core.known = true;
      std::uint64_t ran = 0;
      for (const std::uint32_t each : event.ran) ran += each;
      const std::uint64_t since =
          event.kind == Event::Kind::kWait ? graph_.begin_cycle() : event.cycle - ran;
      core.clocks.fill(std::max(since, graph_.begin_cycle()));
    }
    return core;
  }

  Clocks& slot(std::uint32_t transfer) {
    std::uint32_t& number = slots_[transfer - graph_.first_transfer()];
    if (number == kNoSlot) {
      if (free_.empty()) {
        free_.push_back(static_cast<std::uint32_t>(pool_.size()));
        pool_.emplace_back();
      }
      number = free_.back();
      free_.pop_back();
      pool_[number].fill(graph_.begin_cycle());  // For one that was under way at the begin.
    }
    return pool_[number];
  }

  void pass(const Event& event, std::size_t number) {
    const Transfer* transfer = graph_.transfer(event.transfer);
    if (event.kind == Event::Kind::kDone) {
      if (transfer != nullptr) finish(*transfer, event.transfer);
    } else {
      pass_on_core(event, transfer);
    }
    if (transfer == nullptr) return;
    const std::size_t of = event.transfer - graph_.first_transfer();
    if (last_use_[of] == number && slots_[of] != kNoSlot) {
      free_.push_back(slots_[of]);
      slots_[of] = kNoSlot;
    }
  }

  void pass_on_core(const Event& event, const Transfer* transfer) {
    OfCore& mine = core(event.core, event);
    const Clocks before = mine.clocks;
    run_core(event, mine.clocks);
    const bool waits = event.kind == Event::Kind::kWait || event.kind == Event::Kind::kMet;
    if (event.kind == Event::Kind::kStart) slot(event.transfer) = mine.clocks;
    if (waits && transfer != nullptr) {
      const Clocks& done = slot(event.transfer);
      for_sets([&](std::size_t s) { mine.clocks[s] = std::max(mine.clocks[s], done[s]); });
    } else if (event.kind == Event::Kind::kWait) {
      const std::uint64_t waited = event.cycle - std::min(event.cycle, before[0]);
      for_sets([&](std::size_t s) {
        if (!is_free(s, Resource::kLatency)) mine.clocks[s] += waited;
      });
    }
    if (event.op >= result_.ops.size()) return;
    for (std::size_t r = 0; r < kResources; ++r) {
      const std::size_t set = CriticalPath::set_of(static_cast<Resource>(r)) & (sets_ - 1);
      result_.ops[event.op].gain[r] += static_cast<std::int64_t>(mine.clocks[0] - before[0]) -
                                       static_cast<std::int64_t>(mine.clocks[set] - before[set]);
    }
  }

  void run_core(const Event& event, Clocks& clocks) {
    std::array<std::uint64_t, std::size_t{1} << kCoreResources> time{};
    for (std::size_t set = 0; set < time.size(); ++set) {
      for (std::size_t r = 0; r < kCoreResources; ++r) {
        if ((set >> r & 1) == 0) time[set] += event.ran[r];
      }
    }
    for (std::size_t s = 0; s < sets_; ++s) clocks[s] += time[s & (time.size() - 1)];
    constexpr auto kMxu = static_cast<std::size_t>(Resource::kMxu);
    clocks[kTwice] += time[0] - event.ran[kMxu] / 2;
  }

  /// A transfer is done in each of the runs: its slot goes from its issue to its end.
  void finish(const Transfer& transfer, std::uint32_t number) {
    Clocks& clocks = slot(number);
    OfCore& owner = cores_at(transfer.core);
    pass_first_part(transfer, owner, clocks);
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
    for_sets([&](std::size_t s) {
      if (is_free(s, transfer.then)) return;
      clocks[s] += least;
      if (before != nullptr) clocks[s] = std::max(clocks[s], last.clocks[s] + gap);
    });
    last.transfer = number;
    last.clocks = clocks;
  }

  /// What comes before Transfer::split. A batch that is late comes a batch's time behind the one
  /// before it; how early one is that was not waited for is not known.
  void pass_first_part(const Transfer& transfer, OfCore& owner, Clocks& clocks) {
    const std::uint64_t issue = std::max(transfer.issue, graph_.begin_cycle());
    if (transfer.split <= issue) return;
    const std::uint64_t part = transfer.split - issue;
    LastDone& last = owner.last_batch;
    const bool of_host = transfer.first == Resource::kHost;
    const Transfer* before = of_host ? graph_.transfer(last.transfer) : nullptr;
    for_sets([&](std::size_t s) {
      if (is_free(s, transfer.first)) return;
      clocks[s] = before == nullptr
                      ? clocks[s] + part
                      : std::max(clocks[s], last.clocks[s] + transfer.split - before->split);
    });
    if (!of_host) return;
    last.transfer =
        static_cast<std::uint32_t>(&transfer - graph_.transfer(graph_.first_transfer())) +
        graph_.first_transfer();
    last.clocks = clocks;
  }

  OfCore& cores_at(std::uint32_t number) {
    if (number >= cores_.size()) cores_.resize(number + 1);
    return cores_[number];
  }

  const WaitGraph& graph_;
  CriticalPath& result_;
  std::size_t sets_ = 2 * CriticalPath::set_of(Resource::kHbm);
  std::vector<std::size_t> last_use_;  ///< Event, per transfer.
  std::vector<std::uint32_t> slots_;   ///< Per transfer; in pool_.
  std::vector<Clocks> pool_;
  std::vector<std::uint32_t> free_;
  std::vector<OfCore> cores_;
};

}  // namespace

std::array<double, kResources> CriticalPath::shares() const {
  std::array<double, kResources> shares{};
  double total = 0;
  for (std::size_t r = 0; r < kResources; ++r) {
    const std::size_t mine = std::size_t{1} << r;
    for (std::size_t set = 0; set < kSets; ++set) {
      if ((set & mine) != 0) continue;
      // The part of the orders in which just the set is free before: |set|! (n-1-|set|)! / n!.
      double weight = 1.0 / kResources;
      const auto others = static_cast<std::size_t>(__builtin_popcountll(set));
      for (std::size_t i = 1; i <= others; ++i) {
        weight *= static_cast<double>(i) / static_cast<double>(kResources - i);
      }
      shares[r] +=
          weight * (static_cast<double>(without[set]) - static_cast<double>(without[set | mine]));
    }
    total += shares[r];
  }
  for (double& share : shares) share = total > 0 ? share / total : 0;
  return shares;
}

void add_path(const WaitGraph& graph, std::uint32_t core, CriticalPath& result) {
  PathWalk(graph, result).from(core);
}

void add_free_runs(const WaitGraph& graph, CriticalPath& result) { FreeRuns(graph, result).run(); }

}  // namespace tpu
