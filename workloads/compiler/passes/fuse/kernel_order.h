#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace tpu::compiler {

/// An order of kernels in which each stands behind those whose results it reads, kept while kernels
/// are merged: what can lie on a path between two of them stands between them in the order.
class KernelOrder {
 public:
  using Sources = std::function<void(std::size_t kernel, std::vector<std::size_t>& sources)>;

  /// Kernels 0 ... count - 1 are in order. `sources` appends those whose results a kernel reads
  /// now.
  KernelOrder(std::size_t count, Sources sources);

  /// True when a result of `from` reaches `to` through a third kernel. Questions about one `to` in
  /// a row share their work.
  bool has_path_around(std::size_t from, std::size_t to);

  /// Two kernels without a path around between them are about to become one: gives both names the
  /// place of the later one, and moves what needs the earlier one behind it.
  void merge(std::size_t a, std::size_t b);

 private:
  const std::vector<std::size_t>& sources_of(std::size_t kernel);

  /// How a kernel reaches the end of a search, if it is the present one.
  struct Reach {
    enum Kind : unsigned char { kDirect, kAround };
    std::size_t search = 0;
    Kind kind = kDirect;
  };

  Sources sources_;
  std::vector<std::size_t> place_;   ///< Of each kernel.
  std::vector<std::size_t> kernel_;  ///< At each place.
  std::vector<std::size_t> list_;
  bool is_searching_ = false;
  std::size_t end_ = 0;       ///< The `to` of the present search,
  std::size_t searched_ = 0;  ///< which has seen what stands at this place or behind.
  std::size_t search_ = 0;    ///< Its number.
  std::vector<Reach> reach_;
};

}  // namespace tpu::compiler
