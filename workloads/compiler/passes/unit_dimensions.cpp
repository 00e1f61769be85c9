#include "workloads/compiler/passes/unit_dimensions.h"

#include <algorithm>
#include <numeric>

#include "workloads/compiler/passes/constant_folding.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

using Dimensions = std::vector<std::int64_t>;

bool has_units(const Shape& shape) {
  return !shape.is_tuple() &&
         std::find(shape.dimensions.begin(), shape.dimensions.end(), 1) != shape.dimensions.end();
}

Dimensions long_extents(const Shape& shape) {
  Dimensions extents;
  std::copy_if(shape.dimensions.begin(), shape.dimensions.end(), std::back_inserter(extents),
               [](std::int64_t extent) { return extent != 1; });
  return extents;
}

/// Number of each dimension among those longer than 1; -1 for the others.
Dimensions numbers_of_long(const Shape& shape) {
  Dimensions numbers;
  std::int64_t next = 0;
  for (std::int64_t extent : shape.dimensions) numbers.push_back(extent == 1 ? -1 : next++);
  return numbers;
}

class UnitDimensions {
 public:
  explicit UnitDimensions(hlo::Module& module)
      : module_(module),
        entry_(module.entry_computation()),
        users_(users_of(entry_)),
        group_(entry_.instructions.size()) {}

  void run() {
    std::iota(group_.begin(), group_.end(), 0);
    find_groups();
    const std::size_t count = entry_.instructions.size();
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<InstructionId>(i));
    tidy(entry_);
  }

 private:
  HloInstruction& at(InstructionId id) { return entry_.at(id); }
  const Shape& shape(InstructionId id) { return entry_.at(id).shape; }
  InstructionId group_of(InstructionId id) {
    while (group_[static_cast<std::size_t>(id)] != id) {
      InstructionId& next = group_[static_cast<std::size_t>(id)];
      next = group_[static_cast<std::size_t>(next)];
      id = next;
    }
    return id;
  }
  /// An elementwise operation of the module as it was given, with dimensions of extent 1.
  bool is_in_group(InstructionId id) const { return is_in_group_[static_cast<std::size_t>(id)]; }
  bool gives_way(InstructionId id);
  void find_groups();
  void visit(InstructionId id);
  void visit_elementwise(InstructionId id);
  void visit_broadcast(InstructionId id);
  void visit_iota(InstructionId id);
  void visit_reduce(InstructionId id);
  bool keeps_dimensions(InstructionId id);
  InstructionId squeezed(InstructionId id);
  void becomes_reshape(InstructionId id, HloInstruction squeezed_form);

  hlo::Module& module_;
  Computation& entry_;
  std::vector<std::vector<InstructionId>> users_;
  std::vector<InstructionId> group_;  ///< Of elementwise operations: one that stands for its group.
  std::vector<bool> is_in_group_;     ///< Of the instructions that the module came with.
  std::vector<char> is_kept_;         ///< Of groups: a neighbour has the same dimensions.
};

/// True for neighbours of an elementwise operation whose dimensions are as easily others.
bool UnitDimensions::gives_way(InstructionId id) {
  switch (at(id).opcode) {
    case HloOpcode::kBroadcast:
    case HloOpcode::kReshape:
    case HloOpcode::kBitcast:
    case HloOpcode::kIota:
    case HloOpcode::kReduce:
    case HloOpcode::kConstant:
      return true;
    case HloOpcode::kTuple:
      return false;
    default:
      return shape(id).is_tuple() ? false : shape(id).rank() == 0;
  }
}

/// Elementwise operations that hand each other arrays keep or drop their dimensions together.
void UnitDimensions::find_groups() {
  for (const HloInstruction& instruction : entry_.instructions) {
    is_in_group_.push_back(hlo::is_elementwise(instruction.opcode) && has_units(instruction.shape));
  }
  for (const HloInstruction& instruction : entry_.instructions) {
    if (!is_in_group(instruction.id)) continue;
    for (InstructionId operand : instruction.operands) {
      if (is_in_group(operand) && shape(operand).dimensions == instruction.shape.dimensions) {
        group_[static_cast<std::size_t>(group_of(operand))] = group_of(instruction.id);
      }
    }
  }
  is_kept_.assign(entry_.instructions.size(), 0);
  for (const HloInstruction& instruction : entry_.instructions) {
    if (!is_in_group(instruction.id)) continue;
    char& kept = is_kept_[static_cast<std::size_t>(group_of(instruction.id))];
    const auto look = [&](InstructionId neighbour) {
      if (is_in_group(neighbour) && group_of(neighbour) == group_of(instruction.id)) return;
      if (!gives_way(neighbour)) kept = 1;
    };
    std::for_each(instruction.operands.begin(), instruction.operands.end(), look);
    const auto& users = users_[static_cast<std::size_t>(instruction.id)];
    std::for_each(users.begin(), users.end(), look);
    if (instruction.id == entry_.root) kept = 1;
  }
}

/// True for values that somebody needs with the dimensions that they have.
bool UnitDimensions::keeps_dimensions(InstructionId id) {
  if (id == entry_.root) return true;
  const auto& users = users_[static_cast<std::size_t>(id)];
  return std::any_of(users.begin(), users.end(), [&](InstructionId user) {
    return is_in_group(user) ? is_kept_[static_cast<std::size_t>(group_of(user))] != 0
                             : !gives_way(user);
  });
}

