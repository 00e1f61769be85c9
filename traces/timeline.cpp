#include "traces/timeline.h"

#include <algorithm>

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
      const double to = std::min(end, static_cast<double>(bin + 1) * width);
      if (to <= from) break;
      sums[bin] += rate * (to - from);
    }
  }
  return sums;
}

}  // namespace tpu::traces
