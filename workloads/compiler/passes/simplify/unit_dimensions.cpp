#include "workloads/compiler/passes/simplify/unit_dimensions.h"

#include <algorithm>
#include <numeric>

#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

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
      : module_(module), entry_(module.entry_computation()) {}

  void run() {
    const std::size_t given = entry_.instructions.size();
    for (std::size_t i = 0; i < given; ++i) {
      const auto id = static_cast<InstructionId>(i);
      if (at(id).opcode == HloOpcode::kDot) visit_dot(id);
      if (at(id).opcode == HloOpcode::kTranspose) visit_transpose(id);
    }
    if (entry_.instructions.size() > given) tidy(entry_);
    users_ = users_of(entry_);
    group_.resize(entry_.instructions.size());
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
  void visit_dot(InstructionId id);
  void visit_transpose(InstructionId id);
  InstructionId without(InstructionId id, const std::vector<bool>& dropped);
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
  reshape.shape = hlo::array_shape(shape(id).type, long_extents(shape(id).dimensions));
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

/// The array without the dimensions that are dropped.
InstructionId UnitDimensions::without(InstructionId id, const std::vector<bool>& dropped) {
  Dimensions kept;
  for (std::size_t d = 0; d < dropped.size(); ++d) {
    if (!dropped[d]) kept.push_back(shape(id).dimensions[d]);
  }
  if (kept.size() == dropped.size()) return id;
  HloInstruction reshape;
  reshape.opcode = HloOpcode::kReshape;
  reshape.name = at(id).name + ".long." + std::to_string(entry_.instructions.size());
  reshape.operands = {id};
  reshape.shape = hlo::array_shape(shape(id).type, kept);
  reshape.metadata = at(id).metadata;
  return append(entry_, std::move(reshape));
}

/// Numbers of dimensions among those that stay; those that are dropped have none.
Dimensions renumbered(const Dimensions& dimensions, const std::vector<bool>& dropped) {
  Dimensions numbers;
  for (const std::int64_t d : dimensions) {
    const auto end = dropped.begin() + static_cast<std::ptrdiff_t>(d);
    if (!*end) numbers.push_back(d - std::count(dropped.begin(), end, true));
  }
  return numbers;
}

/// Batch dimensions of extent 1, and free and contracted ones that stand beside longer ones.
void UnitDimensions::visit_dot(InstructionId id) {
  const hlo::DotDimensions dims = at(id).dot;
  const InstructionId sides[2] = {at(id).operands[0], at(id).operands[1]};
  const Dimensions* batches[2] = {&dims.lhs_batch, &dims.rhs_batch};
  const Dimensions* contracted[2] = {&dims.lhs_contracting, &dims.rhs_contracting};
  std::vector<bool> dropped[2], dropped_result(shape(id).dimensions.size(), false);
  for (int side : {0, 1}) dropped[side].assign(shape(sides[side]).dimensions.size(), false);
  const auto is_one = [&](int side, std::int64_t d) {
    return shape(sides[side]).dimensions[static_cast<std::size_t>(d)] == 1;
  };
  const auto drop_pairs = [&](const Dimensions& left, const Dimensions& right, bool keeps_one,
                              bool is_batch) {
    std::size_t left_over = left.size();
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!is_one(0, left[i]) || (keeps_one && left_over == 1)) continue;
      --left_over;
      dropped[0][static_cast<std::size_t>(left[i])] = true;
      dropped[1][static_cast<std::size_t>(right[i])] = true;
      if (is_batch) dropped_result[i] = true;
    }
  };
  drop_pairs(*batches[0], *batches[1], false, true);
  drop_pairs(*contracted[0], *contracted[1], true, false);
  std::size_t place = dims.lhs_batch.size();
  for (int side : {0, 1}) {
    const auto is_free = [&](std::int64_t d) {
      return std::find(batches[side]->begin(), batches[side]->end(), d) == batches[side]->end() &&
             std::find(contracted[side]->begin(), contracted[side]->end(), d) ==
                 contracted[side]->end();
    };
    const auto rank = static_cast<std::int64_t>(dropped[side].size());
    std::int64_t left_over = 0;
    for (std::int64_t d = 0; d < rank; ++d) left_over += is_free(d) ? 1 : 0;
    for (std::int64_t d = 0; d < rank; ++d) {
      if (!is_free(d)) continue;
      if (is_one(side, d) && left_over > 1) {
        --left_over;
        dropped[side][static_cast<std::size_t>(d)] = true;
        dropped_result[place] = true;
      }
      ++place;
    }
  }
  const auto any = [](const std::vector<bool>& list) {
    return std::find(list.begin(), list.end(), true) != list.end();
  };
  if (!any(dropped[0]) && !any(dropped[1])) return;
  HloInstruction squeezed_form = at(id);
  squeezed_form.operands = {without(sides[0], dropped[0]), without(sides[1], dropped[1])};
  hlo::DotDimensions& kept_dims = squeezed_form.dot.edit();
  kept_dims.lhs_batch = renumbered(dims.lhs_batch, dropped[0]);
  kept_dims.rhs_batch = renumbered(dims.rhs_batch, dropped[1]);
  kept_dims.lhs_contracting = renumbered(dims.lhs_contracting, dropped[0]);
  kept_dims.rhs_contracting = renumbered(dims.rhs_contracting, dropped[1]);
  Dimensions kept;
  for (std::size_t d = 0; d < dropped_result.size(); ++d) {
    if (!dropped_result[d]) kept.push_back(shape(id).dimensions[d]);
  }
  squeezed_form.shape = hlo::array_shape(shape(id).type, kept);
  becomes_reshape(id, std::move(squeezed_form));
}

