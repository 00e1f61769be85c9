#include "workloads/compiler/passes/simplify/split_lanes.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/base/contains.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

using Dimensions = std::vector<std::int64_t>;

/// A reduction in two steps has to leave so much less to the second.
constexpr std::int64_t kLeastReduced = 8;

/// True for arrays whose two minor dimensions may be one.
bool may_join(const Shape& shape) {
  if (shape.is_tuple() || shape.rank() < 2) return false;
  return shape.dimensions.back() > 1 && shape.dimensions[shape.dimensions.size() - 2] > 1;
}

/// The extents with the two minor dimensions as one.
Dimensions joined(Dimensions extents) {
  const std::int64_t minor = extents.back();
  extents.pop_back();
  extents.back() *= minor;
  return extents;
}

class SplitLanes {
 public:
  explicit SplitLanes(hlo::Module& module)
      : module_(module),
        entry_(module.entry_computation()),
        editor_(module),
        users_(users_of(entry_)),
        count_(entry_.instructions.size()) {}

  void run();

 private:
  const HloInstruction& at(InstructionId id) const { return entry_.at(id); }
  const Dimensions& extents(InstructionId id) const { return at(id).shape.dimensions; }
  bool splits(InstructionId id) const;
  bool joins(InstructionId id, InstructionId operand) const;
  bool is_member(InstructionId id) const { return is_member_[static_cast<std::size_t>(id)]; }
  InstructionId group_of(InstructionId id) const {
    InstructionId root = id;
    while (group_[static_cast<std::size_t>(root)] != root) {
      root = group_[static_cast<std::size_t>(root)];
    }
    // Later walks are short.
    while (id != root) id = std::exchange(group_[static_cast<std::size_t>(id)], root);
    return root;
  }
  void find_groups();
  bool takes_operand(InstructionId id, InstructionId operand) const;
  bool serves_user(InstructionId id, InstructionId user) const;
  bool is_reduced_in_steps(const HloInstruction& reduce) const;
  InstructionId joined_form(InstructionId id);
  InstructionId joined_broadcast(InstructionId id);
  void visit_member(InstructionId id);
  void visit_reduce(InstructionId id);

  hlo::Module& module_;
  Computation& entry_;
  GraphEditor editor_;
  std::vector<std::vector<InstructionId>> users_;
  std::size_t count_;                         ///< Instructions that the module came with.
  std::vector<bool> is_member_;               ///< Of a group: a split, or an elementwise operation.
  mutable std::vector<InstructionId> group_;  ///< One that stands for the group.
  std::vector<bool> is_kept_;                 ///< Of groups: somebody needs the split.
  std::vector<bool> has_split_;               ///< Of groups: there is a reshape to save.
  std::vector<InstructionId> joined_;         ///< Of members: the same elements, not split.
};

/// A reshape that splits the minor dimension of its operand in two.
bool SplitLanes::splits(InstructionId id) const {
  const HloInstruction& reshape = at(id);
  if (reshape.opcode != HloOpcode::kReshape || !may_join(reshape.shape)) return false;
  const Dimensions& from = extents(reshape.operands[0]);
  return !from.empty() && from.back() == joined(reshape.shape.dimensions).back();
}

/// A reshape that makes the two minor dimensions of its operand one.
bool SplitLanes::joins(InstructionId id, InstructionId operand) const {
  const HloInstruction& reshape = at(id);
  return reshape.opcode == HloOpcode::kReshape && reshape.shape.rank() > 0 &&
         reshape.shape.dimensions.back() == joined(extents(operand)).back();
}

/// A reduction that has little left to do when only one of the two minor dimensions remains.
bool SplitLanes::is_reduced_in_steps(const HloInstruction& reduce) const {
  const Dimensions& from = extents(reduce.operands[0]);
  const auto rank = static_cast<std::int64_t>(from.size());
  std::int64_t others = 1;
  for (std::int64_t d : reduce.dimensions) {
    if (d < rank - 2) others *= from[static_cast<std::size_t>(d)];
  }
  return others >= kLeastReduced && starts_from_neutral(module_, reduce);
}

bool SplitLanes::takes_operand(InstructionId id, InstructionId operand) const {
  if (at(id).opcode == HloOpcode::kReshape) return true;
  if (at(operand).shape.is_tuple()) return false;
  if (at(operand).shape.rank() == 0 || is_member(operand)) return true;
  return at(operand).opcode == HloOpcode::kBroadcast &&
         std::is_sorted(at(operand).dimensions.begin(), at(operand).dimensions.end());
}

bool SplitLanes::serves_user(InstructionId id, InstructionId user) const {
  const HloInstruction& instruction = at(user);
  if (is_member(user) && group_of(user) == group_of(id)) return true;
  if (joins(user, id)) return true;
  if (instruction.opcode != HloOpcode::kReduce || instruction.shape.is_tuple() ||
      instruction.operands.size() != 2 || instruction.operands[0] != id) {
    return false;
  }
  const auto rank = static_cast<std::int64_t>(extents(id).size());
  const bool reduces_rows = contains(instruction.dimensions, rank - 2);
  const bool reduces_lanes = contains(instruction.dimensions, rank - 1);
  return reduces_rows == reduces_lanes || is_reduced_in_steps(instruction);
}

