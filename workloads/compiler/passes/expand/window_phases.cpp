#include "workloads/compiler/passes/expand/window_phases.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/passes/expand/convolution_arrays.h"

namespace tpu::compiler {

WindowPhases::WindowPhases(GraphEditor& edit, std::vector<hlo::WindowDimension> window,
                           Extents image, Extents windows)
    : edit_(edit),
      window_(std::move(window)),
      image_(std::move(image)),
      windows_(std::move(windows)) {
  Extents last;
  for (const hlo::WindowDimension& w : window_) last.push_back(w.size - 1);
  for (std::size_t d = 0; d < window_.size(); ++d) {
    counts_.push_back(image_[d]);
    if (window_[d].stride == 1) continue;
    // Behind the last window's last element they have nothing to give.
    counts_[d] =
        std::min(ceil_divide(image_[d], window_[d].stride), place(d, last).pixel + windows_[d]);
    strided_.push_back(static_cast<std::int64_t>(d));
  }
}

WindowPhases::Place WindowPhases::place(std::size_t d, const Extents& at) const {
  const hlo::WindowDimension& w = window_[d];
  const std::int64_t offset = at[d] * w.window_dilation - w.padding_low;
  const std::int64_t phase = ((offset % w.stride) + w.stride) % w.stride;
  return {(offset - phase) / w.stride, phase};
}

/// Each dimension, those with strides as the pixels of a phase and the phases.
GraphEditor::Extents WindowPhases::split_extents() const {
  Extents extents;
  for (std::size_t d = 0; d < window_.size(); ++d) {
    extents.push_back(counts_[d]);
    if (window_[d].stride > 1) extents.push_back(window_[d].stride);
  }
  return extents;
}

/// Of these the phases first.
GraphEditor::Extents WindowPhases::split_order() const {
  Extents phases, pixels;
  std::int64_t next = 0;
  for (const hlo::WindowDimension& w : window_) {
    pixels.push_back(next++);
    if (w.stride > 1) phases.push_back(next++);
  }
  phases.insert(phases.end(), pixels.begin(), pixels.end());
  return phases;
}

GraphEditor::Id WindowPhases::split(Id image, double fill) {
  if (strided_.empty()) return image;
  for (const std::int64_t d : strided_) {
    const auto along = static_cast<std::size_t>(d);
    image = edit_.take(image, d, 0, counts_[along] * window_[along].stride, 1, fill);
  }
  return edit_.transpose(edit_.reshape(image, split_extents()), split_order());
}

GraphEditor::Id WindowPhases::position(Id phases, const Extents& at, double fill) {
  Extents starts, limits;
  for (const std::int64_t d : strided_) {
    const Place first = place(static_cast<std::size_t>(d), at);
    starts.push_back(first.phase);
    limits.push_back(first.phase + 1);
  }
  Id value = phases;
  if (!strided_.empty()) {
    starts.resize(strided_.size() + counts_.size(), 0);
    limits.insert(limits.end(), counts_.begin(), counts_.end());
    value = edit_.reshape(edit_.slice(phases, starts, limits), counts_);
  }
  for (std::size_t d = 0; d < window_.size(); ++d) {
    value =
        edit_.take(value, static_cast<std::int64_t>(d), place(d, at).pixel, windows_[d], 1, fill);
  }
  return value;
}

void WindowPhases::add(Id value, const Extents& at) {
  Extents phase;
  for (const std::int64_t d : strided_)
    phase.push_back(place(static_cast<std::size_t>(d), at).phase);
  std::vector<hlo::PaddingDimension> padding(at.size());
  for (std::size_t d = 0; d < at.size(); ++d) {
    padding[d].low = place(d, at).pixel;
    padding[d].high = counts_[d] - windows_[d] - padding[d].low;
    // All windows have it outside of the image.
    if (padding[d].low >= counts_[d] || padding[d].low + windows_[d] <= 0) return;
  }
  const Id part = edit_.pad(value, padding);
  const auto [found, is_new] = sums_.emplace(std::move(phase), part);
  if (!is_new) found->second = edit_.binary(hlo::HloOpcode::kAdd, found->second, part);
}

GraphEditor::Id WindowPhases::sums(hlo::ElementType type) {
  if (sums_.empty()) return edit_.splat(type, image_, 0);
  if (strided_.empty()) return sums_.begin()->second;
  Extents one = counts_, all, phase(strided_.size(), 0);
  one.insert(one.begin(), 1);
  for (const std::int64_t d : strided_) all.push_back(window_[static_cast<std::size_t>(d)].stride);
  const std::int64_t count =
      std::accumulate(all.begin(), all.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<Id> parts;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    for (std::size_t s = all.size(); s-- > 0; rest /= all[s]) phase[s] = rest % all[s];
    const auto sum = sums_.find(phase);
    parts.push_back(sum == sums_.end() ? edit_.splat(type, one, 0)
                                       : edit_.reshape(sum->second, one));
  }
  all.insert(all.end(), counts_.begin(), counts_.end());
  Id value = edit_.reshape(edit_.concatenate(parts, 0), all);
  value = edit_.transpose(value, inverse(split_order()));
  Extents joined = counts_;
  for (std::size_t d = 0; d < joined.size(); ++d) joined[d] *= window_[d].stride;
  value = edit_.reshape(value, joined);
  for (const std::int64_t d : strided_) {
    value = edit_.take(value, d, 0, image_[static_cast<std::size_t>(d)], 1);
  }
  return value;
}

}  // namespace tpu::compiler
