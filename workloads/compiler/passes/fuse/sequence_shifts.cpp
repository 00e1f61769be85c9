#include "workloads/compiler/passes/fuse/sequence_shifts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/memory/storage.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// Granules of a member's space: larger ones hide the latency of a member by themselves.
constexpr std::uint64_t kMostMergedGranules = 64;
/// Arrays that a merged member reads.
constexpr std::size_t kMostMergedOperands = 8;

/// A member as a computation of its own with operands in the sequence.
struct MemberBody {
  Computation fused;
  std::vector<InstructionId> operands;
};

class ShiftMerger {
 public:
  ShiftMerger(const hlo::Module& module, Computation& sequence,
              std::vector<Computation>& computations, std::size_t first)
      : module_(module), sequence_(sequence), computations_(computations), first_(first) {}

  void run() {
    for (std::size_t i = 0; i < sequence_.instructions.size(); ++i) {
      count_users();
      const auto id = static_cast<InstructionId>(i);
      if (sequence_.at(id).opcode == HloOpcode::kConcatenate) join_slices(id);
      if (is_elementwise_member(sequence_.at(id))) read_elsewhere(id);
    }
    tidy(sequence_);
  }

 private:
  static bool is_elementwise_member(const HloInstruction& member) {
    return member.opcode == HloOpcode::kFusion && member.fusion_kind.get() != "kCustom";
  }
  const Computation& called(const HloInstruction& member) const {
    const auto number = static_cast<std::size_t>(member.called.at(0));
    return number < first_ ? module_.computation(member.called[0]) : computations_[number - first_];
  }
  void count_users();
  bool has_one_user(InstructionId id) const { return users_[static_cast<std::size_t>(id)] == 1; }
  MemberBody body_of(const HloInstruction& member) const;
  void become_fusion(InstructionId id, MemberBody body);
  void join_slices(InstructionId id);
  void read_elsewhere(InstructionId id);
  bool may_read_elsewhere(const HloInstruction& member, std::size_t parameter,
                          const HloInstruction& shift) const;
  bool is_merged_shift(const HloInstruction& member) const { return merged_.count(member.id) != 0; }
  static MemberBody inlined(const MemberBody& outer, std::size_t parameter,
                            const MemberBody& inner);

  const hlo::Module& module_;
  Computation& sequence_;
  std::vector<Computation>& computations_;
  std::size_t first_;
  std::vector<int> users_;
  std::set<InstructionId> merged_;  ///< Fusions that were concatenations.
};

void ShiftMerger::count_users() {
  users_.assign(sequence_.instructions.size(), 0);
  for (const HloInstruction& user : sequence_.instructions) {
    const std::set<InstructionId> read(user.operands.begin(), user.operands.end());
    for (const InstructionId operand : read) ++users_[static_cast<std::size_t>(operand)];
  }
}

/// Scalar constants stand inside; every array is one parameter.
MemberBody ShiftMerger::body_of(const HloInstruction& member) const {
  if (member.opcode == HloOpcode::kFusion) return {called(member), member.operands};
  MemberBody body;
  HloInstruction copy = member;
  std::vector<HloInstruction> constants;
  for (std::size_t i = 0; i < member.operands.size(); ++i) {
    const HloInstruction& operand = sequence_.at(member.operands[i]);
    HloInstruction made;
    made.shape = operand.shape;
    made.name = operand.name;
    if (operand.opcode == HloOpcode::kConstant && operand.shape.rank() == 0) {
      made.opcode = HloOpcode::kConstant;
      made.literal = operand.literal;
    } else {
      made.opcode = HloOpcode::kParameter;
      made.parameter_number = static_cast<std::int64_t>(body.operands.size());
      body.operands.push_back(operand.id);
    }
    copy.operands[i] = append(body.fused, std::move(made));
  }
  copy.control_predecessors.reset();
  body.fused.root = append(body.fused, std::move(copy));
  return body;
}

/// The outer member with the inner one's instructions in place of a parameter.
MemberBody ShiftMerger::inlined(const MemberBody& outer, std::size_t parameter,
                                const MemberBody& inner) {
  MemberBody made;
  std::map<InstructionId, InstructionId> place_of;  // Of operands: parameters of the result.
  const auto take = [&](const MemberBody& from,
                        const std::map<InstructionId, InstructionId>& known) {
    std::map<InstructionId, InstructionId> renamed = known;
    for (const HloInstruction& instruction : from.fused.instructions) {
      if (renamed.count(instruction.id) != 0) continue;
      HloInstruction copy = instruction;
      if (copy.opcode == HloOpcode::kParameter) {
        const InstructionId operand =
            from.operands.at(static_cast<std::size_t>(copy.parameter_number));
        const auto found = place_of.find(operand);
        if (found != place_of.end() &&
            made.fused.at(found->second).shape.dimensions == instruction.shape.dimensions) {
          renamed[instruction.id] = found->second;
          continue;
        }
        copy.parameter_number = static_cast<std::int64_t>(made.operands.size());
        made.operands.push_back(operand);
      }
      for (InstructionId& operand : copy.operands) operand = renamed.at(operand);
      const bool is_parameter = copy.opcode == HloOpcode::kParameter;
      const InstructionId id = append(made.fused, std::move(copy));
      renamed[instruction.id] = id;
      if (is_parameter) place_of[made.operands.back()] = id;
    }
    return renamed;
  };
  const auto of_inner = take(inner, {});
  const InstructionId replaced = outer.fused.parameters().at(parameter);
  const auto of_outer = take(outer, {{replaced, of_inner.at(inner.fused.root)}});
  made.fused.root = of_outer.at(outer.fused.root);
  return made;
}

