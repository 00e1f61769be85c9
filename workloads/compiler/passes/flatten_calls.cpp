#include <set>

#include "sim/base/error.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/simplify.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// Copies the body of a called computation behind the entry's instructions; returns the copy of its
/// root.
InstructionId inline_body(Computation& entry, const Computation& body,
                          const HloInstruction& caller) {
  std::vector<InstructionId> copy(body.instructions.size(), -1);
  for (const HloInstruction& instruction : body.instructions) {
    InstructionId& id = copy[static_cast<std::size_t>(instruction.id)];
    if (instruction.opcode == HloOpcode::kParameter) {
      TPU_CHECK(static_cast<std::size_t>(instruction.parameter_number) < caller.operands.size(),
                caller.name << " passes too few operands");
      id = caller.operands[static_cast<std::size_t>(instruction.parameter_number)];
      continue;
    }
    HloInstruction clone = instruction;
    for (InstructionId& operand : clone.operands) operand = copy[static_cast<std::size_t>(operand)];
    clone.control_predecessors.reset();
    if (clone.metadata.op_name->empty()) clone.metadata = caller.metadata;
    id = append(entry, std::move(clone));
  }
  return copy[static_cast<std::size_t>(body.root)];
}

/// Dissolves the calls of one computation; false where there are none.
bool flatten(const hlo::Module& module, Computation& entry) {
  std::vector<InstructionId> replacement(entry.instructions.size());
  for (std::size_t i = 0; i < replacement.size(); ++i) {
    replacement[i] = static_cast<InstructionId>(i);
  }
  bool found = false;
  for (std::size_t i = 0; i < entry.instructions.size(); ++i) {
    const HloInstruction caller = entry.instructions[i];
    if (caller.opcode != HloOpcode::kCall && caller.opcode != HloOpcode::kFusion) continue;
    found = true;
    const InstructionId root = inline_body(entry, module.computation(caller.called.at(0)), caller);
    for (std::size_t old = replacement.size(); old < entry.instructions.size(); ++old) {
      replacement.push_back(static_cast<InstructionId>(old));
    }
    replacement[i] = root;
  }
  if (!found) return false;
  const auto resolved = [&replacement](InstructionId id) {
    while (replacement[static_cast<std::size_t>(id)] != id) {
      id = replacement[static_cast<std::size_t>(id)];
    }
    return id;
  };
  for (HloInstruction& instruction : entry.instructions) {
    for (InstructionId& operand : instruction.operands) operand = resolved(operand);
    instruction.renumber_predecessors(resolved);
  }
  entry.root = resolved(entry.root);
  tidy(entry);
  return true;
}

}  // namespace

void flatten_calls(hlo::Module& module) {
  if (flatten(module, module.entry_computation())) remove_unused_computations(module);
}

void flatten_calls_everywhere(hlo::Module& module) {
  std::set<hlo::ComputationId> seen;
  std::vector<hlo::ComputationId> work{module.entry};
  while (!work.empty()) {
    const hlo::ComputationId id = work.back();
    work.pop_back();
    if (!seen.insert(id).second) continue;
    Computation& computation = module.computations[static_cast<std::size_t>(id)];
    flatten(module, computation);
    for (const HloInstruction& instruction : computation.instructions) {
      if (instruction.opcode != HloOpcode::kWhile &&
          instruction.opcode != HloOpcode::kConditional) {
        continue;
      }
      work.insert(work.end(), instruction.called.begin(), instruction.called.end());
    }
  }
  remove_unused_computations(module);
}

}  // namespace tpu::compiler
