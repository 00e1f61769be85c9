#include "workloads/compiler/ir/lane_moves.h"

#include <algorithm>

#include "isa/instruction.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloOpcode;

namespace {

/// Selections with as many tests of positions: more are kernels of their own.
constexpr std::size_t kMostJoined = 8;

bool stands_in_registers(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kBf16 || type == ElementType::kS32 ||
         type == ElementType::kU32;
}

/// Whether a slice or pad leaves all other dimensions as they are.
bool leaves_others(const hlo::HloInstruction& instruction, std::size_t lanes) {
  for (std::size_t d = 0; d < instruction.shape.dimensions.size(); ++d) {
    if (instruction.opcode == HloOpcode::kSlice) {
      if (instruction.slice->strides[d] != 1) return false;
      continue;
    }
    const hlo::PaddingDimension& padding = instruction.padding[d];
    if (padding.interior != 0 || padding.low < 0 || padding.high < 0) return false;
    if (d != lanes && (padding.low != 0 || padding.high != 0)) return false;
  }
  return true;
}

}  // namespace

bool lie_in_same_tiles(const hlo::Shape& a, const hlo::Shape& b) {
  const std::vector<std::int64_t>& order = a.layout.minor_to_major;
  if (a.is_tuple() || b.is_tuple() || a.rank() < 2 || order.empty()) return false;
  if (a.rank() != b.rank() || order != b.layout.minor_to_major) return false;
  const auto lanes = static_cast<std::size_t>(order[0]);
  for (std::size_t d = 0; d < a.dimensions.size(); ++d) {
    if (d != lanes && a.dimensions[d] != b.dimensions[d]) return false;
  }
  return a.dimensions[lanes] == b.dimensions[lanes] ||
         std::max(a.dimensions[lanes], b.dimensions[lanes]) <= isa::kLanes;
}

bool moves_lanes(const hlo::Computation& computation, const hlo::HloInstruction& instruction) {
  const bool is_join = instruction.opcode == HloOpcode::kConcatenate;
  const bool is_box =
      instruction.opcode == HloOpcode::kSlice || instruction.opcode == HloOpcode::kPad;
  const hlo::Shape& shape = instruction.shape;
  if ((!is_join && !is_box) || !stands_in_registers(shape.type)) return false;
  const std::vector<std::int64_t>& order = shape.layout.minor_to_major;
  if (shape.rank() < 2 || order.empty()) return false;
  const auto lanes = static_cast<std::size_t>(order[0]);
  if (shape.dimensions[lanes] > isa::kLanes) return false;
  const auto is_alike = [&](hlo::InstructionId operand) {
    const hlo::Shape& given = computation.at(operand).shape;
    return given.type == shape.type && lie_in_same_tiles(given, shape);
  };
  if (is_box) return is_alike(instruction.operands[0]) && leaves_others(instruction, lanes);
  return instruction.operands.size() <= kMostJoined && instruction.dimensions[0] == order[0] &&
         std::all_of(instruction.operands.begin(), instruction.operands.end(), is_alike);
}

}  // namespace tpu::compiler
