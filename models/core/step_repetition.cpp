#include "models/core/step_repetition.h"

#include <numeric>

#include "sim/base/error.h"

namespace tpu {
namespace {

/// What two runs differ in, so many times more: `value` is that of the longer one.
class Periods {
 public:
  explicit Periods(std::uint64_t times) : times_(times) {}

  /// Of unsigned numbers, too, where they are the fewer the longer the run is: modulo 2^n.
  template <class Number>
  void add(Number& value, const Number& shorter) const {
    value += static_cast<Number>(times_) * (value - shorter);
  }
  void add(Counters& value, const Counters& shorter) const {
    Counters period = value - shorter;
    for (std::uint64_t times = times_; times != 0; times >>= 1) {
      if ((times & 1) != 0) value += period;
      period += Counters(period);
    }
  }
  void add(OpResult& value, const OpResult& shorter) const {
    add(value.count, shorter.count);
    add(value.cycles, shorter.cycles);
    add(value.counters, shorter.counters);
    for (auto& [op, cycles] : value.beside) {
      const auto before = shorter.beside.find(op);
      add(cycles, before == shorter.beside.end() ? std::uint64_t{0} : before->second);
    }
  }
  template <class Values>
  void add_each(Values& values, const Values& shorter) const {
    for (std::size_t i = 0; i < values.size(); ++i) add(values[i], shorter[i]);
  }

 private:
  std::uint64_t times_;
};

/// Of a core the cycles of a period.
std::uint64_t period_cycles(const CoreResult& core, const StepRepetition::Found& found) {
  return core.steps[found.first + found.period - 1].end - core.steps[found.first - 1].end;
}

std::vector<StepSpan> all_steps(const std::vector<StepSpan>& run,
                                const StepRepetition::Found& found, std::uint64_t cycles) {
  const std::size_t end = found.first + found.period;
  std::vector<StepSpan> all(run.begin(), run.begin() + static_cast<std::ptrdiff_t>(end));
  all.reserve(run.size() + found.times * found.period);
  std::uint64_t later = 0;
  for (std::uint64_t t = 0; t < found.times; ++t) {
    later += cycles;
    for (std::size_t s = found.first; s < end; ++s) {
      all.push_back({run[s].begin + later, run[s].end + later});
    }
  }
  for (std::size_t s = end; s < run.size(); ++s) {
    all.push_back({run[s].begin + later, run[s].end + later});
  }
  return all;
}

void add_to_core(CoreResult& core, const CoreResult& shorter, const StepRepetition::Found& found,
                 const Periods& periods) {
  core.steps = all_steps(core.steps, found, period_cycles(core, found));
  periods.add_each(core.ops, shorter.ops);
  periods.add(core.total, shorter.total);
  periods.add(core.end_cycle, shorter.end_cycle);
  for (auto& [late, cycles] : core.waited_for) {
    const auto before = shorter.waited_for.find(late);
    periods.add(cycles, before == shorter.waited_for.end() ? std::uint64_t{0} : before->second);
  }
}

/// Where the record of a run is cut, a longer one may have fewer cycles of a resource.
template <class Values>
void add_increase(Values& values, const Values& shorter, const Periods& periods) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] > shorter[i]) periods.add(values[i], shorter[i]);
  }
}

void add_to_path(CriticalPath& path, const CriticalPath& shorter, const Periods& periods) {
  add_increase(path.path, shorter.path, periods);
  path.cycles = std::accumulate(path.path.begin(), path.path.end(), std::uint64_t{0});
  add_increase(path.without, shorter.without, periods);
  periods.add(path.twice_the_mxus, shorter.twice_the_mxus);
  periods.add(path.cuts, shorter.cuts);
  for (std::size_t o = 0; o < path.ops.size(); ++o) {
    add_increase(path.ops[o].path, shorter.ops[o].path, periods);
    periods.add_each(path.ops[o].gain, shorter.ops[o].gain);
    periods.add_each(path.ops[o].cycles, shorter.ops[o].cycles);
  }
}

