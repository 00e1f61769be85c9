#include "workloads/compiler/passes/expand/async_pairs.h"

#include "sim/base/error.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// What a start does; kCount for other instructions.
HloOpcode started(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kAllReduceStart:
      return HloOpcode::kAllReduce;
    case HloOpcode::kAllGatherStart:
      return HloOpcode::kAllGather;
    case HloOpcode::kCollectivePermuteStart:
      return HloOpcode::kCollectivePermute;
    case HloOpcode::kCopyStart:
      return HloOpcode::kCopy;
    case HloOpcode::kAsyncStart:
      return HloOpcode::kCall;
    default:
      return HloOpcode::kCount;
  }
}

bool ends(HloOpcode opcode) {
  return opcode == HloOpcode::kAllReduceDone || opcode == HloOpcode::kAllGatherDone ||
         opcode == HloOpcode::kCollectivePermuteDone || opcode == HloOpcode::kCopyDone ||
         opcode == HloOpcode::kAsyncDone;
}

/// The whole operation stands where it starts; with operands that only its updates bring, where it
/// ends.
class PairJoiner {
 public:
  PairJoiner(const hlo::Module& module, Computation& computation)
      : module_(module),
        computation_(computation),
        stands_for_(computation.instructions.size()),
        brought_(computation.instructions.size()) {}

  void run() {
    for (HloInstruction& instruction : computation_.instructions) visit(instruction);
    if (!found_) return;
    computation_.root = stands_for(computation_.root);
    for (HloInstruction& instruction : computation_.instructions) {
      instruction.renumber_predecessors([&](InstructionId before) { return stands_for(before); });
    }
    tidy(computation_);
  }

 private:
  InstructionId& stands_for(InstructionId id) { return stands_for_[static_cast<std::size_t>(id)]; }
  std::vector<InstructionId>& brought(InstructionId start) {
    return brought_[static_cast<std::size_t>(start)];
  }

  void visit(HloInstruction& instruction) {
    for (InstructionId& operand : instruction.operands) operand = stands_for(operand);
    stands_for(instruction.id) = instruction.id;
    const bool is_update = instruction.opcode == HloOpcode::kAsyncUpdate;
    if (!is_update && !ends(instruction.opcode)) return;
    HloInstruction& start = start_of(instruction);
    if (is_update) {
      stands_for(instruction.id) = start.id;
      brought(start.id).insert(brought(start.id).end(), instruction.operands.begin() + 1,
                               instruction.operands.end());
      return;
    }
    found_ = true;
    HloInstruction whole = start;
    whole.opcode = started(start.opcode);
    whole.shape = instruction.shape;
    if (whole.opcode == HloOpcode::kCopy) whole.operands.resize(1);
    const std::vector<InstructionId>& late = brought(start.id);
    whole.operands.insert(whole.operands.end(), late.begin(), late.end());
    check_operands(whole);
    HloInstruction& place = late.empty() ? start : instruction;
    whole.id = place.id;
    if (!late.empty()) whole.name = instruction.name;
    place = std::move(whole);
    stands_for(instruction.id) = place.id;
  }

  HloInstruction& start_of(const HloInstruction& instruction) {
    const bool has_operands = instruction.opcode == HloOpcode::kAsyncUpdate
                                  ? !instruction.operands.empty()
                                  : instruction.operands.size() == 1;
    if (!has_operands) {
      throw WorkloadError(instruction.name + ": expected the start of its operation as operand" +
                          (instruction.operands.empty() ? ", found none" : " alone"));
    }
    HloInstruction& start = computation_.at(instruction.operands[0]);
    if (started(start.opcode) == HloOpcode::kCount) {
      throw WorkloadError(instruction.name + ": expected the start of its operation as operand, " +
                          "found " + start.name);
    }
    return start;
  }

  void check_operands(const HloInstruction& whole) const {
    if (whole.opcode != HloOpcode::kCall || whole.called.size() != 1) return;
    const std::size_t taken = module_.computation(whole.called[0]).parameters().size();
    if (whole.operands.size() == taken) return;
    throw WorkloadError(whole.name + ": expected " + std::to_string(taken) +
                        " operands for the computation that it starts, found " +
                        std::to_string(whole.operands.size()));
  }

  const hlo::Module& module_;
  Computation& computation_;
  std::vector<InstructionId> stands_for_;
  std::vector<std::vector<InstructionId>> brought_;  ///< By updates, of each start.
  bool found_ = false;
};

}  // namespace

void join_async_pairs(hlo::Module& module) {
  for (Computation& computation : module.computations) PairJoiner(module, computation).run();
}

}  // namespace tpu::compiler
