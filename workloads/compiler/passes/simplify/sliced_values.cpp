#include "workloads/compiler/passes/simplify/sliced_values.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// Of the array, a slice that takes more is left: what it computes again is no small part.
constexpr std::int64_t kSmallPart = 4;
/// Operations that a slice computes again.
constexpr std::size_t kMostComputedAgain = 64;

class SlicedValues {
 public:
  explicit SlicedValues(hlo::Module& module) : entry_(module.entry_computation()), edit_(module) {}

  void run() {
    const std::size_t count = entry_.instructions.size();
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<Id>(i));
    if (entry_.instructions.size() > count) tidy(entry_);
  }

 private:
  const HloInstruction& at(Id id) const { return entry_.at(id); }
  bool is_of_stored_arrays(Id id, std::map<Id, bool>& known) const;
  Id part_of(Id id);
  Id part_of_broadcast(const HloInstruction& spread);
  Id slice_of(Id array, const Extents& places);
  void visit(Id id);

  Computation& entry_;
  GraphEditor edit_;
  HloInstruction slice_;      ///< The one at hand.
  std::map<Id, Id> part_of_;  ///< What has been made for it.
};

/// Whether it is stored, or spread, or computed of such.
bool SlicedValues::is_of_stored_arrays(Id id, std::map<Id, bool>& known) const {
  const auto [found, is_new] = known.try_emplace(id, false);
  if (!is_new) return found->second;
  const HloInstruction& value = at(id);
  if (value.shape.is_tuple() || known.size() > kMostComputedAgain) return false;
  if (value.shape.rank() == 0) return known[id] = true;
  if (value.shape.dimensions != at(slice_.operands[0]).shape.dimensions) return false;
  bool is_stored = value.opcode == HloOpcode::kParameter || value.opcode == HloOpcode::kBroadcast ||
                   value.opcode == HloOpcode::kGetTupleElement;
  if (!is_stored && hlo::is_elementwise(value.opcode) && !value.operands.empty()) {
    is_stored = std::all_of(value.operands.begin(), value.operands.end(),
                            [&](Id operand) { return is_of_stored_arrays(operand, known); });
  }
  return known[id] = is_stored;
}

/// The slice of an array whose dimension i is `places[i]` of the one that is sliced.
Id SlicedValues::slice_of(Id array, const Extents& places) {
  const Extents extents = edit_.dimensions(array);
  Extents part;
  for (const std::int64_t d : places) {
    part.push_back(slice_.shape.dimensions[static_cast<std::size_t>(d)]);
  }
  if (part == extents) return array;
  HloInstruction made =
      edit_.start(slice_.opcode, {array}, hlo::array_shape(edit_.shape(array).type, part));
  if (slice_.opcode == HloOpcode::kDynamicSlice) {
    for (const std::int64_t d : places) {
      made.operands.push_back(slice_.operands[static_cast<std::size_t>(d) + 1]);
    }
    made.dynamic_slice_sizes = part;
    return edit_.append_instruction(std::move(made));
  }
  hlo::SliceBounds of;
  for (const std::int64_t d : places) {
    const auto place = static_cast<std::size_t>(d);
    of.starts.push_back(slice_.slice->starts[place]);
    of.limits.push_back(slice_.slice->limits[place]);
    of.strides.push_back(slice_.slice->strides[place]);
  }
  made.slice = std::move(of);
  return edit_.append_instruction(std::move(made));
}

Id SlicedValues::part_of_broadcast(const HloInstruction& spread) {
  Id source = spread.operands[0];
  if (!spread.dimensions.empty()) source = slice_of(source, spread.dimensions);
  return edit_.broadcast(source, slice_.shape.dimensions, spread.dimensions);
}

Id SlicedValues::part_of(Id id) {
  const HloInstruction value = at(id);
  if (value.shape.rank() == 0) return id;
  const auto [found, is_new] = part_of_.try_emplace(id, -1);
  if (!is_new) return found->second;
  Id part = -1;
  if (value.opcode == HloOpcode::kBroadcast) {
    part = part_of_broadcast(value);
  } else if (hlo::is_elementwise(value.opcode) && !value.operands.empty()) {
    std::vector<Id> operands;
    for (const Id operand : value.operands) operands.push_back(part_of(operand));
    part = edit_.apply_again(value, operands, slice_.shape.dimensions);
  } else {
    Extents places(value.shape.dimensions.size());
    std::iota(places.begin(), places.end(), std::int64_t{0});
    part = slice_of(id, places);
  }
  return part_of_[id] = part;
}

void SlicedValues::visit(Id id) {
  slice_ = at(id);
  if (slice_.opcode != HloOpcode::kSlice && slice_.opcode != HloOpcode::kDynamicSlice) return;
  const HloInstruction& whole = at(slice_.operands[0]);
  std::map<Id, bool> known;
  if (!hlo::is_elementwise(whole.opcode) || whole.operands.empty() || whole.shape.rank() == 0 ||
      kSmallPart * slice_.shape.element_count() > whole.shape.element_count() ||
      !is_of_stored_arrays(whole.id, known)) {
    return;
  }
  part_of_.clear();
  edit_.stand_for(id);
  edit_.finish(part_of(slice_.operands[0]));
}

}  // namespace

void compute_sliced_values(hlo::Module& module) { SlicedValues(module).run(); }

}  // namespace tpu::compiler
