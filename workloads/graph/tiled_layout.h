#pragma once

#include <cstdint>
#include <vector>

#include "workloads/graph/shape.h"

namespace tpu::hlo {

/// Where each element of an array lies in a tiled layout.
///
/// XLA's rule: the dimensions stand in physical order, major to minor; each tile in turn pads the
/// minor dimensions that it covers to multiples of its own, splits them into (tiles, within the
/// tile) and moves the parts within the tile to the end. Every physical dimension then depends on
/// one dimension of the array, so the offset of an element is a sum of one term per dimension.
class TiledLayout {
 public:
  /// One dimension's term: offset(x) = (x / period) * stride + within[x % period].
  struct Term {
    std::int64_t period = 1;
    std::int64_t stride = 0;
    std::vector<std::int64_t> within;

    std::int64_t offset(std::int64_t x) const {
      return x / period * stride + within[static_cast<std::size_t>(x % period)];
    }
  };

  /// An array shape; without minor_to_major the layout is row-major.
  explicit TiledLayout(const Shape& shape);

  /// Elements with the padding of the tiles.
  std::int64_t padded_elements() const { return padded_elements_; }
  /// A term per dimension of the array.
  const std::vector<Term>& terms() const { return terms_; }
  /// Dimension whose neighbours are closest in memory; -1 for a scalar.
  std::int64_t minor_dimension() const { return minor_dimension_; }

 private:
  std::int64_t padded_elements_ = 1;
  std::int64_t minor_dimension_ = -1;
  std::vector<Term> terms_;
};

}  // namespace tpu::hlo
