#include "workloads/graph/compulsory_bytes.h"

#include <algorithm>

namespace tpu::hlo {

namespace {

/// Bytes of the arrays of a shape that stand in HBM: memory space 0.
std::int64_t bytes_in_hbm(const Shape& shape) {
  if (!shape.is_tuple()) return shape.layout.memory_space == 0 ? shape.unpadded_bytes() : 0;
  std::int64_t sum = 0;
  for (const Shape& element : shape.elements) sum += bytes_in_hbm(element);
  return sum;
}

/// The same array under another name or shape.
bool passes_on(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kBitcast;
}

bool is_fusion(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kFusion && instruction.called.size() == 1;
}

/// Uses of a value that need all of it, and the bytes of the parts that the others take.
struct Uses {
  bool is_whole = false;
  std::int64_t parts = 0;
};

bool takes_a_part(HloOpcode opcode) {
  return opcode == HloOpcode::kSlice || opcode == HloOpcode::kDynamicSlice ||
         opcode == HloOpcode::kGather;
}

/// Operations that change a part of operand 0 in its place.
bool updates_in_place(HloOpcode opcode) {
  return opcode == HloOpcode::kDynamicUpdateSlice || opcode == HloOpcode::kScatter;
}

/// Bytes of the update that operand 0 of such an operation takes.
std::int64_t update_bytes(const Computation& computation, const HloInstruction& instruction) {
  const bool is_slice = instruction.opcode == HloOpcode::kDynamicUpdateSlice;
  const std::size_t arrays = is_slice ? 1 : instruction.operands.size() / 2;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < arrays; ++i) {
    const InstructionId update =
        is_slice ? instruction.operands.at(1) : instruction.operands.at(arrays + 1 + i);
    sum += bytes_in_hbm(computation.at(update).shape);
  }
  return sum;
}

/// Bytes that the user reads of its operand `which`; negative: all of it.
std::int64_t part_read(const Computation& computation, const HloInstruction& user,
                       std::size_t which) {
  if (takes_a_part(user.opcode) && which == 0) return bytes_in_hbm(user.shape);
  if (user.opcode == HloOpcode::kDynamicUpdateSlice && which == 0) return 0;
  // A combiner takes the rows that it changes.
  if (user.opcode == HloOpcode::kScatter && which < user.operands.size() / 2) {
    return update_bytes(computation, user);
  }
  return -1;
}

Uses uses_of_parameter(const Module& module, const Computation& computation, std::size_t number);

void add_uses(const Module& module, const Computation& computation, InstructionId value,
              Uses& uses) {
  for (const HloInstruction& user : computation.instructions) {
    for (std::size_t which = 0; which < user.operands.size(); ++which) {
      if (user.operands[which] != value) continue;
      if (passes_on(user)) {
        add_uses(module, computation, user.id, uses);
      } else if (is_fusion(user)) {
        const Uses inner = uses_of_parameter(module, module.computation(user.called[0]), which);
        uses.is_whole = uses.is_whole || inner.is_whole;
        uses.parts += inner.parts;
      } else {
        const std::int64_t part = part_read(computation, user, which);
        uses.is_whole = uses.is_whole || part < 0;
        uses.parts += std::max<std::int64_t>(part, 0);
      }
    }
  }
  uses.is_whole = uses.is_whole || computation.root == value;
}

Uses uses_of_parameter(const Module& module, const Computation& computation, std::size_t number) {
  Uses uses;
  for (const HloInstruction& parameter : computation.instructions) {
    if (parameter.opcode == HloOpcode::kParameter &&
        parameter.parameter_number == static_cast<std::int64_t>(number)) {
      add_uses(module, computation, parameter.id, uses);
    }
  }
  return uses;
}

/// Bytes that a computation has to write for the value `id`, part of its result.
std::int64_t bytes_written(const Module& module, const Computation& computation, InstructionId id,
                           const Shape& place) {
  const HloInstruction& instruction = computation.at(id);
  if (instruction.opcode == HloOpcode::kTuple && place.is_tuple()) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
      sum += bytes_written(module, computation, instruction.operands[i], place.elements.at(i));
    }
    return sum;
  }
  if (passes_on(instruction)) {
    return bytes_written(module, computation, instruction.operands.at(0), place);
  }
  if (is_fusion(instruction)) {
    const Computation& inner = module.computation(instruction.called[0]);
    return bytes_written(module, inner, inner.root, place);
  }
  if (updates_in_place(instruction.opcode)) {
    return std::min(bytes_in_hbm(place), update_bytes(computation, instruction));
  }
  return bytes_in_hbm(place);
}

