#include "workloads/compiler/passes/fuse/fusion_draft.h"

#include <map>

#include "workloads/compiler/ir/lane_moves.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

bool is_matrix_product(const HloInstruction& instruction) {
  const bool is_convolution = instruction.opcode == HloOpcode::kConvolution &&
                              instruction.feature_group_count == 1 &&
                              instruction.batch_group_count == 1;
  return instruction.opcode == HloOpcode::kDot || is_convolution;
}

bool is_plain_reduce(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kReduce && !instruction.shape.is_tuple();
}

std::string extent_text(const Shape& shape) {
  std::string text;
  for (std::int64_t extent : shape.dimensions) text += " " + std::to_string(extent);
  for (std::int64_t d : shape.layout.minor_to_major) text += "," + std::to_string(d);
  return text;
}

SteppedExtents::SteppedExtents(const Computation& entry) {
  for (const HloInstruction& instruction : entry.instructions) {
    texts_.push_back(extent_text(instruction.shape));
  }
  std::map<std::string, std::string> same;
  const auto representative = [&same](std::string text) {
    for (auto next = same.find(text); next != same.end(); next = same.find(text)) {
      text = next->second;
    }
    return text;
  };
  for (const HloInstruction& instruction : entry.instructions) {
    if (!moves_lanes(entry, instruction)) continue;
    for (InstructionId operand : instruction.operands) {
      if (entry.at(operand).shape.rank() == 0) continue;
      const std::string from = representative(of(operand)), to = representative(of(instruction.id));
      if (from != to) same[from] = to;
    }
  }
  if (same.empty()) return;
  for (std::string& text : texts_) text = representative(text);
}

InstructionId stepped_through(const Computation& entry, InstructionId id) {
  return is_plain_reduce(entry.at(id)) ? entry.at(id).operands[0] : id;
}

}  // namespace tpu::compiler
