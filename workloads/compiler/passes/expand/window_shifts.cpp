#include "workloads/compiler/passes/expand/window_shifts.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "sim/base/contains.h"
#include "workloads/compiler/cost.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloOpcode;

namespace {

/// From so many places beyond the first one to those of a half.
struct Half {
  std::int64_t range = 0;
  std::int64_t distance() const { return (range + 1) / 2; }
  std::int64_t left() const { return std::max(distance() - 1, range - distance()); }
};

/// The halves from a range down to one place.
std::vector<Half> halves_of(std::int64_t range) {
  std::vector<Half> halves;
  for (; range > 0; range = halves.back().left()) halves.push_back({range});
  return halves;
}

}  // namespace

/// Two arrays are read and one is written, of tiles half of which is padding (assumed: the order is
/// chosen later).
double WindowShifts::step_cycles(const Extents& extents) const {
  constexpr double kArrays = 3, kPadding = 2, kBytes = 4;
  const auto elements = static_cast<double>(
      std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>()));
  return kKernelCycles + kArrays * kPadding * kBytes * elements / target_.hbm_bytes_per_cycle;
}

double WindowShifts::cut_cycles(Extents extents, const std::vector<Window>& windows) const {
  double cycles = 0;
  for (const Window& window : windows) {
    std::int64_t& extent = extents[static_cast<std::size_t>(window.dimension)];
    for (const Half& half : halves_of(extent - window.size)) {
      extent = window.size + half.left();
      cycles += step_cycles(extents);
    }
  }
  return cycles;
}

double WindowShifts::put_cycles(const Extents& extents, const std::vector<Window>& windows) const {
  return cut_cycles(extents, windows) + step_cycles(extents);
}

/// Whether a window begins there or further on.
WindowShifts::Id WindowShifts::reaches(Id start, std::int64_t distance) {
  const Id bound =
      edit_.splat(ElementType::kS32, edit_.dimensions(start), static_cast<double>(distance));
  return edit_.compare(start, bound, ComparisonDirection::kGe);
}

/// Where it begins in its half.
WindowShifts::Id WindowShifts::behind(Id start, std::int64_t distance) {
  const Extents extents = edit_.dimensions(start);
  const auto all = [&](std::int64_t value) {
    return edit_.splat(ElementType::kS32, extents, static_cast<double>(value));
  };
  return edit_.binary(HloOpcode::kSubtract, start,
                      edit_.select(reaches(start, distance), all(distance), all(0)));
}

/// The value in an array whose dimensions `places` have an element for each window.
WindowShifts::Id WindowShifts::for_each(Id value, const Extents& extents, const Extents& places) {
  if (edit_.dimensions(value) == extents) return value;
  Extents kept, dimensions;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const auto dimension = static_cast<std::int64_t>(d);
    if (edit_.dimensions(value)[d] != extents[d] && contains(places, dimension)) continue;
    kept.push_back(extents[d]);
    dimensions.push_back(dimension);
  }
  return edit_.broadcast(edit_.reshape(value, kept), extents, dimensions);
}

WindowShifts::Id WindowShifts::cut(Id array, const std::vector<Window>& windows,
                                   const Extents& places) {
  for (const Window& window : windows) {
    const auto d = static_cast<std::size_t>(window.dimension);
    Id start = window.start;
    for (const Half& half : halves_of(edit_.dimensions(array)[d] - window.size)) {
      const std::int64_t size = window.size + half.left();
      Extents extents = edit_.dimensions(array);
      extents[d] = size;
      for (std::size_t i = 0; i < places.size(); ++i) {
        extents[static_cast<std::size_t>(places[i])] = edit_.dimensions(start)[i];
      }
      const auto from = [&](std::int64_t begin) {
        return for_each(edit_.take(array, window.dimension, begin, size, 1), extents, places);
      };
      const Id is_upper = edit_.broadcast(reaches(start, half.distance()), extents, places);
      const Id upper = from(half.distance()), lower = from(0);
      array = edit_.select(is_upper, upper, lower);
      start = behind(start, half.distance());
    }
  }
  return array;
}

WindowShifts::Id WindowShifts::put(Id updates, const Extents& extents,
                                   const std::vector<Window>& windows, const Extents& places) {
  for (const Window& window : windows) {
    const auto d = static_cast<std::size_t>(window.dimension);
    const std::vector<Half> halves = halves_of(extents[d] - window.size);
    std::vector<Id> starts{window.start};
    for (const Half& half : halves) starts.push_back(behind(starts.back(), half.distance()));
    for (std::size_t i = halves.size(); i-- > 0;) {
      const std::int64_t distance = halves[i].distance();
      const std::int64_t size = window.size + halves[i].range;
      // Slices of one array, which kernels may read where they stand; those of a vector are copied.
      Id both = updates;
      std::int64_t before = 0;
      if (extents.size() > 1) {
        both = edit_.take(updates, window.dimension, -distance, size + distance, 1);
        before = distance;
      }
      const Id upper = edit_.take(both, window.dimension, before - distance, size, 1);
      const Id lower = edit_.take(both, window.dimension, before, size, 1);
      const Id is_upper =
          edit_.broadcast(reaches(starts[i], distance), edit_.dimensions(lower), places);
      updates = edit_.select(is_upper, upper, lower);
    }
  }
  return updates;
}

}  // namespace tpu::compiler
