#include "workloads/compiler/passes/fuse/large_fusions.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// The fusion, with another name for its part of the computation; the operands that this does not
/// need are left out.
HloInstruction fusion_of(hlo::Module& module, const HloInstruction& fusion, Computation part,
                         const std::string& name) {
  part.name += name;
  tidy(part);
  HloInstruction made = fusion;
  made.name += name;
  made.shape = part.at(part.root).shape;
  made.operands.clear();
  const auto users = users_of(part);
  std::vector<HloInstruction> needed;
  std::map<InstructionId, InstructionId> numbers;
  for (HloInstruction& instruction : part.instructions) {
    const bool is_parameter = instruction.opcode == HloOpcode::kParameter;
    if (is_parameter && users[static_cast<std::size_t>(instruction.id)].empty()) continue;
    if (is_parameter) {
      const auto number = static_cast<std::size_t>(instruction.parameter_number);
      instruction.parameter_number = static_cast<std::int64_t>(made.operands.size());
      made.operands.push_back(fusion.operands[number]);
    }
    const auto id = static_cast<InstructionId>(needed.size());
    numbers[instruction.id] = id;
    instruction.id = id;
    for (InstructionId& operand : instruction.operands) operand = numbers.at(operand);
    needed.push_back(std::move(instruction));
  }
  part.root = numbers.at(part.root);
  part.instructions = std::move(needed);
  made.called = {static_cast<hlo::ComputationId>(module.computations.size())};
  module.computations.push_back(std::move(part));
  return made;
}

/// What a fusion's kernel would make for its own use, where that can be stored: reductions of what
/// does not read others of them.
std::vector<InstructionId> inner_sums(const Computation& fused) {
  std::vector<InstructionId> sums;
  std::vector<bool> reads_sums(fused.instructions.size());
  for (const HloInstruction& instruction : fused.instructions) {
    const auto id = static_cast<std::size_t>(instruction.id);
    for (InstructionId operand : instruction.operands) {
      if (reads_sums[static_cast<std::size_t>(operand)]) reads_sums[id] = true;
    }
    if (instruction.opcode != HloOpcode::kReduce) continue;
    const bool is_stored =
        !instruction.shape.is_tuple() && hlo::byte_size(instruction.shape.type) == 4;
    if (is_stored && !reads_sums[id] && instruction.id != fused.root) {
      sums.push_back(instruction.id);
    }
    reads_sums[id] = true;
  }
  return sums;
}

class LargeFusions {
 public:
  LargeFusions(hlo::Module& module, const Target& target) : module_(module), target_(target) {}

  void run() {
    bool found = false;
    for (std::size_t i = 0; i < entry().instructions.size(); ++i) {
      const HloInstruction fusion = entry().at(static_cast<InstructionId>(i));
      if (!is_too_large(fusion)) continue;
      const bool has_several = fusion.shape.is_tuple();
      found |= has_several ? part_results(fusion) : part_sums(fusion);
    }
    if (!found) return;
    tidy(entry());
    remove_unused_computations(module_);
  }

 private:
  Computation& entry() { return module_.entry_computation(); }
  bool is_too_large(const HloInstruction& fusion);
  bool part_results(const HloInstruction& fusion);
  bool part_sums(const HloInstruction& fusion);
  void use(InstructionId in_place_of, InstructionId id);

  hlo::Module& module_;
  const Target& target_;
};

bool LargeFusions::is_too_large(const HloInstruction& fusion) {
  if (fusion.opcode != HloOpcode::kFusion) return false;
  const bool has_parts = fusion.shape.is_tuple()
                             ? fusion.shape.elements.size() >= 2
                             : !inner_sums(module_.computation(fusion.called[0])).empty();
  if (!has_parts) return false;
  if (product_in(module_, fusion) != nullptr || joins_moves(module_, fusion)) return false;
  return !has_elementwise_kernel(module_, entry(), fusion, target_);
}

void LargeFusions::use(InstructionId in_place_of, InstructionId id) {
  for (HloInstruction& user : entry().instructions) {
    std::replace(user.operands.begin(), user.operands.end(), in_place_of, id);
  }
  if (entry().root == in_place_of) entry().root = id;
}

bool LargeFusions::part_results(const HloInstruction& fusion) {
  const Computation fused = module_.computation(fusion.called[0]);
  std::vector<InstructionId> results;
  for (std::size_t k = 0; k < fusion.shape.elements.size(); ++k) {
    Computation part = fused;
    part.root = fused.at(fused.root).operands[k];
    results.push_back(append(
        entry(), fusion_of(module_, fusion, std::move(part), ".result." + std::to_string(k))));
  }
  for (std::size_t j = 0; j < entry().instructions.size(); ++j) {
    const HloInstruction& element = entry().at(static_cast<InstructionId>(j));
    if (element.opcode != HloOpcode::kGetTupleElement || element.operands[0] != fusion.id) continue;
    use(element.id, results[static_cast<std::size_t>(element.tuple_index)]);
  }
  if (entry().root != fusion.id) return true;
  HloInstruction tuple;
  tuple.opcode = HloOpcode::kTuple;
  tuple.name = fusion.name + ".results";
  tuple.shape = fusion.shape;
  tuple.operands = results;
  entry().root = append(entry(), std::move(tuple));
  return true;
}

bool LargeFusions::part_sums(const HloInstruction& fusion) {
  Computation rest = module_.computation(fusion.called[0]);
  HloInstruction with_sums = fusion;
  for (const InstructionId sum : inner_sums(rest)) {
    Computation part = module_.computation(fusion.called[0]);
    part.root = sum;
    HloInstruction& read = rest.at(sum);
    const std::string name = ".sum." + std::to_string(sum);
    with_sums.operands.push_back(
        append(entry(), fusion_of(module_, fusion, std::move(part), name)));
    read.opcode = HloOpcode::kParameter;
    read.parameter_number = static_cast<std::int64_t>(with_sums.operands.size()) - 1;
    read.operands.clear();
    read.called.clear();
    read.dimensions.clear();
  }
  if (with_sums.operands.size() == fusion.operands.size()) return false;
  use(fusion.id, append(entry(), fusion_of(module_, with_sums, std::move(rest), ".rest")));
  return true;
}

}  // namespace

void part_large_fusions(hlo::Module& module, const Target& target) {
  LargeFusions(module, target).run();
}

}  // namespace tpu::compiler
