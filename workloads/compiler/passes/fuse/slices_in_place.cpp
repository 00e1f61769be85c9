#include "workloads/compiler/passes/fuse/slices_in_place.h"

#include <algorithm>
#include <optional>

#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/ir/lane_moves.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

/// The extent that the kernel of a fused computation visits.
const Shape& space_of(const Computation& fused) {
  const Shape* space = nullptr;
  for (const HloInstruction& instruction : fused.instructions) {
    if (instruction.opcode == HloOpcode::kReduce) space = &fused.at(instruction.operands[0]).shape;
  }
  if (space != nullptr) return *space;
  const HloInstruction& root = fused.at(fused.root);
  return root.opcode == HloOpcode::kTuple ? fused.at(root.operands[0]).shape : root.shape;
}

/// Whether row tiles of both hold the same elements, or fewer of the lanes of a single tile; those
/// of packed ones take half of the bytes.
bool has_same_rows(const Shape& a, const Shape& b) {
  const std::vector<std::vector<std::int64_t>>&a_tiles = a.layout.tiles, &b_tiles = b.layout.tiles;
  return a.layout.minor_to_major == b.layout.minor_to_major && !a_tiles.empty() &&
         !b_tiles.empty() && a_tiles[0] == b_tiles[0] &&
         (a.dimensions == b.dimensions || lie_in_same_tiles(a, b));
}

/// Whether the kernel reads the parameter element by element.
bool is_streamed(const Computation& fused, InstructionId parameter) {
  const Shape& shape = fused.at(parameter).shape;
  const Shape& space = space_of(fused);
  if (!has_same_rows(shape, space)) return false;
  return std::all_of(
      fused.instructions.begin(), fused.instructions.end(), [&](const HloInstruction& user) {
        const std::vector<InstructionId>& operands = user.operands;
        if (std::count(operands.begin(), operands.end(), parameter) == 0) {
          return true;
        }
        if (moves_lanes(fused, user)) return true;
        return user.shape.dimensions == shape.dimensions ? hlo::is_elementwise(user.opcode)
                                                         : user.opcode == HloOpcode::kReduce;
      });
}

/// The array without dimensions of one outside of its tiles, as it lies.
std::vector<std::int64_t> extents_of_tiles(const Shape& shape) {
  std::vector<std::int64_t> extents = physical_extents(shape);
  const auto tiles = extents.size() < 2 ? extents.begin() : extents.end() - 2;
  extents.erase(std::remove(extents.begin(), tiles, 1), tiles);
  return extents;
}

/// Whether it is another name of a slice, with fewer or more dimensions of one outside of the
/// tiles.
bool renames_slice(const Computation& computation, const HloInstruction& bitcast) {
  if (bitcast.opcode != HloOpcode::kBitcast || is_named_part(bitcast)) return false;
  const HloInstruction& slice = computation.at(bitcast.operands[0]);
  return slice.opcode == HloOpcode::kSlice && slice.shape.type == bitcast.shape.type &&
         slice.shape.rank() >= 2 && bitcast.shape.rank() >= 2 &&
         extents_of_tiles(slice.shape) == extents_of_tiles(bitcast.shape);
}

/// The slice that an operand is, or another name of.
InstructionId slice_behind(const Computation& computation, InstructionId operand) {
  const HloInstruction& given = computation.at(operand);
  return renames_slice(computation, given) ? given.operands[0] : operand;
}

/// The parameter becomes the array, and what is made of it, a slice or another name of one, takes
/// its place.
void slice_parameter(Computation& fused, InstructionId parameter, const Computation& entry,
                     InstructionId operand) {
  const std::size_t count = fused.instructions.size();
  const InstructionId slice = slice_behind(entry, operand);
  const auto append_copy = [&](InstructionId of, InstructionId given) {
    HloInstruction inner = entry.at(of);
    inner.name += "." + fused.at(parameter).name;
    inner.operands = {given};
    inner.control_predecessors.reset();
    return append(fused, std::move(inner));
  };
  InstructionId made = append_copy(slice, parameter);
  if (slice != operand) made = append_copy(operand, made);
  fused.at(parameter).shape = entry.at(entry.at(slice).operands[0]).shape;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<InstructionId>& operands = fused.instructions[i].operands;
    std::replace(operands.begin(), operands.end(), parameter, made);
  }
}

/// What a slice takes of its array; none for other instructions and where it begins inside of a row
/// tile.
std::optional<ArrayPart> part_in_place(const Computation& computation, InstructionId slice) {
  const HloInstruction& instruction = computation.at(slice);
  if (instruction.opcode != HloOpcode::kSlice) return std::nullopt;
  return part_of_slice(computation.at(instruction.operands[0]).shape, instruction);
}

/// Whether a fusion reads the operand element by element, in a kernel around no product.
bool streams(const hlo::Module& module, const HloInstruction& fusion, std::size_t operand) {
  if (fusion.opcode != HloOpcode::kFusion || fusion.fusion_kind.get() == "kOutput") return false;
  const Computation& fused = module.computations[static_cast<std::size_t>(fusion.called[0])];
  return is_streamed(fused, fused.parameters()[operand]);
}

/// A slice that is written for others anyway is read as it was written where it turns in its lanes,
/// and where a pad or slice moves it: a kernel may read it around its blocks then.
std::vector<char> slices_to_read_written(const hlo::Module& module) {
  const Computation& entry = module.entry_computation();
  std::vector<char> found(entry.instructions.size(), 0);
  for (const HloInstruction& user : entry.instructions) {
    for (std::size_t i = 0; i < user.operands.size(); ++i) {
      const InstructionId operand = user.operands[i];
      const InstructionId slice = slice_behind(entry, operand);
      const std::optional<ArrayPart> part = part_in_place(entry, slice);
      const bool is_moved = user.opcode == HloOpcode::kPad || user.opcode == HloOpcode::kSlice;
      if (part && (part->lanes > 0 || is_moved) && !streams(module, user, i)) {
        found[static_cast<std::size_t>(slice)] = 1;
      }
    }
  }
  return found;
}

}  // namespace

bool may_read_in_place(const Computation& computation, InstructionId slice) {
  return part_in_place(computation, slice).has_value();
}

void read_slices_in_place(hlo::Module& module) {
  Computation& entry = module.entry_computation();
  const std::vector<char> stays = slices_to_read_written(module);
  bool changed = false;
  for (HloInstruction& fusion : entry.instructions) {
    if (fusion.opcode != HloOpcode::kFusion) continue;
    Computation& fused = module.computations[static_cast<std::size_t>(fusion.called[0])];
    const std::vector<InstructionId> parameters = fused.parameters();
    bool has_slices = false;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const InstructionId operand = fusion.operands[i], slice = slice_behind(entry, operand);
      if (!may_read_in_place(entry, slice) || !streams(module, fusion, i)) continue;
      if (stays[static_cast<std::size_t>(slice)]) continue;
      slice_parameter(fused, parameters[i], entry, operand);
      fusion.operands[i] = entry.at(slice).operands[0];
      has_slices = true;
    }
    if (has_slices) tidy(fused);
    changed |= has_slices;
  }
  if (changed) tidy(entry);
}

}  // namespace tpu::compiler
