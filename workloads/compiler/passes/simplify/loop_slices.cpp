#include "workloads/compiler/passes/simplify/loop_slices.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/control_flow.h"
#include "workloads/compiler/passes/expand/scalar_samples.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

/// An index is computed for every iteration; longer loops keep theirs.
constexpr std::uint64_t kMostIterations = 65536;

/// A number that grows by the same amount each iteration.
struct Line {
  std::int64_t first = 0, step = 0;
};

class LoopSlices {
 public:
  LoopSlices(Computation& entry, const hlo::LoopCounter& counter)
      : entry_(entry), counter_(counter), users_(users_of(entry)) {}

  void run() {
    std::vector<InstructionId> placed;
    for (HloInstruction& instruction : entry_.instructions) {
      if (visit(instruction)) placed.push_back(instruction.id);
    }
    for (const InstructionId id : placed) {
      const bool updates = entry_.at(id).opcode == HloOpcode::kDynamicUpdateSlice;
      if (!updates && !only_kernels_read(id)) copy_for_readers(id);
    }
    if (!placed.empty()) tidy(entry_);
  }

 private:
  bool visit(HloInstruction& instruction) const;
  std::optional<Computation> scalars_behind(InstructionId value) const;
  std::optional<Line> line_of(InstructionId value, std::int64_t last) const;
  bool is_range_of_tiles(const Shape& array, const Shape& slice) const;
  bool only_kernels_read(InstructionId value) const;
  bool nothing_changes(InstructionId array) const;
  void copy_for_readers(InstructionId slice);

  Computation& entry_;
  const hlo::LoopCounter& counter_;
  std::vector<std::vector<InstructionId>> users_;
};

/// The scalars that a value is computed from, with the counter as the only parameter.
std::optional<Computation> LoopSlices::scalars_behind(InstructionId value) const {
  std::vector<char> is_needed(entry_.instructions.size(), 0);
  is_needed[static_cast<std::size_t>(value)] = 1;
  for (InstructionId id = value; id >= 0; --id) {
    if (!is_needed[static_cast<std::size_t>(id)]) continue;
    const HloInstruction& instruction = entry_.at(id);
    if (instruction.shape.is_tuple() || instruction.shape.rank() != 0) return std::nullopt;
    if (instruction.opcode == HloOpcode::kParameter &&
        instruction.parameter_number != counter_.parameter_number) {
      return std::nullopt;
    }
    for (InstructionId operand : instruction.operands) {
      is_needed[static_cast<std::size_t>(operand)] = 1;
    }
  }
  Computation made;
  std::vector<InstructionId> copy(entry_.instructions.size(), -1);
  for (InstructionId id = 0; id <= value; ++id) {
    if (!is_needed[static_cast<std::size_t>(id)]) continue;
    HloInstruction clone = entry_.at(id);
    if (clone.opcode == HloOpcode::kParameter) clone.parameter_number = 0;
    for (InstructionId& operand : clone.operands) operand = copy[static_cast<std::size_t>(operand)];
    copy[static_cast<std::size_t>(id)] = append(made, std::move(clone));
  }
  made.root = copy[static_cast<std::size_t>(value)];
  return made;
}

/// The value in all iterations, where it lies in [0, last] and on a line.
std::optional<Line> LoopSlices::line_of(InstructionId value, std::int64_t last) const {
  const std::optional<Computation> scalars = scalars_behind(value);
  if (!scalars) return std::nullopt;
  Line line;
  for (std::uint64_t trip = 0; trip < counter_.trips; ++trip) {
    const std::int64_t count = counter_.first + static_cast<std::int64_t>(trip) * counter_.step;
    const auto found = run_scalars(*scalars, {static_cast<double>(count)});
    if (!found || !(found->at(0) >= 0) || found->at(0) > static_cast<double>(last)) {
      return std::nullopt;
    }
    const auto place = static_cast<std::int64_t>(found->at(0));
    if (trip == 0) line.first = place;
    if (trip == 1) line.step = place - line.first;
    if (place != line.first + static_cast<std::int64_t>(trip) * line.step) return std::nullopt;
  }
  return line;
}

/// Whether a slice takes the two minor dimensions whole and is one range of the array, in its own
/// order.
bool LoopSlices::is_range_of_tiles(const Shape& array, const Shape& slice) const {
  const DimensionOrder order = major_to_minor(array);
  return array.rank() >= 3 && array.type == slice.type && order == major_to_minor(slice) &&
         innermost_cut(array, slice, order) + 2 < array.rank() && is_one_range(array, slice, order);
}

