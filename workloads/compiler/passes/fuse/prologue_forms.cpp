#include "workloads/compiler/passes/fuse/prologue_forms.h"

#include <algorithm>
#include <set>
#include <vector>

#include "sim/base/contains.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/ir/lane_moves.h"
#include "workloads/compiler/passes/fuse/epilogue_forms.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

std::optional<MadeSides> PrologueForms::sides(const FusionDraft& draft) const {
  MadeSides found;
  const std::vector<InstructionId>& operands = at(draft.product).operands;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!contains(draft.inside, operands[i])) continue;
    const std::optional<MadeSide> side = made(operands[i], draft);
    if (!side) return std::nullopt;
    found[i] = *side;
  }
  return found;
}

/// Of its arrays one has the side's type: the side is made in its place.
std::optional<MadeSide> PrologueForms::made(InstructionId side, const FusionDraft& draft) const {
  const std::set<InstructionId> inside(draft.inside.begin(), draft.inside.end());
  const InstructionId value = made_for_side(
      entry_, at(side), [&inside](InstructionId id) { return inside.count(id) != 0; });
  const Shape& shape = at(value).shape;
  if (shape.rank() < 2) return std::nullopt;
  MadeSide made;
  made.is_made = true;
  made.type = shape.type;
  std::set<InstructionId> seen{value};
  std::vector<InstructionId> work{value};
  while (!work.empty()) {
    const InstructionId id = work.back();
    work.pop_back();
    const bool is_array = at(id).shape.dimensions == shape.dimensions;
    if (inside.count(id) == 0) {
      if (!is_array) continue;  // What spreads it has counted it.
      made.beside.push_back(at(id).shape.type);
      continue;
    }
    if (!add(made, id, shape)) return std::nullopt;
    for (InstructionId operand : at(id).operands) {
      if (seen.insert(operand).second) work.push_back(operand);
    }
  }
  const auto are_numbers = [](hlo::ElementType type) {
    return type == hlo::ElementType::kF32 || type == hlo::ElementType::kBf16;
  };
  const auto place = std::find(made.beside.begin(), made.beside.end(), shape.type);
  if (place == made.beside.end() ||
      !std::all_of(made.beside.begin(), made.beside.end(), are_numbers)) {
    return std::nullopt;
  }
  made.beside.erase(place);
  return made;
}

/// An operation; false: no prologue has one like it.
bool PrologueForms::add(MadeSide& made, InstructionId id, const Shape& side) const {
  const HloInstruction& instruction = at(id);
  if (moves_lanes(entry_, instruction) || instruction.opcode == HloOpcode::kReduce) return false;
  const bool is_array = instruction.shape.dimensions == side.dimensions;
  if (instruction.opcode == HloOpcode::kIota && instruction.shape.rank() > 0) return false;
  if (!is_array) return instruction.shape.rank() <= 2;
  if (instruction.opcode == HloOpcode::kBroadcast) return add_spread(made, instruction, side);
  made.cost += vector_cost(instruction.opcode, instruction.shape.type);
  return true;
}

/// A scalar, a vector or a matrix that goes along one or both of the minor dimensions.
bool PrologueForms::add_spread(MadeSide& made, const HloInstruction& broadcast,
                               const Shape& side) const {
  const Shape& operand = at(broadcast.operands[0]).shape;
  const std::vector<std::int64_t>& order = side.layout.minor_to_major;
  if (operand.rank() == 0) return true;
  if (operand.rank() > 2 || (operand.rank() == 2 && order.size() <= 2)) return false;
  const auto along = [&](std::size_t minor) {
    return broadcast.dimensions[static_cast<std::size_t>(operand.layout.minor_to_major[minor])];
  };
  const bool is_column = operand.rank() == 1 && along(0) == order[1];
  if (along(0) != order[0] && !is_column) return false;
  if (operand.rank() == 2 && along(1) != order[1]) return false;
  if (is_column && static_cast<std::uint64_t>(operand.element_count()) > kLongestRowVector) {
    return false;
  }
  if (granules(operand) > limits_.convolution_matrices) return false;
  made.depends_on_rows |= is_column || operand.rank() == 2;
  made.resident_rows += resident_rows(operand, is_column);
  return true;
}

}  // namespace tpu::compiler
