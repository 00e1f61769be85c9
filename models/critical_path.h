#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "models/resource.h"

namespace tpu {

/// What the time of a run depends on.
///
/// `path`: from the end of the last core back to the begin of the account, the one thing at each
/// moment that everything behind it waited for: a core that runs, by what its schedule needs; where
/// it waits, the transfer whose end released it, then the transfer that this one queued behind, or
/// the core that started it, at that moment. Time that hides behind the path is not on it.
///
/// `without`: the cycles of the run with some resources free, taken from the same record: every
/// core and transfer begins when what it waited for is done, and what a free resource does takes no
/// time. The program stays the same. Two resources that hide behind each other gain little alone
/// and much together, so what one takes is its share: the mean of what freeing it gains over all
/// orders in which the resources may be freed (the Shapley value; of two resources each gets what
/// it gains alone and half of what both gain only together, so their order is that of their gains).
/// Shares add up to the run.
///
/// Left out: the HBM's part of a remote DMA, which counts as ICI; how early a batch of the infeed
/// is that nobody waited for.
class CriticalPath {
 public:
  static constexpr std::size_t kSets = std::size_t{1} << kResources;
  static constexpr std::size_t set_of(Resource resource) {
    return std::size_t{1} << static_cast<std::size_t>(resource);
  }

  struct Op {
    CyclesByResource path{};
    std::array<std::int64_t, kResources> gain{};  ///< Mean of the cores, one resource free.
    /// Its cycles by what they depend on, as shares() has those of the run: mean of the cores.
    std::array<double, kResources> cycles{};
  };

  std::uint64_t cycles = 0;
  CyclesByResource path{};                     ///< Adds up to `cycles`.
  std::array<std::uint64_t, kSets> without{};  ///< By set of free resources; [0] is `cycles`.
  std::uint64_t twice_the_mxus = 0;            ///< Cycles with half the time of the MXUs' ports.
  std::uint64_t cuts = 0;                      ///< Places where the record was full and began anew.
  std::vector<Op> ops;                         ///< By op of the program.

  std::int64_t gain(std::size_t set) const {
    return static_cast<std::int64_t>(without[0]) - static_cast<std::int64_t>(without[set]);
  }
  /// Fractions of the run, which add up to 1.
  std::array<double, kResources> shares() const;
};

}  // namespace tpu