/// Elementwise operations that hand each other split arrays, and where these come from.
void SplitLanes::find_groups() {
  for (const HloInstruction& each : entry_.instructions) {
    const bool is_elementwise = hlo::is_elementwise(each.opcode) && may_join(each.shape);
    is_member_.push_back(is_elementwise || splits(each.id));
  }
  group_.resize(count_);
  std::iota(group_.begin(), group_.end(), 0);
  const auto members = [&](auto&& body) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (is_member_[i]) body(static_cast<InstructionId>(i));
    }
  };
  members([&](InstructionId id) {
    if (at(id).opcode == HloOpcode::kReshape) return;
    for (InstructionId operand : at(id).operands) {
      if (is_member(operand)) group_[static_cast<std::size_t>(group_of(operand))] = group_of(id);
    }
  });
  is_kept_.assign(count_, false);
  has_split_.assign(count_, false);
  members([&](InstructionId id) {
    const auto group = static_cast<std::size_t>(group_of(id));
    bool keeps = id == entry_.root;
    for (InstructionId operand : at(id).operands) keeps |= !takes_operand(id, operand);
    bool has_split = at(id).opcode == HloOpcode::kReshape;
    for (InstructionId user : users_[static_cast<std::size_t>(id)]) {
      keeps |= !serves_user(id, user);
      has_split |= joins(user, id);
    }
    if (keeps) is_kept_[group] = true;
    if (has_split) has_split_[group] = true;
  });
}

/// A broadcast to the joined extents of what was broadcast to the split ones.
InstructionId SplitLanes::joined_broadcast(InstructionId id) {
  const Dimensions split = extents(id);
  Dimensions places = at(id).dimensions;
  InstructionId value = at(id).operands[0];
  const auto rank = static_cast<std::int64_t>(split.size());
  if (contains(places, rank - 2) || contains(places, rank - 1)) {
    Dimensions wide = places;
    wide.erase(std::remove_if(wide.begin(), wide.end(), [&](auto d) { return d >= rank - 2; }),
               wide.end());
    wide.insert(wide.end(), {rank - 2, rank - 1});
    if (wide != places) {
      Dimensions wide_extents, from;
      for (std::size_t i = 0; i < wide.size(); ++i) {
        wide_extents.push_back(split[static_cast<std::size_t>(wide[i])]);
        if (contains(places, wide[i])) from.push_back(static_cast<std::int64_t>(i));
      }
      value = editor_.broadcast(value, wide_extents, from);
    }
    value = editor_.reshape(value, joined(editor_.dimensions(value)));
    wide.pop_back();
    places = wide;
  }
  return editor_.broadcast(value, joined(split), places);
}

/// The operand of a member, not split; scalars as they are.
InstructionId SplitLanes::joined_form(InstructionId id) {
  if (at(id).shape.rank() == 0) return id;
  return is_member(id) ? joined_[static_cast<std::size_t>(id)] : joined_broadcast(id);
}

void SplitLanes::visit_member(InstructionId id) {
  editor_.stand_for(id);
  const Dimensions whole = joined(extents(id));
  InstructionId value = -1;
  if (at(id).opcode == HloOpcode::kReshape) {
    value = editor_.reshape(at(id).operands[0], whole);
  } else {
    HloInstruction form = at(id);
    for (InstructionId& operand : form.operands) operand = joined_form(operand);
    form.shape = hlo::array_shape(form.shape.type, whole);
    form.name += ".joined";
    value = editor_.append_instruction(std::move(form));
  }
  joined_[static_cast<std::size_t>(id)] = value;
  editor_.finish(value);
}

void SplitLanes::visit_reduce(InstructionId id) {
  const InstructionId operand = at(id).operands[0];
  const auto rank = static_cast<std::int64_t>(extents(operand).size());
  const Dimensions split = extents(operand);
  editor_.stand_for(id);
  const bool reduces_rows = contains(at(id).dimensions, rank - 2);
  const bool reduces_lanes = contains(at(id).dimensions, rank - 1);
  HloInstruction first = at(id);
  first.name += ".joined";
  first.operands[0] = joined_[static_cast<std::size_t>(operand)];
  first.dimensions.clear();
  Dimensions left;
  for (std::int64_t d = 0; d < rank - 2; ++d) {
    if (contains(at(id).dimensions, d)) {
      first.dimensions.push_back(d);
    } else {
      left.push_back(split[static_cast<std::size_t>(d)]);
    }
  }
  const std::int64_t rows = split[split.size() - 2], lanes = split.back();
  if (reduces_rows && reduces_lanes) {
    first.dimensions.push_back(rank - 2);
  } else {
    left.push_back(rows * lanes);
  }
  first.shape = hlo::array_shape(at(id).shape.type, left);
  InstructionId value = editor_.append_instruction(std::move(first));
  if (reduces_rows != reduces_lanes) {
    left.back() = rows;
    left.push_back(lanes);
    HloInstruction second = at(id);
    second.name += ".rest";
    second.operands[0] = editor_.reshape(value, left);
    second.dimensions = {static_cast<std::int64_t>(left.size()) - (reduces_lanes ? 1 : 2)};
    value = editor_.append_instruction(std::move(second));
  }
  editor_.finish(value);
}

void SplitLanes::run() {
  find_groups();
  joined_.assign(count_, -1);
  for (std::size_t i = 0; i < count_; ++i) {
    const auto id = static_cast<InstructionId>(i);
    if (is_member(id)) {
      const auto group = static_cast<std::size_t>(group_of(id));
      if (has_split_[group] && !is_kept_[group]) visit_member(id);
    } else if (at(id).opcode == HloOpcode::kReduce && !at(id).shape.is_tuple() &&
               joined_[static_cast<std::size_t>(at(id).operands[0])] >= 0) {
      visit_reduce(id);
    }
  }
  tidy(entry_);
}

}  // namespace

void join_split_lanes(hlo::Module& module) { SplitLanes(module).run(); }

}  // namespace tpu::compiler