void ShiftMerger::become_fusion(InstructionId id, MemberBody body) {
  HloInstruction& member = sequence_.instructions[static_cast<std::size_t>(id)];
  std::set<std::string> names;
  for (HloInstruction& each : body.fused.instructions) {
    while (!names.insert(each.name).second) each.name += ".moved";
  }
  body.fused.name = "moved." + member.name + "." + std::to_string(first_ + computations_.size());
  if (member.opcode != HloOpcode::kFusion) {
    HloInstruction fusion;
    fusion.id = id;
    fusion.opcode = HloOpcode::kFusion;
    fusion.fusion_kind = std::string("kLoop");
    fusion.name = member.name;
    fusion.shape = member.shape;
    fusion.metadata = member.metadata;
    member = std::move(fusion);
  }
  member.operands = std::move(body.operands);
  member.called = {static_cast<hlo::ComputationId>(first_ + computations_.size())};
  computations_.push_back(std::move(body.fused));
}

/// A concatenation of slices reads the arrays that they are slices of.
void ShiftMerger::join_slices(InstructionId id) {
  const HloInstruction& concatenate = sequence_.at(id);
  if (granules(concatenate.shape) > kMostMergedGranules) return;
  MemberBody body = body_of(concatenate);
  bool found = false;
  for (std::size_t i = 0; i < body.operands.size();) {
    const HloInstruction& part = sequence_.at(body.operands[i]);
    const bool is_part = part.opcode == HloOpcode::kSlice && has_one_user(part.id);
    if (!is_part) {
      ++i;
      continue;
    }
    found = true;
    body = inlined(body, i, body_of(part));
    i = 0;
  }
  if (!found) return;
  become_fusion(id, std::move(body));
  merged_.insert(id);
}

/// The member's instructions work on arrays of one extent and layout, element by element, with
/// sums of them; the parameter is such an array.
bool ShiftMerger::may_read_elsewhere(const HloInstruction& member, std::size_t parameter,
                                     const HloInstruction& shift) const {
  const Computation& fused = called(member);
  const hlo::Shape& space = shift.shape;
  const InstructionId replaced = fused.parameters().at(parameter);
  for (const HloInstruction& inner : fused.instructions) {
    if (inner.shape.is_tuple()) continue;
    const bool is_space = inner.shape.dimensions == space.dimensions;
    if (!is_space && inner.shape.element_count() >= space.element_count()) return false;
    const bool is_other_layout =
        !inner.shape.layout.minor_to_major.empty() && !(inner.shape.layout == space.layout);
    if (is_space && is_other_layout) return false;
    switch (inner.opcode) {
      case HloOpcode::kParameter:
      case HloOpcode::kConstant:
      case HloOpcode::kIota:
      case HloOpcode::kReduce:
        break;
      case HloOpcode::kBroadcast:
        if (inner.operands[0] == replaced) return false;
        if (!std::is_sorted(inner.dimensions.begin(), inner.dimensions.end())) return false;
        break;
      default:
        if (!hlo::is_elementwise(inner.opcode)) return false;
    }
  }
  return true;
}

void ShiftMerger::read_elsewhere(InstructionId id) {
  for (std::size_t i = 0; i < sequence_.at(id).operands.size();) {
    const HloInstruction& member = sequence_.at(id);
    const HloInstruction& shift = sequence_.at(member.operands[i]);
    const bool moves = shift.opcode == HloOpcode::kConcatenate || shift.opcode == HloOpcode::kPad ||
                       is_merged_shift(shift);
    const std::size_t operands = member.operands.size() + shift.operands.size() - 1;
    if (!moves || !has_one_user(shift.id) || operands > kMostMergedOperands ||
        granules(shift.shape) > kMostMergedGranules || !may_read_elsewhere(member, i, shift) ||
        std::count(member.operands.begin(), member.operands.end(), shift.id) != 1) {
      ++i;
      continue;
    }
    become_fusion(id, inlined(body_of(member), i, body_of(shift)));
    count_users();
    i = 0;
  }
}

}  // namespace

void merge_shifts(const hlo::Module& module, Computation& sequence,
                  std::vector<Computation>& computations, std::size_t first) {
  ShiftMerger(module, sequence, computations, first).run();
}

}  // namespace tpu::compiler
