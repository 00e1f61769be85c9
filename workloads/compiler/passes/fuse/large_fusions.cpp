#include "workloads/compiler/passes/fuse/large_fusions.h"

#include <algorithm>
#include <map>
#include <utility>

#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// The fusion of one of the results; the operands that it does not need are left out.
HloInstruction fusion_of_result(hlo::Module& module, const HloInstruction& fusion,
                                std::size_t result) {
  Computation part = module.computation(fusion.called[0]);
  part.name += ".result." + std::to_string(result);
  part.root = part.at(part.root).operands[result];
  tidy(part);
  HloInstruction made = fusion;
  made.name += ".result." + std::to_string(result);
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

bool is_too_large(const hlo::Module& module, const HloInstruction& fusion, const Target& target) {
  if (fusion.opcode != HloOpcode::kFusion || fusion.shape.elements.size() < 2) return false;
  if (product_in(module, fusion) != nullptr || joins_moves(module, fusion)) return false;
  return !has_elementwise_kernel(module, module.entry_computation(), fusion, target);
}

}  // namespace

void part_large_fusions(hlo::Module& module, const Target& target) {
  const std::size_t count = module.entry_computation().instructions.size();
  bool found = false;
  for (std::size_t i = 0; i < count; ++i) {
    const HloInstruction fusion = module.entry_computation().at(static_cast<InstructionId>(i));
    if (!is_too_large(module, fusion, target)) continue;
    found = true;
    std::vector<InstructionId> results;
    for (std::size_t k = 0; k < fusion.shape.elements.size(); ++k) {
      HloInstruction part = fusion_of_result(module, fusion, k);
      results.push_back(append(module.entry_computation(), std::move(part)));
    }
    Computation& entry = module.entry_computation();
    for (std::size_t j = 0; j < count; ++j) {
      HloInstruction& element = entry.at(static_cast<InstructionId>(j));
      if (element.opcode != HloOpcode::kGetTupleElement || element.operands[0] != fusion.id) {
        continue;
      }
      const InstructionId result = results[static_cast<std::size_t>(element.tuple_index)];
      for (HloInstruction& user : entry.instructions) {
        std::replace(user.operands.begin(), user.operands.end(), element.id, result);
      }
      if (entry.root == element.id) entry.root = result;
    }
    if (entry.root != fusion.id) continue;
    HloInstruction tuple;
    tuple.opcode = HloOpcode::kTuple;
    tuple.name = fusion.name + ".results";
    tuple.shape = fusion.shape;
    tuple.operands = results;
    entry.root = append(entry, std::move(tuple));
  }
  if (!found) return;
  tidy(module.entry_computation());
  remove_unused_computations(module);
}

}  // namespace tpu::compiler