/// Instructions that name values and make none, and the ends of what began elsewhere.
bool is_free(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kParameter:
    case HloOpcode::kConstant:
    case HloOpcode::kTuple:
    case HloOpcode::kGetTupleElement:
    case HloOpcode::kBitcast:
    case HloOpcode::kOptimizationBarrier:
    case HloOpcode::kAfterAll:
    case HloOpcode::kAddDependency:
    case HloOpcode::kPartitionId:
    case HloOpcode::kReplicaId:
    case HloOpcode::kAsyncUpdate:
    case HloOpcode::kAsyncDone:
    case HloOpcode::kCopyDone:
    case HloOpcode::kAllReduceDone:
    case HloOpcode::kAllGatherDone:
    case HloOpcode::kCollectivePermuteDone:
      return true;
    default:
      return false;
  }
}

/// What a start of an asynchronous operation holds beside its result: operands and context.
const Shape& result_of(const HloInstruction& instruction) {
  const std::vector<Shape>& elements = instruction.shape.elements;
  switch (instruction.opcode) {
    case HloOpcode::kCopyStart:
      return elements.empty() ? instruction.shape : elements[0];
    case HloOpcode::kAsyncStart:
    case HloOpcode::kAllGatherStart:
    case HloOpcode::kCollectivePermuteStart:
      return elements.size() < 2 ? instruction.shape : elements[1];
    default:
      return instruction.shape;
  }
}

bool is_scalar_constant(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kConstant && !instruction.shape.is_tuple() &&
         instruction.shape.rank() == 0;
}

/// Bytes that an instruction reads of an array, once however often it is an operand: as the largest
/// of its uses.
std::int64_t bytes_read(const Module& module, const Computation& computation,
                        const HloInstruction& instruction, InstructionId array) {
  const std::int64_t whole = bytes_in_hbm(computation.at(array).shape);
  std::int64_t most = 0;
  for (std::size_t which = 0; which < instruction.operands.size(); ++which) {
    if (instruction.operands[which] != array) continue;
    std::int64_t part = 0;
    if (is_fusion(instruction)) {
      const Uses uses = uses_of_parameter(module, module.computation(instruction.called[0]), which);
      part = uses.is_whole ? -1 : uses.parts;
    } else {
      part = part_read(computation, instruction, which);
    }
    most = std::max(most, part < 0 ? whole : std::min(part, whole));
  }
  return most;
}

}  // namespace

std::int64_t compulsory_bytes(const Module& module, const Computation& computation,
                              const HloInstruction& instruction) {
  if (is_free(instruction.opcode) || is_allocation(instruction)) return 0;
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < instruction.operands.size(); ++k) {
    const InstructionId id = instruction.operands[k];
    const auto first = std::find(instruction.operands.begin(), instruction.operands.end(), id);
    const bool is_first = first - instruction.operands.begin() == static_cast<std::ptrdiff_t>(k);
    if (is_first && !is_scalar_constant(computation.at(id))) {
      sum += bytes_read(module, computation, instruction, id);
    }
  }
  if (is_fusion(instruction)) {
    const Computation& inner = module.computation(instruction.called[0]);
    return sum + bytes_written(module, inner, inner.root, instruction.shape);
  }
  if (updates_in_place(instruction.opcode)) {
    return sum + std::min(bytes_in_hbm(instruction.shape), update_bytes(computation, instruction));
  }
  return sum + bytes_in_hbm(result_of(instruction));
}

}  // namespace tpu::hlo
