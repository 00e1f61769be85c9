#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace tpu::compiler {

/// An order of kernels in which each stands before those that read its results, kept while kernels
/// are merged: what can lie on a path between two of them stands between them in the order.
class KernelOrder {
 public:
  using Readers = std::function<void(std::size_t kernel, std::vector<std::size_t>& readers)>;

  /// Kernels 0 ... count - 1 are in order. `readers` appends those that read a kernel's results
  /// now.
  KernelOrder(std::size_t count, Readers readers);

  /// True when a result of `from` reaches `to` through a third kernel.
  bool has_path_around(std::size_t from, std::size_t to) const;

  /// Two kernels without a path around between them are about to become one: gives both names the
  /// place of the later one, and moves what reads the earlier one behind it.
  void merge(std::size_t a, std::size_t b);

 private:
  bool visit(std::size_t kernel) const;
  /// Sees what `from` reaches that stands before `to`. Stops with true where `to` reads a result of
  /// a third kernel.
  bool search(std::size_t from, std::size_t to) const;

  Readers readers_;
  std::vector<std::size_t> place_;         ///< Of each kernel.
  std::vector<std::size_t> kernel_;        ///< At each place.
  mutable std::vector<std::size_t> seen_;  ///< Number of the last search that saw the kernel.
  mutable std::size_t search_ = 0;
};

}  // namespace tpu::compiler
