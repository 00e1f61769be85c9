#pragma once

#include <algorithm>
#include <iterator>

namespace tpu {

/// Whether one of a list's elements equals `value`.
template <typename List, typename Value>
bool contains(const List& list, const Value& value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

}  // namespace tpu
