#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "models/core_classes.h"

namespace tpu {

/// Which core sent to which so far, message by message of a class, over all attempts of a folded
/// run. What was sent before members of a class differed is sent again in the next attempt; so the
/// classes that send to the parts of that class, or get messages from them, differ in it as well,
/// and split before it begins instead of one in each attempt.
class KnownDestinations {
 public:
  /// Of a message of a class: the core that each member's goes to, in the order of the members.
  using Destinations = std::vector<std::uint32_t>;

  void note(const CoreClasses& classes, std::uint32_t of_class, const Destinations& to);
  /// Splits classes until none differs in what is known.
  void split(CoreClasses& classes) const;

  /// All members send to members of one class, or to the other core of their chip; each member of
  /// that class gets one message. Throws MembersDiffer.
  static void check(const CoreClasses& classes, std::uint32_t cores_per_chip,
                    std::uint32_t of_class, const Destinations& to);

  explicit KnownDestinations(std::uint32_t cores_per_chip) : cores_per_chip_(cores_per_chip) {}

 private:
  using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  ///< From and to.

  void check(const CoreClasses& classes, const Pairs& pairs) const;

  std::uint32_t cores_per_chip_;
  std::set<Pairs> sent_;
};

}  // namespace tpu
