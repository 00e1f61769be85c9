#include "sim/config/nearest_name.h"

#include <algorithm>

namespace tpu::config {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_previous(b.size() + 1);
  std::vector<std::size_t> previous(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before_previous[j - 2] + 1);
      }
    }
    before_previous.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

namespace {

constexpr std::size_t kShortestPrefix = 3;
constexpr std::size_t kMostListed = 30;
constexpr std::size_t kListedOfMany = 5;

/// Longer words are compared by their beginning where all that counts is an order.
constexpr std::size_t kLongestOrdered = 256;

/// How far a word is from a name. A name that the word begins comes before all others.
std::size_t distance(std::string_view word, const std::string& name) {
  if (word.size() >= kShortestPrefix && name.compare(0, word.size(), word) == 0) return 0;
  return edit_distance(word, name);
}

}  // namespace

std::string nearest_name(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = 0;
  for (const std::string& name : known) {
    // A distance is at least the difference of the lengths: such a word is never near enough.
    if (word.size() > 2 * name.size()) continue;
    const std::size_t found = distance(word, name);
    if (found > std::max(word.size(), name.size()) / 2) continue;
    if (best.empty() || found < best_distance) {
      best = name;
      best_distance = found;
    }
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  std::string text;
  const std::string nearest = nearest_name(word, known);
  if (!nearest.empty()) text = "; the nearest is \"" + nearest + "\"";
  std::vector<std::string> listed = known;
  const std::string_view start = word.substr(0, kLongestOrdered);
  text += " (there are";
  if (known.size() > kMostListed) {
    std::stable_sort(listed.begin(), listed.end(), [&](const auto& a, const auto& b) {
      return distance(start, a) < distance(start, b);
    });
    listed.resize(kListedOfMany);
    text += " " + std::to_string(known.size()) + ", such as ";
  } else {
    text += ": ";
  }
  for (std::size_t i = 0; i < listed.size(); ++i) text += (i > 0 ? ", " : "") + listed[i];
  return text + ")";
}

}  // namespace tpu::config
