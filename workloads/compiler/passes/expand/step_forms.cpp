#include "workloads/compiler/passes/expand/step_forms.h"

#include <algorithm>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/tile_parts.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// The dimensions that a slice or pad steps through other than one by one, or along which a vector
/// is reversed.
std::vector<std::int64_t> stepped_dimensions(const HloInstruction& instruction) {
  std::vector<std::int64_t> stepped;
  const std::vector<std::int64_t>& extents = instruction.shape.dimensions;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const auto number = static_cast<std::int64_t>(d);
    bool steps = false;
    if (instruction.opcode == HloOpcode::kSlice) {
      steps = !instruction.slice->strides.empty() && instruction.slice->strides[d] != 1 &&
              extents[d] > 1;
    } else if (instruction.opcode == HloOpcode::kPad) {
      steps = instruction.padding[d].interior != 0;
    } else if (instruction.opcode == HloOpcode::kReverse) {
      steps = extents.size() == 1 && extents[d] > 1;
    }
    if (steps) stepped.push_back(number);
  }
  return stepped;
}

/// Of rows whose lanes become parts: shorter ones stand in rows of tiles, of which loads take every
/// second one.
constexpr std::int64_t kShortestWovenRow = 256;

class Steps {
 public:
  explicit Steps(hlo::Module& module) : module_(module), edit_(module) {}

  void run() {
    const std::size_t count = module_.entry_computation().instructions.size();
    // Pads by values that are no constants make pads by such.
    for (std::size_t i = 0; i < module_.entry_computation().instructions.size(); ++i) {
      visit(static_cast<Id>(i));
    }
    if (module_.entry_computation().instructions.size() > count) tidy(module_.entry_computation());
  }

 private:
  const HloInstruction& at(Id id) const { return module_.entry_computation().at(id); }
  void visit(Id id);
  void drop_idle_steps(Id id);
  void pad_with_value(Id id);
  bool part_lanes(Id id);
  void split(Id id);
  Id reversed(Id vector);
  Id every(Id vector, std::int64_t start, std::int64_t count, std::int64_t stride);
  Id apart(Id vector, std::int64_t interior, Id filling);
  /// A vector, with zeros before or behind it, as rows.
  Id as_rows(Id vector, std::int64_t width, bool pads_low);

  hlo::Module& module_;
  GraphEditor edit_;
};

Id Steps::as_rows(Id vector, std::int64_t width, bool pads_low) {
  const std::int64_t length = edit_.dimensions(vector)[0];
  const std::int64_t rows = ceil_divide(length, width), missing = rows * width - length;
  const Id whole = edit_.pad(vector, {{pads_low ? missing : 0, pads_low ? 0 : missing, 0}});
  return edit_.reshape(whole, {rows, width});
}

Id Steps::reversed(Id vector) {
  const std::int64_t length = edit_.dimensions(vector)[0];
  const Id rows = edit_.reverse(as_rows(vector, isa::kLanes, true), {0, 1});
  const std::int64_t all = edit_.shape(rows).element_count();
  return edit_.slice(edit_.reshape(rows, {all}), {0}, {length});
}

Id Steps::every(Id vector, std::int64_t start, std::int64_t count, std::int64_t stride) {
  const std::int64_t limit = start + (count - 1) * stride + 1;
  if (stride >= isa::kLanes) {
    const Id rows = as_rows(edit_.slice(vector, {start}, {limit}), stride, false);
    return edit_.reshape(edit_.slice(rows, {0, 0}, {count, 1}), {count});
  }
  // Rows of the whole vector are the same for all that begins with one of its first elements.
  const bool takes_all = start < stride;
  const Id taken = takes_all ? vector : edit_.slice(vector, {start}, {limit});
  const Id rows = as_rows(taken, isa::kLanes * stride, false);
  const Extents extents = edit_.dimensions(rows);
  const Id picked = edit_.slice(rows, {0, takes_all ? start : 0}, extents, {1, stride});
  const Id flat = edit_.reshape(picked, {extents[0] * isa::kLanes});
  return edit_.slice(flat, {0}, {count});
}

Id Steps::apart(Id vector, std::int64_t interior, Id filling) {
  const std::int64_t length = edit_.dimensions(vector)[0];
  if (interior + 1 >= isa::kLanes) {
    const Id column = edit_.reshape(vector, {length, 1});
    const Id spread = edit_.pad(column, filling, {{0, 0, 0}, {0, interior, 0}});
    return edit_.slice(edit_.reshape(spread, {length * (interior + 1)}), {0},
                       {(length - 1) * (interior + 1) + 1});
  }
  const Id rows = as_rows(vector, isa::kLanes, false);
  const Id spread = edit_.pad(rows, filling, {{0, 0, 0}, {0, interior, interior}});
  const std::int64_t all = edit_.shape(spread).element_count();
  return edit_.slice(edit_.reshape(spread, {all}), {0}, {(length - 1) * (interior + 1) + 1});
}

