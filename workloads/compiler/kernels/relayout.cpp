#include "sim/base/error.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/relayout_boxes.h"
#include "workloads/compiler/kernels/relayout_copy.h"
#include "workloads/compiler/passes/layouts.h"

namespace tpu::compiler {

namespace {

using hlo::HloOpcode;

[[noreturn]] void refuse(const hlo::Computation& computation,
                         const hlo::HloInstruction& instruction, const std::string& why) {
  std::string operands;
  for (hlo::InstructionId operand : instruction.operands) {
    if (!operands.empty()) operands += ", ";
    operands += hlo::to_string(computation.at(operand).shape);
  }
  throw WorkloadError("no kernel for " + std::string(hlo::to_string(instruction.opcode)) + " (" +
                      operands + ") -> " + hlo::to_string(instruction.shape) + " \"" +
                      instruction.name + "\": " + why);
}

/// The word (two equal halves for packed types) of a scalar constant.
std::uint32_t word_of(const hlo::HloInstruction& constant, hlo::ElementType type) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < constant.literal.size() && i < 4; ++i) {
    bits |= std::uint32_t{constant.literal[i]} << (8 * i);
  }
  if (type != hlo::ElementType::kBf16) {
    return constant.shape.type == hlo::ElementType::kBf16 ? bits << 16 : bits;
  }
  const std::uint32_t half =
      constant.shape.type == hlo::ElementType::kBf16 ? bits & 0xffff : bits >> 16;
  return half << 16 | half;
}

}  // namespace

LoweredKernel lower_relayout(const hlo::Module&, const hlo::Computation& computation,
                             const hlo::HloInstruction& instruction, const Target& target) {
  const std::optional<std::vector<Box>> boxes = boxes_of(computation, instruction);
  if (!boxes) refuse(computation, instruction, "expected the same order of dimensions");
  std::vector<TileMove> moves;
  for (const Box& box : *boxes) {
    const hlo::Shape& source =
        computation.at(instruction.operands[static_cast<std::size_t>(box.source)]).shape;
    const std::optional<TileRuns> runs = tile_runs(box, source, instruction.shape);
    if (!runs) refuse(computation, instruction, "expected to move whole tiles of 8 x 128");
    moves.push_back({box.source, *runs});
  }
  const bool fills = instruction.opcode == HloOpcode::kPad;
  std::uint32_t fill = 0;
  if (fills) {
    const hlo::HloInstruction& value = computation.at(instruction.operands.at(1));
    if (value.opcode != HloOpcode::kConstant) {
      refuse(computation, instruction, "expected a constant padding value");
    }
    fill = word_of(value, instruction.shape.type);
  }
  return emit_tile_moves(instruction.name, moves, static_cast<int>(instruction.operands.size()),
                         granules(instruction.shape), fills, fill, target);
}

}  // namespace tpu::compiler
