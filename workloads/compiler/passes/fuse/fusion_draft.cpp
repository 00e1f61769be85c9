#include "workloads/compiler/passes/fuse/fusion_draft.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

bool is_plain_reduce(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kReduce && !instruction.shape.is_tuple();
}

std::string extent_text(const Shape& shape) {
  std::string text;
  for (std::int64_t extent : shape.dimensions) text += " " + std::to_string(extent);
  for (std::int64_t d : shape.layout.minor_to_major) text += "," + std::to_string(d);
  return text;
}

InstructionId stepped_through(const Computation& entry, InstructionId id) {
  return is_plain_reduce(entry.at(id)) ? entry.at(id).operands[0] : id;
}

}  // namespace tpu::compiler
