#include "workloads/compiler/passes/async_pairs.h"

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

void join(Computation& computation) {
  std::vector<InstructionId> stands_for(computation.instructions.size());
  bool found = false;
  for (HloInstruction& instruction : computation.instructions) {
    for (InstructionId& operand : instruction.operands) {
      operand = stands_for[static_cast<std::size_t>(operand)];
    }
    InstructionId& mine = stands_for[static_cast<std::size_t>(instruction.id)];
    mine = instruction.id;
    if (instruction.opcode == HloOpcode::kAsyncUpdate) mine = instruction.operands.at(0);
    if (!ends(instruction.opcode)) continue;
    HloInstruction& start = computation.at(instruction.operands.at(0));
    const HloOpcode opcode = started(start.opcode);
    if (opcode == HloOpcode::kCount) {
      throw WorkloadError(instruction.name + ": expected the start of its operation as operand, " +
                          "found " + start.name);
    }
    start.opcode = opcode;
    start.shape = instruction.shape;
    if (opcode == HloOpcode::kCopy) start.operands.resize(1);
    mine = start.id;
    found = true;
  }
  if (!found) return;
  computation.root = stands_for[static_cast<std::size_t>(computation.root)];
  for (HloInstruction& instruction : computation.instructions) {
    instruction.renumber_predecessors(
        [&](InstructionId before) { return stands_for[static_cast<std::size_t>(before)]; });
  }
  tidy(computation);
}

}  // namespace

void join_async_pairs(hlo::Module& module) {
  for (Computation& computation : module.computations) join(computation);
}

}  // namespace tpu::compiler
