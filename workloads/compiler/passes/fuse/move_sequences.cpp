#include "workloads/compiler/passes/fuse/move_sequences.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// Of a kernel: their addresses, and those of their slabs, are registers at once.
constexpr std::size_t kMostArrays = 8;

class MoveJoiner {
 public:
  MoveJoiner(hlo::Module& module, const Target& target)
      : module_(module),
        entry_(module.entry_computation()),
        target_(target),
        users_(users_of(entry_)) {}

  void run();

 private:
  using Group = std::set<InstructionId>;

  const HloInstruction& at(InstructionId id) const { return entry_.at(id); }
  bool may_join(InstructionId id, const Group& group) const;
  std::optional<double> cycles(const Group& group) const;
  Computation inside_of(const Group& group, std::vector<InstructionId>& operands) const;
  Group group_behind(InstructionId root) const;
  void join(const Group& group);

  hlo::Module& module_;
  Computation& entry_;
  const Target& target_;
  std::vector<std::vector<InstructionId>> users_;
  std::vector<Computation> made_;
};

/// A move that the group alone reads.
bool MoveJoiner::may_join(InstructionId id, const Group& group) const {
  const HloInstruction& move = at(id);
  if (!is_box_move(move.opcode) && !is_named_part(move)) return false;
  if (move.control_predecessors.is_set() || id == entry_.root) return false;
  const std::vector<InstructionId>& users = users_[static_cast<std::size_t>(id)];
  return std::all_of(users.begin(), users.end(),
                     [&](InstructionId user) { return group.count(user) > 0; });
}

/// The group as a computation; its parameters are the operands.
Computation MoveJoiner::inside_of(const Group& group, std::vector<InstructionId>& operands) const {
  Computation inside;
  std::map<InstructionId, InstructionId> place;
  const auto add = [&](HloInstruction instruction, InstructionId of) {
    instruction.id = static_cast<InstructionId>(inside.instructions.size());
    place[of] = instruction.id;
    inside.instructions.push_back(std::move(instruction));
  };
  for (InstructionId id : group) {
    for (InstructionId operand : at(id).operands) {
      if (group.count(operand) > 0 || place.count(operand) > 0) continue;
      if (at(operand).opcode == HloOpcode::kConstant && at(operand).shape.rank() == 0) {
        add(at(operand), operand);
        continue;
      }
      HloInstruction parameter;
      parameter.opcode = HloOpcode::kParameter;
      parameter.parameter_number = static_cast<std::int64_t>(operands.size());
      parameter.name = "param_" + std::to_string(operands.size()) + "." + at(*group.rbegin()).name;
      parameter.shape = at(operand).shape;
      operands.push_back(operand);
      add(std::move(parameter), operand);
    }
  }
  for (InstructionId id : group) {
    HloInstruction move = at(id);
    if (is_named_part(move)) move.opcode = HloOpcode::kSlice;
    for (InstructionId& operand : move.operands) operand = place.at(operand);
    add(std::move(move), id);
  }
  inside.root = static_cast<InstructionId>(inside.instructions.size()) - 1;
  return inside;
}

/// What the group takes as one kernel; none where there is none, as of pads by different numbers.
std::optional<double> MoveJoiner::cycles(const Group& group) const {
  std::vector<InstructionId> operands;
  const Computation inside = inside_of(group, operands);
  std::set<std::string> fillings;
  for (const HloInstruction& each : inside.instructions) {
    const bool is_array = each.opcode != HloOpcode::kConstant;
    if (is_array && each.shape.rank() != at(*group.rbegin()).shape.rank()) return std::nullopt;
    if (each.opcode == HloOpcode::kConstant) fillings.insert(value_key(each));
  }
  if (fillings.size() > 1 || operands.size() > kMostArrays) return std::nullopt;
  return moves_cycles(inside, target_);
}

/// A move and those before it, as far as each saves more than it costs.
MoveJoiner::Group MoveJoiner::group_behind(InstructionId root) const {
  Group group{root};
  std::optional<double> all = cycles(group);
  if (!all) return group;
  std::set<InstructionId> refused;
  for (bool grows = true; grows;) {
    grows = false;
    std::set<InstructionId> candidates;
    for (InstructionId id : group) {
      for (InstructionId operand : at(id).operands) {
        if (group.count(operand) == 0 && refused.count(operand) == 0 && may_join(operand, group)) {
          candidates.insert(operand);
        }
      }
    }
    for (auto next = candidates.rbegin(); next != candidates.rend() && !grows; ++next) {
      Group larger = group;
      larger.insert(*next);
      const std::optional<double> own =
          is_named_part(at(*next)) ? std::optional<double>(0) : cycles({*next});
      const std::optional<double> together = cycles(larger);
      if (!own || !together || *together > *all + *own) {
        refused.insert(*next);
        continue;
      }
      group = std::move(larger);
      refused.clear();
      all = together;
      grows = true;
    }
  }
  return group;
}

void MoveJoiner::join(const Group& group) {
  const InstructionId root = *group.rbegin();
  std::vector<InstructionId> operands;
  Computation inside = inside_of(group, operands);
  HloInstruction call;
  call.id = root;
  call.opcode = HloOpcode::kFusion;
  call.fusion_kind = std::string("kLoop");
  call.name = at(root).name;
  call.metadata = at(root).metadata;
  call.shape = at(root).shape;
  call.operands = operands;
  if (at(root).control_predecessors.is_set()) {
    call.control_predecessors.edit() = at(root).control_predecessors.get();
  }
  call.called = {static_cast<hlo::ComputationId>(module_.computations.size() + made_.size())};
  inside.name = "moves." + call.name;
  for (HloInstruction& each : inside.instructions) each.control_predecessors.reset();
  inside.instructions.back().name += ".moved";
  entry_.instructions[static_cast<std::size_t>(root)] = std::move(call);
  made_.push_back(std::move(inside));
}

void MoveJoiner::run() {
  Group joined;
  for (auto i = static_cast<InstructionId>(entry_.instructions.size()); i-- > 0;) {
    if (joined.count(i) > 0 || !is_box_move(at(i).opcode) || at(i).shape.is_tuple()) continue;
    const Group group = group_behind(i);
    if (group.size() < 2) continue;
    joined.insert(group.begin(), group.end());
    join(group);
  }
  if (made_.empty()) return;
  for (Computation& inside : made_) module_.computations.push_back(std::move(inside));
  tidy(module_.entry_computation());
}

}  // namespace

void join_moves(hlo::Module& module, const Target& target) { MoveJoiner(module, target).run(); }

}  // namespace tpu::compiler
