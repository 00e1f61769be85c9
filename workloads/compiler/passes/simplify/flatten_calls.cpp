#include <algorithm>
#include <set>
#include <string>

#include "sim/base/error.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/simplify/simplify.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// What stands in a call belongs to the call's scope: "jit(step)/jit(relu)" + "max". Names that
/// begin like the caller's are whole already.
void take_scope_of(const hlo::Metadata& caller, hlo::Metadata& inner) {
  if (inner.stack_frame_id == 0 && inner.source_file->empty()) {
    inner.stack_frame_id = caller.stack_frame_id;
    inner.source_file = caller.source_file;
    inner.source_line = caller.source_line;
  }
  const std::string& scope = caller.op_name;
  if (inner.op_name->empty()) {
    inner = caller;
  } else if (!scope.empty() && inner.op_name->rfind(scope.substr(0, scope.find('/')), 0) != 0) {
    inner.op_name = scope + "/" + inner.op_name.get();
  }
}

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
    take_scope_of(caller.metadata, clone.metadata);
    id = append(entry, std::move(clone));
  }
  return copy[static_cast<std::size_t>(body.root)];
}

/// Instructions of a computation and of what it calls, each call counted.
class ExpandedSize {
 public:
  explicit ExpandedSize(const hlo::Module& module)
      : module_(module), sizes_(module.computations.size(), 0) {}

  std::uint64_t of(hlo::ComputationId root) {
    std::vector<hlo::ComputationId> work{root};
    while (!work.empty()) {
      const hlo::ComputationId id = work.back();
      if (sizes_[static_cast<std::size_t>(id)] != 0) {
        work.pop_back();
        continue;
      }
      std::uint64_t size = module_.computation(id).instructions.size();
      bool is_complete = true;
      for (const HloInstruction& instruction : module_.computation(id).instructions) {
        for (hlo::ComputationId called : instruction.called) {
          const std::uint64_t inner = sizes_[static_cast<std::size_t>(called)];
          if (inner == 0) {
            work.push_back(called);
            is_complete = false;
          }
          size = std::min(size + inner, kMost);
        }
      }
      if (!is_complete) continue;
      sizes_[static_cast<std::size_t>(id)] = size;
      work.pop_back();
    }
    return sizes_[static_cast<std::size_t>(root)];
  }

 private:
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 62;

  const hlo::Module& module_;
  std::vector<std::uint64_t> sizes_;  ///< 0: not known yet.
};

/// Computations that call others several times grow exponentially where calls are dissolved.
void check_expanded_size(const hlo::Module& module) {
  constexpr std::uint64_t kMostInstructions = std::uint64_t{1} << 22;
  const std::uint64_t size = ExpandedSize(module).of(module.entry);
  if (size <= kMostInstructions) return;
  throw WorkloadError(module.name + ": expected at most " + std::to_string(kMostInstructions) +
                      " instructions with those of every call counted, found " +
                      std::to_string(size) +
                      ": computations call each other several times over; make loops of them");
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
  check_expanded_size(module);
  if (flatten(module, module.entry_computation())) remove_unused_computations(module);
}

void flatten_calls_everywhere(hlo::Module& module) {
  check_expanded_size(module);
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
