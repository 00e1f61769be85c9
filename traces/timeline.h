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

/// An amount that is spread evenly over a span.
struct Quantity {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  double amount = 0;
};

/// The amount that falls into each of `bins` equal parts of [0, total). An empty span's amount
/// falls into the part that holds its begin.
std::vector<double> binned(const std::vector<Quantity>& quantities, std::uint64_t total,
                           std::size_t bins);

}  // namespace tpu::traces
