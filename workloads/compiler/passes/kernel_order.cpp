#include "workloads/compiler/passes/kernel_order.h"

#include <numeric>
#include <utility>

#include "sim/base/error.h"

namespace tpu::compiler {

KernelOrder::KernelOrder(std::size_t count, Readers readers)
    : readers_(std::move(readers)), place_(count), kernel_(count), seen_(count, 0) {
  std::iota(place_.begin(), place_.end(), 0);
  std::iota(kernel_.begin(), kernel_.end(), 0);
}

/// False if this search has seen the kernel.
bool KernelOrder::visit(std::size_t kernel) const {
  return std::exchange(seen_[kernel], search_) != search_;
}

bool KernelOrder::search(std::size_t from, std::size_t to) const {
  ++search_;
  std::vector<std::size_t> work{from}, readers;
  while (!work.empty()) {
    const std::size_t kernel = work.back();
    work.pop_back();
    readers.clear();
    readers_(kernel, readers);
    for (std::size_t reader : readers) {
      if (reader == to && kernel != from) return true;
      if (place_[reader] < place_[to] && visit(reader)) work.push_back(reader);
    }
  }
  return false;
}

bool KernelOrder::has_path_around(std::size_t from, std::size_t to) const {
  return place_[from] < place_[to] && search(from, to);
}

void KernelOrder::merge(std::size_t a, std::size_t b) {
  if (place_[a] > place_[b]) std::swap(a, b);
  const std::size_t first = place_[a], last = place_[b];
  TPU_CHECK(!search(a, b), "a path leads around kernels " << a << " and " << b);
  // What does not depend on the earlier kernel, both kernels, what depends on it.
  std::vector<std::size_t> before, behind;
  for (std::size_t place = first + 1; place < last; ++place) {
    const std::size_t kernel = kernel_[place];
    (seen_[kernel] == search_ ? behind : before).push_back(kernel);
  }
  before.push_back(a);
  before.push_back(b);
  before.insert(before.end(), behind.begin(), behind.end());
  for (std::size_t i = 0; i < before.size(); ++i) {
    kernel_[first + i] = before[i];
    place_[before[i]] = first + i;
  }
}

}  // namespace tpu::compiler