InstructionId UnitDimensions::squeezed(InstructionId id) {
  if (!has_units(shape(id))) return id;
  HloInstruction reshape;
  reshape.opcode = HloOpcode::kReshape;
  reshape.name = at(id).name + ".long." + std::to_string(entry_.instructions.size());
  reshape.operands = {id};
  reshape.shape = hlo::array_shape(shape(id).type, long_extents(shape(id)));
  reshape.metadata = at(id).metadata;
  return append(entry_, std::move(reshape));
}

/// The instruction keeps its place, name and shape and takes its value from the squeezed form.
void UnitDimensions::becomes_reshape(InstructionId id, HloInstruction squeezed_form) {
  if (squeezed_form.shape.dimensions == shape(id).dimensions) {
    squeezed_form.id = id;
    at(id) = std::move(squeezed_form);
    return;
  }
  HloInstruction reshape;
  reshape.id = id;
  reshape.opcode = HloOpcode::kReshape;
  reshape.name = at(id).name;
  reshape.metadata = at(id).metadata;
  reshape.shape = at(id).shape;
  squeezed_form.name += ".long";
  reshape.operands = {append(entry_, std::move(squeezed_form))};
  at(id) = std::move(reshape);
}

void UnitDimensions::visit_elementwise(InstructionId id) {
  if (!has_units(shape(id)) || is_kept_[static_cast<std::size_t>(group_of(id))]) return;
  HloInstruction squeezed_form = at(id);
  for (InstructionId& operand : squeezed_form.operands) operand = squeezed(operand);
  squeezed_form.shape = hlo::array_shape(shape(id).type, long_extents(shape(id)));
  becomes_reshape(id, std::move(squeezed_form));
}

void UnitDimensions::visit_broadcast(InstructionId id) {
  const InstructionId operand = at(id).operands[0];
  if (!has_units(shape(id)) && !has_units(shape(operand))) return;
  const bool keeps = keeps_dimensions(id);
  if (keeps && (!has_units(shape(operand)) || at(operand).opcode != HloOpcode::kReshape)) return;
  const Dimensions numbers = numbers_of_long(shape(id));
  HloInstruction squeezed_form = at(id);
  squeezed_form.dimensions.clear();
  for (std::size_t d = 0; d < at(id).dimensions.size(); ++d) {
    if (shape(operand).dimensions[d] == 1) continue;
    const std::int64_t to = at(id).dimensions[d];
    squeezed_form.dimensions.push_back(keeps ? to : numbers[static_cast<std::size_t>(to)]);
  }
  squeezed_form.operands = {squeezed(operand)};
  if (!keeps) squeezed_form.shape = hlo::array_shape(shape(id).type, long_extents(shape(id)));
  becomes_reshape(id, std::move(squeezed_form));
}

void UnitDimensions::visit_iota(InstructionId id) {
  if (!has_units(shape(id)) || at(id).dimensions.size() != 1 || keeps_dimensions(id)) return;
  const Dimensions numbers = numbers_of_long(shape(id));
  const std::int64_t along = numbers[static_cast<std::size_t>(at(id).dimensions[0])];
  if (along < 0) return;
  HloInstruction squeezed_form = at(id);
  squeezed_form.dimensions = {along};
  squeezed_form.shape = hlo::array_shape(shape(id).type, long_extents(shape(id)));
  becomes_reshape(id, std::move(squeezed_form));
}

void UnitDimensions::visit_reduce(InstructionId id) {
  if (at(id).shape.is_tuple() || at(id).operands.size() != 2) return;
  const InstructionId operand = at(id).operands[0];
  if (!has_units(shape(operand)) || at(operand).opcode != HloOpcode::kReshape) return;
  const Dimensions numbers = numbers_of_long(shape(operand));
  HloInstruction squeezed_form = at(id);
  squeezed_form.dimensions.clear();
  for (std::int64_t d : at(id).dimensions) {
    const std::int64_t number = numbers[static_cast<std::size_t>(d)];
    if (number >= 0) squeezed_form.dimensions.push_back(number);
  }
  if (squeezed_form.dimensions.size() < at(id).dimensions.size() &&
      !starts_from_neutral(module_, at(id)))
    return;
  if (squeezed_form.dimensions.empty()) {
    // Nothing is left to reduce.
    HloInstruction reshape;
    reshape.id = id;
    reshape.opcode = HloOpcode::kReshape;
    reshape.name = at(id).name;
    reshape.metadata = at(id).metadata;
    reshape.shape = at(id).shape;
    reshape.operands = {operand};
    at(id) = std::move(reshape);
    return;
  }
  squeezed_form.operands[0] = squeezed(operand);
  squeezed_form.shape = hlo::array_shape(shape(id).type, long_extents(shape(id)));
  becomes_reshape(id, std::move(squeezed_form));
}

void UnitDimensions::visit(InstructionId id) {
  if (at(id).shape.is_tuple()) return;
  switch (at(id).opcode) {
    case HloOpcode::kBroadcast:
      return visit_broadcast(id);
    case HloOpcode::kIota:
      return visit_iota(id);
    case HloOpcode::kReduce:
      return visit_reduce(id);
    default:
      if (hlo::is_elementwise(at(id).opcode)) visit_elementwise(id);
  }
}

}  // namespace

void drop_unit_dimensions(hlo::Module& module) { UnitDimensions(module).run(); }

}  // namespace tpu::compiler
