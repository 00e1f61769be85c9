#include "workloads/compiler/passes/expand/wide_reductions.h"

#include <algorithm>

#include "sim/base/contains.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;
using Arrays = std::vector<Id>;

class WideReduction {
 public:
  WideReduction(GraphEditor& edit, const HloInstruction& given)
      : edit_(edit),
        given_(given),
        values_(given.operands.begin(),
                given.operands.begin() + static_cast<std::ptrdiff_t>(given.operands.size() / 2)),
        initial_(given.operands.begin() + static_cast<std::ptrdiff_t>(given.operands.size() / 2),
                 given.operands.end()) {}

  void run() {
    given_.opcode == HloOpcode::kReduce ? reduce() : slide();
    given_.shape.is_tuple() ? edit_.finish_tuple(values_) : edit_.finish(values_.at(0));
  }

 private:
  Arrays combined(const Arrays& first, const Arrays& second) {
    Arrays both = first;
    both.insert(both.end(), second.begin(), second.end());
    return edit_.apply(given_.called.at(0), both);
  }
  /// Elements of all arrays along a dimension.
  Arrays taken(const Arrays& from, std::int64_t dimension, std::int64_t begin, std::int64_t count,
               std::int64_t step = 1) {
    Arrays parts;
    for (const Id array : from) {
      Extents limits = edit_.dimensions(array), starts(limits.size(), 0), steps(limits.size(), 1);
      const auto d = static_cast<std::size_t>(dimension);
      starts[d] = begin;
      limits[d] = begin + (count - 1) * step + 1;
      steps[d] = step;
      parts.push_back(edit_.slice(array, starts, limits, steps));
    }
    return parts;
  }
  void reduce();
  void slide();
  void slide_along(std::int64_t dimension, const hlo::WindowDimension& window);

  GraphEditor& edit_;
  const HloInstruction given_;
  Arrays values_;
  const Arrays initial_;
};

void WideReduction::reduce() {
  const Extents extents = edit_.dimensions(values_[0]);
  Extents order = given_.dimensions, rest;
  std::int64_t count = 1;
  for (const std::int64_t d : given_.dimensions) count *= extents[static_cast<std::size_t>(d)];
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(extents.size()); ++d) {
    if (contains(given_.dimensions, d)) continue;
    order.push_back(d);
    rest.push_back(extents[static_cast<std::size_t>(d)]);
  }
  Extents rows = rest;
  rows.insert(rows.begin(), count);
  for (Id& value : values_) value = edit_.reshape(edit_.transpose(value, order), rows);
  while (count > 1) {
    const std::int64_t half = count / 2;
    Arrays left = combined(taken(values_, 0, 0, half), taken(values_, 0, half, half));
    if (count % 2 != 0) {
      const Arrays last = taken(values_, 0, count - 1, 1);
      for (std::size_t i = 0; i < left.size(); ++i) {
        left[i] = edit_.concatenate({left[i], last[i]}, 0);
      }
    }
    values_ = left;
    count = half + count % 2;
  }
  Arrays begin;
  for (const Id value : initial_) begin.push_back(edit_.broadcast(value, rest, {}));
  for (Id& value : values_) value = edit_.reshape(value, rest);
  values_ = combined(begin, values_);
}

void WideReduction::slide() {
  for (std::size_t d = 0; d < given_.window.size(); ++d) {
    slide_along(static_cast<std::int64_t>(d), given_.window[d]);
  }
}

/// Windows of 1, 2, 4, ... elements, of which those that a window is made of follow each other.
void WideReduction::slide_along(std::int64_t dimension, const hlo::WindowDimension& window) {
  const auto d = static_cast<std::size_t>(dimension);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    std::vector<hlo::PaddingDimension> padding(edit_.dimensions(values_[i]).size());
    padding[d] = {window.padding_low, window.padding_high, window.base_dilation - 1};
    values_[i] = edit_.pad(values_[i], initial_[i], padding);
  }
  const std::int64_t apart = window.window_dilation;
  const std::int64_t length = edit_.dimensions(values_[0])[d];
  const std::int64_t places = length - (window.size - 1) * apart;
  Arrays made, power = values_;  // Windows of `size` elements that begin at each place.
  std::int64_t covered = 0;
  for (std::int64_t size = 1; size <= window.size; size *= 2) {
    if ((window.size & size) != 0) {
      const Arrays next = taken(power, dimension, covered * apart, places);
      made = made.empty() ? next : combined(made, next);
      covered += size;
    }
    if (2 * size > window.size) break;
    const std::int64_t count = edit_.dimensions(power[0])[d] - size * apart;
    power =
        combined(taken(power, dimension, 0, count), taken(power, dimension, size * apart, count));
  }
  values_ = taken(made, dimension, 0, (places - 1) / window.stride + 1, window.stride);
}

bool is_wide_reduction(const hlo::Module& module, const hlo::Computation& code,
                       const HloInstruction& given) {
  const bool is_window = given.opcode == HloOpcode::kReduceWindow;
  if (!is_window && given.opcode != HloOpcode::kReduce) return false;
  const auto is_alike = [](const hlo::WindowDimension& window) { return !window.reversal; };
  if (!std::all_of(given.window.begin(), given.window.end(), is_alike)) return false;
  bool is_wide = false;
  for (const Id operand : given.operands) {
    const hlo::Shape& shape = code.at(operand).shape;
    if (shape.element_count() == 0) return false;
    is_wide = is_wide || shape.type == ElementType::kU64;
    is_wide =
        is_wide || (shape.type == ElementType::kC64 &&
                    combining_operation(module.computation(given.called.at(0))) != HloOpcode::kAdd);
  }
  return is_wide;
}

}  // namespace

void expand_wide_reductions(hlo::Module& module) {
  const auto takes = [&](const hlo::Computation& code, const HloInstruction& instruction) {
    return is_wide_reduction(module, code, instruction);
  };
  rewrite_everywhere(module, takes, [](GraphEditor& edit, const HloInstruction& given) {
    WideReduction(edit, given).run();
  });
}

}  // namespace tpu::compiler