void add_to_part(ExactAccount& part, const ExactAccount& shorter, const Periods& periods) {
  TPU_CHECK(part.part == shorter.part && part.cycles.size() == shorter.cycles.size(),
            "account of " << part.part << " beside that of " << shorter.part);
  if (part.fractions.empty()) {
    for (std::size_t a = 0; a < part.cycles.size(); ++a) {
      periods.add(part.cycles[a].second, shorter.cycles[a].second);
    }
    return;
  }
  periods.add_each(part.fractions, shorter.fractions);
  part.round_fractions();
}

}  // namespace

void StepRepetition::begin_ending(std::uint32_t step, std::uint64_t now) {
  ending_ = {};
  ending_.step = step;
  ending_.begin = now;
  ending_.of_cores.resize(cores_);
  StepState hosts(now);
  hosts_(hosts);
  ending_.is_complete = hosts.is_complete();
  ending_.hosts = hosts.words();
}

void StepRepetition::end_step(std::size_t core, std::uint32_t ended, const StepState& state) {
  if (!looks()) return;
  // A core that is a step ahead leaves no line between the two.
  if (ended > ending_.step) begin_ending(ended, state.now());
  if (ended < ending_.step) return;
  ending_.is_complete = ending_.is_complete && state.is_complete();
  Words& words = ending_.of_cores[core];
  words = state.words();
  words.push_back(state.now() - ending_.begin);
  if (++ending_.cores < cores_) return;
  StepState network(state.now());
  network_(network);
  if (ending_.is_complete && network.is_complete()) {
    Words all = std::move(ending_.hosts);
    all.insert(all.end(), network.words().begin(), network.words().end());
    for (const Words& of_core : ending_.of_cores) {
      all.push_back(of_core.size());
      all.insert(all.end(), of_core.begin(), of_core.end());
    }
    look_for(std::move(all), ended);
  }
  ending_ = {};
}

void StepRepetition::look_for(Words state, std::uint32_t ended) {
  if (ended + 1 >= steps_) return;
  const auto before = states_.find(state);
  if (before == states_.end()) {
    words_ += state.size();
    if (words_ <= kMostWords) states_.emplace(std::move(state), ended);
    return;
  }
  // A step at least is left over: cores may have begun it, and what waits at its begin were for is
  // counted as the steps before the period left it.
  const std::uint32_t period = ended - before->second;
  const std::uint32_t times = (steps_ - ended - 1) / period;
  const std::uint32_t left_over = steps_ - ended - times * period;
  // Another run, of one period less, has to pay.
  if (std::uint64_t{times} * period <= before->second + left_over) return;
  found_ = Found{before->second, period, times};
  steps_ = ended + left_over;
  states_.clear();
}

RunResult with_periods(RunResult longer, const RunResult& shorter,
                       const StepRepetition::Found& found,
                       const std::vector<std::size_t>& first_alike) {
  const Periods periods(found.times);
  for (std::size_t c = 0; c < longer.cores.size(); ++c) {
    CoreResult& core = longer.cores[c];
    if (first_alike[c] == c) {
      add_to_core(core, shorter.cores[c], found, periods);
      continue;
    }
    const std::uint32_t chip = core.chip, of_chip = core.core;
    core = longer.cores[first_alike[c]];
    core.chip = chip;
    core.core = of_chip;
  }
  periods.add(longer.cycles, shorter.cycles);
  add_to_path(longer.critical_path, shorter.critical_path, periods);
  for (std::size_t p = 0; p < longer.paths.size(); ++p) {
    periods.add(longer.paths[p].executions, shorter.paths[p].executions);
    periods.add_each(longer.paths[p].branch_counts, shorter.paths[p].branch_counts);
  }
  return longer;
}

ExactAccounts with_periods(ExactAccounts longer, const ExactAccounts& shorter,
                           std::uint64_t times) {
  TPU_CHECK(longer.size() == shorter.size(), longer.size()
                                                 << " accounts of parts beside " << shorter.size());
  const Periods periods(times);
  for (std::size_t p = 0; p < longer.size(); ++p) add_to_part(longer[p], shorter[p], periods);
  return longer;
}

}  // namespace tpu
