#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tpu::traces {

/// A piece of time on a timeline; `index` says which event it is.
struct Span {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::size_t index = 0;
};

/// Deals spans, sorted by begin, to lanes in which none overlap: each goes to the first lane that
/// is free at its begin. Spans may touch and may be empty.
std::vector<std::vector<Span>> disjoint_lanes(const std::vector<Span>& spans);

/// Equal parts of a run that a counter of a trace has, at most.
constexpr std::size_t kCounterBins = 2000;

/// An amount that is spread evenly over a span.
struct Quantity {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  double amount = 0;
};

/// What of them falls behind `begin`, as time since then.
std::vector<Quantity> since(std::uint64_t begin, const std::vector<Quantity>& quantities);

/// The amount that falls into each of `bins` equal parts of [0, total). An empty span's amount
/// falls into the part that holds its begin.
std::vector<double> binned(const std::vector<Quantity>& quantities, std::uint64_t total,
                           std::size_t bins);

/// The same for amounts that pass something of limited rate: no part gets more than `per_cycle`
/// times its length. Amounts of `even` are spread over their spans; those of `greedy` pass as early
/// in theirs as there is room, that of the earliest end first. What finds no room by the end of its
/// span passes behind it, at last before it: nothing gets lost unless all parts are full.
std::vector<double> binned_within(const std::vector<Quantity>& even,
                                  const std::vector<Quantity>& greedy, std::uint64_t total,
                                  std::size_t bins, double per_cycle);

}  // namespace tpu::traces
