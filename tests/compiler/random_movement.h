#pragma once

#include <algorithm>
#include <numeric>

#include "tests/compiler/random_elementwise.h"
#include "tests/compiler/random_material.h"

namespace tpu::test {

inline Extents refactored(RandomMaterial& m, std::int64_t count) {
  Extents factors;
  for (std::int64_t prime : {2, 2, 2, 3, 5, 7, 2, 2, 3, 5, 2, 3, 2, 2, 2}) {
    if (count % prime != 0) continue;
    factors.push_back(prime);
    count /= prime;
  }
  factors.push_back(count);
  std::shuffle(factors.begin(), factors.end(), m.engine);
  Extents extents(1 + m.below(4), 1);
  for (std::int64_t factor : factors) extents[m.below(extents.size())] *= factor;
  return extents;
}

inline Tensor transposed(RandomMaterial& m, Tensor x) {
  Extents order(m.extents_of(x).size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), m.engine);
  return m.graph.transpose(x, order);
}

inline Tensor sliced(RandomMaterial& m, Tensor x) {
  Extents starts, limits, strides;
  for (std::int64_t extent : m.extents_of(x)) {
    starts.push_back(m.one_in(2) ? 0 : m.between(0, extent - 1));
    limits.push_back(m.one_in(2) ? extent : m.between(starts.back() + 1, extent));
    strides.push_back(m.one_in(6) ? 2 : 1);
  }
  return m.graph.slice(x, starts, limits, strides);
}

inline Tensor padded(RandomMaterial& m, Tensor x) {
  std::vector<hlo::PaddingDimension> padding;
  for (std::int64_t extent : m.extents_of(x)) {
    hlo::PaddingDimension each;
    if (m.one_in(2)) each.low = m.between(0, 3);
    if (m.one_in(2)) each.high = m.between(0, 3);
    if (m.one_in(8) && extent < 32) each.interior = 1;
    padding.push_back(each);
  }
  return m.graph.pad(x, padding, 0);
}

inline Tensor joined(RandomMaterial& m, Tensor x) {
  const Extents extents = m.extents_of(x);
  const std::size_t dimension = m.below(extents.size());
  Extents other = extents;
  other[dimension] = m.between(1, 9);
  const Tensor y = m.one_in(2) ? x : m.partner(other, m.graph.type(x));
  return m.graph.concatenate({x, y}, static_cast<std::int64_t>(dimension));
}

inline void add_movement(RandomMaterial& m) {
  const Tensor x = m.any();
  const Extents extents = m.extents_of(x);
  if (extents.empty() || m.graph.type(x) == ElementType::kPred) return add_elementwise(m);
  switch (m.below(6)) {
    case 0:
      m.keep(m.graph.reshape(x, refactored(m, elements(extents))));
      break;
    case 1:
      m.keep(transposed(m, x));
      break;
    case 2:
      m.keep(sliced(m, x));
      break;
    case 3:
      if (elements(extents) <= kMostElements / 4) m.keep(padded(m, x));
      break;
    case 4:
      m.keep(m.graph.reverse(x, {static_cast<std::int64_t>(m.below(extents.size()))}));
      break;
    default:
      if (elements(extents) <= kMostElements / 2) m.keep(joined(m, x));
  }
}

}  // namespace tpu::test
