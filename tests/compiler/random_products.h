#pragma once

#include <algorithm>

#include "tests/compiler/random_material.h"

namespace tpu::test {

inline void add_dot(RandomMaterial& m) {
  Tensor x = m.any_number();
  if (m.extents_of(x).size() < 2)
    x = m.parameter(m.floating_type(), {m.random_extent(), m.between(1, 140)});
  const Extents extents = m.extents_of(x);
  hlo::DotDimensions dimensions;
  Extents other, result;
  const std::size_t contracted = extents.size() - 1 - m.below(2);
  for (std::size_t d = 0; d + 2 < extents.size(); ++d) {
    dimensions.lhs_batch.push_back(static_cast<std::int64_t>(d));
    dimensions.rhs_batch.push_back(static_cast<std::int64_t>(d));
    other.push_back(extents[d]);
    result.push_back(extents[d]);
  }
  const std::int64_t batch = elements(other);
  const std::int64_t rows =
      extents[contracted == extents.size() - 1 ? extents.size() - 2 : extents.size() - 1];
  std::int64_t columns = m.random_extent();
  while (batch * columns * std::max(rows, extents[contracted]) > kMostElements) {
    columns = (columns + 1) / 2;
    if (columns == 1) break;
  }
  const bool transposes = m.one_in(2);
  dimensions.lhs_contracting = {static_cast<std::int64_t>(contracted)};
  dimensions.rhs_contracting = {static_cast<std::int64_t>(extents.size() - (transposes ? 1 : 2))};
  other.push_back(transposes ? columns : extents[contracted]);
  other.push_back(transposes ? extents[contracted] : columns);
  const Tensor y = m.partner(other, m.graph.type(x));
  const bool swaps = m.one_in(3);
  if (swaps) {
    std::swap(dimensions.lhs_batch, dimensions.rhs_batch);
    std::swap(dimensions.lhs_contracting, dimensions.rhs_contracting);
  }
  const ElementType type = m.one_in(3) ? m.floating_type() : m.graph.type(x);
  m.keep(m.graph.dot(swaps ? y : x, swaps ? x : y, dimensions, type));
}

inline void add_convolution(RandomMaterial& m) {
  const std::int64_t groups = m.one_in(4) ? m.between(2, 4) : 1;
  const std::int64_t inputs = m.one_in(2) ? m.between(1, 9) : m.between(1, 3) * 40;
  const std::int64_t outputs = m.one_in(2) ? m.between(1, 9) : m.between(1, 3) * 50;
  const ElementType type = m.floating_type();
  const Extents image{m.between(1, 4), m.between(1, 12), m.between(1, 12), inputs * groups};
  const Extents kernel{m.between(1, 4), m.between(1, 4), inputs, outputs * groups};
  std::vector<hlo::WindowDimension> window(2);
  for (std::size_t i = 0; i < 2; ++i) {
    window[i].size = kernel[i];
    window[i].stride = m.one_in(3) ? 2 : 1;
    window[i].padding_low = m.between(0, kernel[i] - 1);
    window[i].padding_high = m.between(0, kernel[i]);
    if (m.one_in(6)) window[i].base_dilation = 2;
    if (m.one_in(8)) window[i].window_dilation = 2;
    if (m.one_in(8)) window[i].reversal = true;
    const std::int64_t reach = (kernel[i] - 1) * window[i].window_dilation + 1;
    const std::int64_t base = (image[i + 1] - 1) * window[i].base_dilation + 1;
    const std::int64_t missing = reach - (base + window[i].padding_low + window[i].padding_high);
    if (missing > 0) window[i].padding_high += missing;
  }
  const Tensor x = m.partner(image, type);
  m.keep(
      m.graph.convolution(x, m.partner(kernel, type), frontend::nhwc_dimensions(), window, groups));
}

inline void add_window(RandomMaterial& m) {
  const Extents image{m.between(1, 3), m.between(2, 12), m.between(2, 12), m.between(1, 140)};
  const Tensor x = m.partner(image, m.floating_type());
  std::vector<hlo::WindowDimension> window(4);
  for (std::size_t i = 1; i < 3; ++i) {
    window[i].size = m.between(1, std::min<std::int64_t>(3, image[i]));
    window[i].stride = m.between(1, 2);
    window[i].padding_low = m.between(0, window[i].size - 1);
    window[i].padding_high = m.between(0, window[i].size - 1);
  }
  if (m.one_in(3)) {
    m.keep(m.graph.reduce_window_sum(x, window));
    return;
  }
  const Tensor greatest = m.keep(m.graph.reduce_window_max(x, window));
  if (m.one_in(2) || m.graph.type(x) != ElementType::kF32) return;
  const Tensor source = m.partner(m.extents_of(greatest), ElementType::kF32);
  m.keep(m.graph.select_and_scatter(x, source, window));
}

}  // namespace tpu::test
