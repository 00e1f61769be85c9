#include "workloads/compiler/passes/fuse/sequence_shifts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/fuse/member_body.h"
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
  MemberBody body_of(const HloInstruction& member) const {
    if (member.opcode == HloOpcode::kFusion) return {called(member), member.operands};
    return body_of_move(sequence_, member);
  }
  void become_fusion(InstructionId id, MemberBody body) {
    const std::size_t number = first_ + computations_.size();
    computations_.push_back(make_fusion(sequence_.at(id), std::move(body), number));
  }
  void join_slices(InstructionId id);
  void read_elsewhere(InstructionId id);
  bool is_merged_shift(const HloInstruction& member) const { return merged_.count(member.id) != 0; }

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

void ShiftMerger::read_elsewhere(InstructionId id) {
  for (std::size_t i = 0; i < sequence_.at(id).operands.size();) {
    const HloInstruction& member = sequence_.at(id);
    const HloInstruction& shift = sequence_.at(member.operands[i]);
    const bool moves = shift.opcode == HloOpcode::kConcatenate || shift.opcode == HloOpcode::kPad ||
                       is_merged_shift(shift);
    const std::size_t operands = member.operands.size() + shift.operands.size() - 1;
    if (!moves || !has_one_user(shift.id) || operands > kMostMergedOperands ||
        granules(shift.shape) > kMostMergedGranules ||
        !may_read_elsewhere(called(member), i, shift.shape) ||
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