void UnitDimensions::visit_transpose(InstructionId id) {
  const InstructionId operand = at(id).operands[0];
  if (!has_units(shape(id)) || long_extents(shape(id).dimensions).size() < 2) return;
  const Dimensions numbers = numbers_of_long(shape(operand));
  HloInstruction squeezed_form = at(id);
  squeezed_form.dimensions.clear();
  for (const std::int64_t d : at(id).dimensions) {
    const std::int64_t number = numbers[static_cast<std::size_t>(d)];
    if (number >= 0) squeezed_form.dimensions.push_back(number);
  }
  squeezed_form.operands = {squeezed(operand)};
  squeezed_form.shape = hlo::array_shape(shape(id).type, long_extents(shape(id).dimensions));
  becomes_reshape(id, std::move(squeezed_form));
}

void UnitDimensions::visit_elementwise(InstructionId id) {
  if (!has_units(shape(id)) || is_kept_[static_cast<std::size_t>(group_of(id))]) return;
  HloInstruction squeezed_form = at(id);
  for (InstructionId& operand : squeezed_form.operands) operand = squeezed(operand);
  squeezed_form.shape = hlo::array_shape(shape(id).type, long_extents(shape(id).dimensions));
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
  if (!keeps)
    squeezed_form.shape = hlo::array_shape(shape(id).type, long_extents(shape(id).dimensions));
  becomes_reshape(id, std::move(squeezed_form));
}

void UnitDimensions::visit_iota(InstructionId id) {
  if (!has_units(shape(id)) || at(id).dimensions.size() != 1 || keeps_dimensions(id)) return;
  const Dimensions numbers = numbers_of_long(shape(id));
  const std::int64_t along = numbers[static_cast<std::size_t>(at(id).dimensions[0])];
  if (along < 0) return;
  HloInstruction squeezed_form = at(id);
  squeezed_form.dimensions = {along};
  squeezed_form.shape = hlo::array_shape(shape(id).type, long_extents(shape(id).dimensions));
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
  squeezed_form.shape = hlo::array_shape(shape(id).type, long_extents(shape(id).dimensions));
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
