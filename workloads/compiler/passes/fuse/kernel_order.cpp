#include "workloads/compiler/passes/fuse/kernel_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/error.h"

namespace tpu::compiler {

KernelOrder::KernelOrder(std::size_t count, Sources sources)
    : sources_(std::move(sources)), place_(count), kernel_(count), reach_(count) {
  std::iota(place_.begin(), place_.end(), 0);
  std::iota(kernel_.begin(), kernel_.end(), 0);
}

const std::vector<std::size_t>& KernelOrder::sources_of(std::size_t kernel) {
  list_.clear();
  sources_(kernel, list_);
  return list_;
}

bool KernelOrder::has_path_around(std::size_t from, std::size_t to) {
  if (place_[from] >= place_[to]) return false;
  if (!is_searching_ || end_ != to) {
    is_searching_ = true;
    end_ = to;
    ++search_;
    for (std::size_t source : sources_of(to)) reach_[source] = {search_, Reach::kDirect};
    searched_ = place_[to];
  }
  while (searched_ > place_[from] + 1) {
    const std::size_t kernel = kernel_[--searched_];
    if (reach_[kernel].search != search_) continue;
    for (std::size_t source : sources_of(kernel)) reach_[source] = {search_, Reach::kAround};
  }
  return reach_[from].search == search_ && reach_[from].kind == Reach::kAround;
}

void KernelOrder::merge(std::size_t a, std::size_t b) {
  TPU_CHECK(!has_path_around(a, b) && !has_path_around(b, a),
            "a path leads around kernels " << a << " and " << b);
  is_searching_ = false;
  if (place_[a] > place_[b]) std::swap(a, b);
  const std::size_t first = place_[a], last = place_[b];
  // What does not need the earlier kernel, both kernels, what needs it.
  std::vector<std::size_t> moved, behind;
  std::vector<bool> needs(last - first, false);
  needs[0] = true;
  for (std::size_t place = first + 1; place < last; ++place) {
    const std::size_t kernel = kernel_[place];
    const std::vector<std::size_t>& sources = sources_of(kernel);
    needs[place - first] = std::any_of(sources.begin(), sources.end(), [&](std::size_t source) {
      return place_[source] >= first && needs[place_[source] - first];
    });
    (needs[place - first] ? behind : moved).push_back(kernel);
  }
  moved.insert(moved.end(), {a, b});
  moved.insert(moved.end(), behind.begin(), behind.end());
  for (std::size_t i = 0; i < moved.size(); ++i) {
    kernel_[first + i] = moved[i];
    place_[moved[i]] = first + i;
  }
}

}  // namespace tpu::compiler