/// Whether every reader is a kernel that is called in this body and reads an address.
bool LoopSlices::only_kernels_read(InstructionId value) const {
  if (value == entry_.root) return false;
  const std::vector<InstructionId>& readers = users_[static_cast<std::size_t>(value)];
  return std::all_of(readers.begin(), readers.end(), [&](InstructionId reader) {
    const HloInstruction& user = entry_.at(reader);
    if (user.opcode == HloOpcode::kBitcast) return only_kernels_read(reader);
    if (user.opcode == HloOpcode::kTuple || runs_region(user)) return false;
    for (std::size_t i = 0; i < user.operands.size(); ++i) {
      if (user.operands[i] == value && works_in_place(entry_, user, i)) return false;
    }
    return true;
  });
}

/// Whether the array is a parameter that only slices and kernels read, in place or not.
bool LoopSlices::nothing_changes(InstructionId array) const {
  if (entry_.at(array).opcode != HloOpcode::kParameter) return false;
  const std::vector<InstructionId>& readers = users_[static_cast<std::size_t>(array)];
  return std::all_of(readers.begin(), readers.end(), [&](InstructionId reader) {
    const HloInstruction& user = entry_.at(reader);
    return user.opcode == HloOpcode::kDynamicSlice && reader != entry_.root;
  });
}

/// What others than kernels read (an inner loop, whose state it becomes) is copied from its place.
void LoopSlices::copy_for_readers(InstructionId slice) {
  HloInstruction copy;
  copy.opcode = HloOpcode::kCopy;
  copy.name = entry_.at(slice).name + ".from_place";
  copy.shape = entry_.at(slice).shape;
  copy.operands = {slice};
  copy.metadata = entry_.at(slice).metadata;
  const InstructionId made = append(entry_, std::move(copy));
  for (const InstructionId reader : users_[static_cast<std::size_t>(slice)]) {
    std::vector<InstructionId>& operands = entry_.at(reader).operands;
    std::replace(operands.begin(), operands.end(), slice, made);
  }
}

bool LoopSlices::visit(HloInstruction& instruction) const {
  const bool updates = instruction.opcode == HloOpcode::kDynamicUpdateSlice;
  if (!updates && instruction.opcode != HloOpcode::kDynamicSlice) return false;
  const Shape& array = entry_.at(instruction.operands[0]).shape;
  const Shape& slice = updates ? entry_.at(instruction.operands[1]).shape : instruction.shape;
  if (!is_range_of_tiles(array, slice)) return false;
  if (!updates && (!nothing_changes(instruction.operands[0]) || instruction.id == entry_.root)) {
    return false;
  }
  const std::size_t values = updates ? 2 : 1;
  std::vector<std::int64_t> starts, steps;
  for (std::size_t d = 0; d < array.dimensions.size(); ++d) {
    const std::int64_t last = array.dimensions[d] - slice.dimensions[d];
    std::optional<Line> line = Line{};
    if (last > 0) line = line_of(instruction.operands.at(values + d), last);
    if (!line) return false;
    starts.push_back(line->first);
    steps.push_back(line->step);
  }
  instruction.operands.resize(values);
  instruction.slice = hlo::SliceBounds{std::move(starts), array.dimensions, std::move(steps)};
  return true;
}

/// A counter that only the next count is made of stays what it is: the trips are known.
void stop_counting(ScheduledModule& scheduled) {
  Computation& entry = scheduled.module.entry_computation();
  const auto place = static_cast<std::size_t>(scheduled.counter->parameter_number);
  const InstructionId counter = entry.parameters().at(place);
  const InstructionId next = entry.at(entry.root).operands.at(place);
  const std::vector<std::vector<InstructionId>> users = users_of(entry);
  const auto all_are = [&](InstructionId value, InstructionId user) {
    const std::vector<InstructionId>& found = users[static_cast<std::size_t>(value)];
    return std::all_of(found.begin(), found.end(), [user](InstructionId id) { return id == user; });
  };
  if (next == counter || !all_are(counter, next) || !all_are(next, entry.root)) return;
  entry.at(entry.root).operands[place] = counter;
  tidy(entry);
}

}  // namespace

void place_slices_by_iteration(ScheduledModule& scheduled) {
  if (!scheduled.counter || scheduled.counter->trips > kMostIterations) return;
  LoopSlices(scheduled.module.entry_computation(), *scheduled.counter).run();
  if (!scheduled.counter_is_read) stop_counting(scheduled);
}

}  // namespace tpu::compiler
