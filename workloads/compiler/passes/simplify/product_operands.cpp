#include "workloads/compiler/passes/simplify/product_operands.h"

#include <algorithm>

#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// Dots that may read the rounded value as often as they do now and still move fewer bytes.
constexpr std::size_t kMostReaders = 2;

bool is_rounded_parameter(const Computation& entry, const HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kConvert || instruction.shape.type != ElementType::kBf16) {
    return false;
  }
  const HloInstruction& source = entry.at(instruction.operands[0]);
  return source.opcode == HloOpcode::kParameter && source.shape.type == ElementType::kF32;
}

}  // namespace

void read_parameters_unrounded(hlo::Module& module) {
  Computation& entry = module.entry_computation();
  const std::vector<std::vector<InstructionId>> users = users_of(entry);
  for (const HloInstruction& rounded : entry.instructions) {
    if (!is_rounded_parameter(entry, rounded) || rounded.id == entry.root) continue;
    const std::vector<InstructionId>& readers = users[static_cast<std::size_t>(rounded.id)];
    const bool only_dots = std::all_of(
        readers.begin(), readers.end(),
        [&entry](InstructionId reader) { return entry.at(reader).opcode == HloOpcode::kDot; });
    if (!only_dots || readers.size() > kMostReaders) continue;
    const InstructionId parameter = rounded.operands[0];
    for (InstructionId reader : readers) {
      std::vector<InstructionId>& sides = entry.at(reader).operands;
      std::replace(sides.begin(), sides.end(), rounded.id, parameter);
    }
  }
  tidy(entry);
}

}  // namespace tpu::compiler
