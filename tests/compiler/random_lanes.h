#pragma once

#include <algorithm>

#include "tests/compiler/random_elementwise.h"
#include "tests/compiler/random_material.h"

namespace tpu::test {

/// An array of two dimensions or more with a few lanes of a tile, mostly one that there is.
inline Tensor narrow_array(RandomMaterial& m) {
  for (int attempt = 0; attempt < 6; ++attempt) {
    const Tensor x = m.any();
    const Extents extents = m.extents_of(x);
    if (extents.size() >= 2 && extents.back() <= 128 && m.graph.type(x) != ElementType::kPred) {
      return x;
    }
  }
  Extents extents = m.random_extents();
  extents.resize(2 + m.below(2), 8);
  extents.back() = m.between(1, 128);
  while (elements(extents) > kMostElements) {
    *std::max_element(extents.begin(), extents.end() - 1) = m.between(1, 8);
  }
  return m.keep(m.parameter(m.random_type(), extents));
}

inline Tensor lanes_of(RandomMaterial& m, Tensor x) {
  const Extents extents = m.extents_of(x);
  Extents starts(extents.size(), 0), limits = extents;
  starts.back() = m.one_in(4) ? 0 : m.between(0, extents.back() - 1);
  limits.back() = m.between(starts.back() + 1, extents.back());
  return m.graph.slice(x, starts, limits);
}

inline Tensor padded_lanes(RandomMaterial& m, Tensor x) {
  const Extents extents = m.extents_of(x);
  std::vector<hlo::PaddingDimension> padding(extents.size());
  const std::int64_t room = 128 - extents.back();
  padding.back().low = m.one_in(3) ? 0 : m.between(0, room);
  padding.back().high = m.between(0, room - padding.back().low);
  return m.graph.pad(x, padding, 0.25);
}

/// Values of the same rows, one behind the other.
inline Tensor joined_lanes(RandomMaterial& m, Tensor x) {
  std::vector<Tensor> parts{x};
  std::int64_t room = 128 - m.extents_of(x).back();
  while (room > 0 && parts.size() < 5 && !(parts.size() > 1 && m.one_in(2))) {
    Extents extents = m.extents_of(x);
    extents.back() = std::min(room, m.one_in(2) ? extents.back() : m.between(1, 40));
    parts.insert(m.one_in(2) ? parts.begin() : parts.end(), m.partner(extents, m.graph.type(x)));
    room -= extents.back();
  }
  return m.graph.concatenate(parts, static_cast<std::int64_t>(m.extents_of(x).size()) - 1);
}

/// A slice, pad or concatenation along the lanes of a single tile.
inline void add_lane_move(RandomMaterial& m) {
  const Tensor x = narrow_array(m);
  switch (m.below(4)) {
    case 0:
      m.keep(lanes_of(m, x));
      break;
    case 1:
      m.keep(padded_lanes(m, x));
      break;
    default:
      m.keep(joined_lanes(m, x));
      break;
  }
}

}  // namespace tpu::test