/// Steps along long rows: the lanes that are taken in turns are parts along a dimension of their
/// own. Whether it is such an operation.
bool Steps::part_lanes(Id id) {
  const HloInstruction step = at(id);
  const Extents from = edit_.dimensions(step.operands[0]);
  const std::size_t lanes = from.size() - 1;
  if (from.size() < 2 || step.opcode == HloOpcode::kReverse) return false;
  const bool cuts = step.opcode == HloOpcode::kSlice;
  const std::int64_t parts = cuts ? step.slice->strides[lanes] : step.padding[lanes].interior + 1;
  const std::int64_t whole = cuts ? from[lanes] : from[lanes] * parts;
  if (parts > kMostWovenParts || whole < kShortestWovenRow || whole % parts != 0) return false;
  edit_.stand_for(id);
  Extents in_parts = from, in_turns = from;
  in_turns[lanes] = whole;
  in_parts[lanes] = whole / parts;
  in_parts.push_back(cuts ? parts : 1);
  Id value = edit_.reshape(step.operands[0], in_parts);
  if (cuts) {
    const std::int64_t start = step.slice->starts[lanes];
    const auto last = static_cast<std::int64_t>(lanes);
    value = edit_.take(value, last + 1, start % parts, 1, 1);
    value = edit_.take(value, last, start / parts, step.shape.dimensions[lanes], 1);
    in_turns[lanes] = step.shape.dimensions[lanes];
    value = edit_.reshape(value, in_turns);
    for (std::size_t d = 0; d < lanes; ++d) {
      value = edit_.take(value, static_cast<std::int64_t>(d), step.slice->starts[d],
                         step.shape.dimensions[d], step.slice->strides[d]);
    }
  } else {
    std::vector<hlo::PaddingDimension> gaps(in_parts.size()), around = step.padding;
    gaps.back().high = parts - 1;
    // Behind the last element is no gap.
    around[lanes].interior = 0;
    around[lanes].high -= parts - 1;
    value = edit_.reshape(edit_.pad(value, step.operands[1], gaps), in_turns);
    value = edit_.pad(value, step.operands[1], around);
  }
  edit_.finish(value);
  return true;
}

/// An operation that steps through all dimensions.
void Steps::split(Id id) {
  const HloInstruction step = at(id);
  edit_.stand_for(id);
  Id value = step.operands[0];
  const std::size_t rank = edit_.dimensions(value).size();
  if (step.opcode == HloOpcode::kReverse) {
    return edit_.finish(reversed(value));
  } else if (step.opcode == HloOpcode::kSlice) {
    if (rank == 1) {
      return edit_.finish(
          every(value, step.slice->starts[0], step.shape.dimensions[0], step.slice->strides[0]));
    }
    for (std::size_t d = 0; d < rank; ++d) {
      value = edit_.take(value, static_cast<std::int64_t>(d), step.slice->starts[d],
                         step.shape.dimensions[d], step.slice->strides[d]);
    }
  } else {
    const Id filling = step.operands[1];
    if (rank == 1) {
      value = apart(value, step.padding[0].interior, filling);
      return edit_.finish(
          edit_.pad(value, filling, {{step.padding[0].low, step.padding[0].high, 0}}));
    }
    for (std::size_t d = 0; d < rank; ++d) {
      std::vector<hlo::PaddingDimension> padding(rank);
      padding[d] = step.padding[d];
      value = edit_.pad(value, filling, padding);
    }
  }
  edit_.finish(value);
}

/// A single element has no neighbour to step to.
void Steps::drop_idle_steps(Id id) {
  HloInstruction& instruction = module_.entry_computation().at(id);
  if (instruction.shape.is_tuple()) return;
  if (instruction.opcode == HloOpcode::kSlice) {
    hlo::SliceBounds& bounds = instruction.slice.edit();
    for (std::size_t d = 0; d < bounds.strides.size(); ++d) {
      if (instruction.shape.dimensions[d] != 1) continue;
      bounds.strides[d] = 1;
      bounds.limits[d] = bounds.starts[d] + 1;
    }
  } else if (instruction.opcode == HloOpcode::kPad) {
    const Extents extents = edit_.dimensions(instruction.operands[0]);
    for (std::size_t d = 0; d < extents.size(); ++d) {
      if (extents[d] <= 1) instruction.padding[d].interior = 0;
    }
  }
}

/// Kernels pad with constants: any other value is chosen where there is no element.
void Steps::pad_with_value(Id id) {
  const HloInstruction pad = at(id);
  if (pad.opcode != HloOpcode::kPad || at(pad.operands[1]).opcode == HloOpcode::kConstant) return;
  edit_.stand_for(id);
  const Extents extents = pad.shape.dimensions;
  const auto is_element = edit_.pad(
      edit_.splat(hlo::ElementType::kF32, edit_.dimensions(pad.operands[0]), 1), pad.padding);
  const Id chosen = edit_.compare(is_element, edit_.splat(hlo::ElementType::kF32, extents, 0),
                                  hlo::ComparisonDirection::kNe);
  edit_.finish(edit_.select(chosen, edit_.pad(pad.operands[0], pad.padding),
                            edit_.broadcast(pad.operands[1], extents, {})));
}

void Steps::visit(Id id) {
  drop_idle_steps(id);
  pad_with_value(id);
  const HloInstruction& instruction = at(id);
  const std::vector<std::int64_t> stepped = stepped_dimensions(instruction);
  const bool is_empty = instruction.shape.is_tuple() || instruction.shape.element_count() == 0;
  if (is_empty || stepped.empty()) return;
  if (stepped.back() + 1 == instruction.shape.rank() && part_lanes(id)) return;
  if (static_cast<std::int64_t>(stepped.size()) == instruction.shape.rank()) split(id);
}

}  // namespace

void split_steps(hlo::Module& module) { Steps(module).run(); }

}  // namespace tpu::compiler
