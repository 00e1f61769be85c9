#include "models/core_classes.h"

#include <algorithm>
#include <map>

#include "sim/base/error.h"

namespace tpu {

CoreClasses::CoreClasses(const std::vector<std::uint32_t>& cores, std::uint32_t count, bool alike)
    : class_of_(count, kNone), place_of_(count, 0) {
  Members sorted = cores;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  if (alike && !sorted.empty()) {
    classes_.push_back(std::move(sorted));
  } else {
    for (const std::uint32_t core : sorted) classes_.push_back({core});
  }
  number();
}

void CoreClasses::number() {
  folded_ = false;
  for (std::uint32_t c = 0; c < classes_.size(); ++c) {
    folded_ = folded_ || classes_[c].size() > 1;
    for (std::uint32_t place = 0; place < classes_[c].size(); ++place) {
      class_of_[classes_[c][place]] = c;
      place_of_[classes_[c][place]] = place;
    }
  }
}

void CoreClasses::split(std::uint32_t of_class, const std::vector<std::uint64_t>& keys) {
  const Members members = classes_[of_class];
  TPU_CHECK(keys.size() == members.size(), keys.size()
                                               << " keys for " << members.size() << " members");
  std::map<std::uint64_t, Members> parts;
  for (std::size_t i = 0; i < members.size(); ++i) parts[keys[i]].push_back(members[i]);
  TPU_CHECK(parts.size() > 1, "a class of " << members.size() << " members that do not differ");
  classes_.erase(classes_.begin() + of_class);
  for (auto& [key, part] : parts) classes_.push_back(std::move(part));
  std::sort(classes_.begin(), classes_.end());
  number();
}

}  // namespace tpu
