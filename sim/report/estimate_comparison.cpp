#include "sim/report/estimate_comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "sim/report/text_layout.h"

namespace tpu::report {
namespace {

EstimateReason longest_wait(const Shares& shares) {
  const std::pair<double, EstimateReason> waits[] = {
      {shares.memory_wait, EstimateReason::kMemoryWait},
      {shares.ici + shares.peer, EstimateReason::kIciWait},
      {shares.infeed, EstimateReason::kHostWait}};
  return std::max_element(std::begin(waits), std::end(waits),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

double share_of(EstimateReason wait, const Shares& shares) {
  switch (wait) {
    case EstimateReason::kMemoryWait:
      return shares.memory_wait;
    case EstimateReason::kIciWait:
      return shares.ici + shares.peer;
    case EstimateReason::kHostWait:
      return shares.infeed;
    case EstimateReason::kHbm:
      return shares.hbm;
    case EstimateReason::kSchedule:
      break;
  }
  return shares.schedule;
}

EstimateReason reason_of(const EstimatedOp& op, const Shares& shares) {
  if (op.cycles > op.estimated_cycles) {
    // A part that is longer than the estimate says it all, unless the most of ours is another.
    const double least = std::max(op.estimated_cycles, op.cycles / 2);
    if (op.schedule_cycles > least) return EstimateReason::kSchedule;
    if (op.pin_cycles > least) return EstimateReason::kHbm;
    return longest_wait(shares);
  }
  // Waiting for memory while the pins are busy is the pins' doing.
  Shares own = shares;
  own.memory_wait = std::max(0.0, shares.memory_wait - shares.hbm);
  EstimateReason most = longest_wait(own);
  for (const EstimateReason other : {EstimateReason::kSchedule, EstimateReason::kHbm}) {
    if (share_of(other, own) >= share_of(most, own)) most = other;
  }
  return most;
}

void add(EstimateComparison& comparison, const EstimatedOp& op) {
  const bool is_longer = op.cycles > op.estimated_cycles;
  auto group = std::find_if(comparison.groups.begin(), comparison.groups.end(),
                            [&](const EstimateGroup& known) {
                              return known.reason == op.reason && known.is_longer == is_longer;
                            });
  if (group == comparison.groups.end()) {
    comparison.groups.push_back({op.reason, is_longer, 0, 0, 0, 0, 0, 0, 0});
    group = comparison.groups.end() - 1;
  }
  ++group->count;
  group->differing += op.differs() ? 1 : 0;
  group->cycles += op.cycles;
  group->estimated_cycles += op.estimated_cycles;
  group->pin_cycles += op.pin_cycles;
  group->schedule_cycles += op.schedule_cycles;
  group->wait_cycles += op.wait_cycles;
  comparison.cycles += op.cycles;
  comparison.estimated_cycles += op.estimated_cycles;
}

std::string times(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f x", ratio);
  return text;
}

std::string part(double share) { return short_number(std::round(100 * share)) + " %"; }

/// What a reason means for an operation or a group of them.
template <class Part>
std::string words(const Part& part_of, bool is_longer) {
  switch (part_of.reason) {
    case EstimateReason::kSchedule:
      return is_longer
                 ? "its bundles and empty cycles alone take " +
                       times(part_of.schedule_cycles / part_of.estimated_cycles) + " the estimate"
                 : "bundles and empty cycles fill " +
                       part(part_of.schedule_cycles / part_of.cycles) +
                       " of our time; the estimate has more";
    case EstimateReason::kHbm:
      return is_longer ? "its bytes need " + times(part_of.pin_cycles / part_of.estimated_cycles) +
                             " the estimate at the pins"
                       : "HBM pins busy " + part(part_of.pin_cycles / part_of.cycles) +
                             " of our time; the estimate is " +
                             times(part_of.estimated_cycles / part_of.pin_cycles) + " their need";
    default:
      break;
  }
  const char* whom = part_of.reason == EstimateReason::kMemoryWait ? "DMAs"
                     : part_of.reason == EstimateReason::kIciWait  ? "other cores"
                                                                   : "the host";
  return std::string("waits for ") + whom + " " + part(part_of.wait_cycles / part_of.cycles) +
         " of our time";
}

}  // namespace

const char* to_string(EstimateReason reason) {
  switch (reason) {
    case EstimateReason::kSchedule:
      return "schedule";
    case EstimateReason::kHbm:
      return "HBM";
    case EstimateReason::kMemoryWait:
      return "memory wait";
    case EstimateReason::kIciWait:
      return "ICI wait";
    case EstimateReason::kHostWait:
      return "host wait";
  }
  return "?";
}

EstimateComparison compare_with_estimates(const traces::RunRecord& record, const Summary& summary) {
  EstimateComparison comparison;
  for (std::size_t i = 0; i < summary.ops.size(); ++i) {
    const OpSummary& op = summary.ops[i];
    const isa::OpInfo& info = record.ops[op.op];
    if (info.estimated_cycles == 0) {
      ++comparison.without;
      comparison.cycles_without += op.cycles;
      continue;
    }
    EstimatedOp estimated;
    estimated.op = i;
    estimated.cycles = op.cycles;
    estimated.estimated_cycles = static_cast<double>(info.estimated_cycles) * op.count;
    estimated.pin_cycles = op.shares.hbm * op.cycles;
    estimated.schedule_cycles = op.shares.schedule * op.cycles;
    estimated.reason = reason_of(estimated, op.shares);
    if (estimated.is_wait()) {
      estimated.wait_cycles = share_of(estimated.reason, op.shares) * op.cycles;
    }
    add(comparison, estimated);
    comparison.ops.push_back(estimated);
  }
  const auto difference = [](const auto& each) {
    return std::fabs(each.cycles - each.estimated_cycles);
  };
  std::stable_sort(comparison.ops.begin(), comparison.ops.end(),
                   [&](const auto& a, const auto& b) { return difference(a) > difference(b); });
  std::stable_sort(comparison.groups.begin(), comparison.groups.end(),
                   [&](const auto& a, const auto& b) { return difference(a) > difference(b); });
  return comparison;
}

std::string reason_text(const EstimatedOp& estimated, const OpSummary& op) {
  std::string text = words(estimated, estimated.cycles > estimated.estimated_cycles);
  if (estimated.reason == EstimateReason::kMemoryWait) {
    text += ", " + short_number(op.dmas / std::max(op.count, 1.0)) + " DMAs a call";
  }
  return text;
}

std::string reason_text(const EstimateGroup& group) { return words(group, group.is_longer); }

}  // namespace tpu::report
