#include "models/network/known_destinations.h"

#include <map>

namespace tpu {

void KnownDestinations::note(const CoreClasses& classes, std::uint32_t of_class,
                             const Destinations& to) {
  const CoreClasses::Members& members = classes.members(of_class);
  Pairs pairs;
  pairs.reserve(to.size());
  for (std::size_t i = 0; i < to.size(); ++i) pairs.emplace_back(members[i], to[i]);
  sent_.insert(std::move(pairs));
}

void KnownDestinations::check(const CoreClasses& classes, std::uint32_t cores_per_chip,
                              std::uint32_t of_class, const Destinations& to) {
  const CoreClasses::Members& members = classes.members(of_class);
  std::vector<std::uint64_t> keys(members.size());
  const auto check = [&](const char* what, const auto& key) {
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = key(i);
    require_alike(what, of_class, keys);
  };
  check("a message to a core that does not run",
        [&](std::size_t i) { return classes.runs(to[i]); });
  check("a message inside a chip",
        [&](std::size_t i) { return members[i] / cores_per_chip == to[i] / cores_per_chip; });
  check("the class that a message goes to", [&](std::size_t i) { return classes.class_of(to[i]); });
  const std::uint32_t to_class = classes.class_of(to[0]);
  std::vector<std::uint64_t> counts(classes.members(to_class).size());
  for (std::size_t i = 0; i < to.size(); ++i) keys[i] = counts[classes.place_of(to[i])]++;
  require_alike("the messages that arrive", to_class, counts);
  require_alike("messages to the same core", of_class, keys);
}

void KnownDestinations::check(const CoreClasses& classes, const Pairs& pairs) const {
  std::map<std::uint32_t, Destinations> by_class;
  for (const auto& [from, to] : pairs) by_class[classes.class_of(from)].push_back(to);
  for (const auto& [of_class, to] : by_class) {
    check(classes, cores_per_chip_, of_class, to);
  }
}

void KnownDestinations::split(CoreClasses& classes) const {
  for (auto pairs = sent_.begin(); pairs != sent_.end();) {
    try {
      check(classes, *pairs);
      ++pairs;
    } catch (const MembersDiffer& differ) {
      classes.split(differ.of_class(), differ.keys());
      pairs = sent_.begin();
    }
  }
}

}  // namespace tpu
