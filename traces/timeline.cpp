#include "traces/timeline.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace tpu::traces {

std::vector<std::vector<Span>> disjoint_lanes(const std::vector<Span>& spans) {
  std::vector<std::vector<Span>> lanes;
  for (const Span& span : spans) {
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const std::vector<Span>& taken) {
      return taken.back().end <= span.begin;
    });
    if (lane == lanes.end()) {
      lanes.emplace_back();
      lane = lanes.end() - 1;
    }
    lane->push_back(span);
  }
  return lanes;
}

std::vector<Quantity> since(std::uint64_t begin, const std::vector<Quantity>& quantities) {
  std::vector<Quantity> later;
  for (const Quantity& each : quantities) {
    if (each.end <= begin && each.begin < begin) continue;
    const std::uint64_t from = std::max(each.begin, begin);
    const double share = each.end > each.begin ? static_cast<double>(each.end - from) /
                                                     static_cast<double>(each.end - each.begin)
                                               : 1;
    later.push_back({from - begin, std::max(each.end, from) - begin, each.amount * share});
  }
  return later;
}

std::vector<double> binned(const std::vector<Quantity>& quantities, std::uint64_t total,
                           std::size_t bins) {
  std::vector<double> sums(bins, 0);
  if (total == 0 || bins == 0) return sums;
  const double width = static_cast<double>(total) / static_cast<double>(bins);
  for (const Quantity& each : quantities) {
    const double begin = static_cast<double>(each.begin);
    const double end = static_cast<double>(each.end);
    const auto bin_at = [&](double time) {
      return std::min(bins - 1, static_cast<std::size_t>(time / width));
    };
    if (each.end <= each.begin) {
      sums[bin_at(begin)] += each.amount;
      continue;
    }
    const double rate = each.amount / (end - begin);
    for (std::size_t bin = bin_at(begin); bin < bins; ++bin) {
      const double from = std::max(begin, static_cast<double>(bin) * width);
      if (from >= end) break;
      const double to = std::min(end, static_cast<double>(bin + 1) * width);
      if (to <= from) continue;  // A begin at an edge of parts, rounded to the one before.
      sums[bin] += rate * (to - from);
    }
  }
  return sums;
}

namespace {

/// Fills parts of time up to their room.
class Filler {
 public:
  Filler(std::vector<double>& sums, double room) : sums_(sums), room_(room) {}

  /// Takes what is above the room out of each part and puts it into the next ones.
  void push_forward() {
    double carried = 0;
    for (double& sum : sums_) {
      sum += carried;
      carried = std::max(0.0, sum - room_);
      sum -= carried;
    }
    put_back(carried);
  }
  /// Puts an amount into the last parts that have room.
  void put_back(double amount) {
    for (std::size_t bin = sums_.size(); bin-- > 0 && amount > 0;) amount -= put(bin, amount);
  }
  /// Puts as much as there is room for; returns how much that was.
  double put(std::size_t bin, double amount) {
    const double taken = std::min(amount, std::max(0.0, room_ - sums_[bin]));
    sums_[bin] += taken;
    return taken;
  }

 private:
  std::vector<double>& sums_;
  double room_;
};

}  // namespace

std::vector<double> binned_within(const std::vector<Quantity>& even,
                                  const std::vector<Quantity>& greedy, std::uint64_t total,
                                  std::size_t bins, double per_cycle) {
  std::vector<double> sums = binned(even, total, bins);
  if (total == 0 || bins == 0) return sums;
  const double width = static_cast<double>(total) / static_cast<double>(bins);
  Filler filler(sums, per_cycle * width);
  filler.push_forward();
  std::vector<Quantity> order = greedy;
  std::stable_sort(order.begin(), order.end(),
                   [](const Quantity& a, const Quantity& b) { return a.begin < b.begin; });
  using Waiting = std::pair<std::uint64_t, std::size_t>;  // End, index.
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting;
  std::size_t next = 0;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    const double end = static_cast<double>(bin + 1) * width;
    while (next < order.size() &&
           (static_cast<double>(order[next].begin) < end || bin + 1 == bins)) {
      waiting.emplace(order[next].end, next);
      ++next;
    }
    while (!waiting.empty()) {
      double& left = order[waiting.top().second].amount;
      left -= filler.put(bin, left);
      if (left > 0) break;
      waiting.pop();
    }
  }
  for (; !waiting.empty(); waiting.pop()) filler.put_back(order[waiting.top().second].amount);
  return sums;
}

}  // namespace tpu::traces
