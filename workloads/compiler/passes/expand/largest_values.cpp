#include "workloads/compiler/passes/expand/largest_values.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tpu::compiler {

using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

std::uint64_t largest_of_type(ElementType type) {
  switch (type) {
    case ElementType::kPred:
      return 1;
    case ElementType::kU8:
      return 0xff;
    case ElementType::kU16:
      return 0xffff;
    case ElementType::kU32:
      return 0xffffffff;
    default:
      return kUnknown;
  }
}

bool is_unsigned(ElementType type) {
  return type == ElementType::kU64 || largest_of_type(type) != kUnknown;
}

std::uint64_t largest_of_literal(const HloInstruction& constant) {
  const auto size = static_cast<std::size_t>(hlo::byte_size(constant.shape.type));
  std::uint64_t most = 0;
  for (std::size_t at = 0; at + size <= constant.literal.size(); at += size) {
    std::uint64_t element = 0;
    std::memcpy(&element, constant.literal.data() + at, size);  // Little-endian, as the host.
    most = std::max(most, element);
  }
  return most;
}

/// Of two operands' largest values that of the result, before it is cut to the type; kUnknown
/// where it may not fit 64 bits.
std::uint64_t largest_of_two(HloOpcode opcode, std::uint64_t a, std::uint64_t b) {
  switch (opcode) {
    case HloOpcode::kAdd:
      return a > kUnknown - b ? kUnknown : a + b;
    case HloOpcode::kMultiply:
      return b != 0 && a > kUnknown / b ? kUnknown : a * b;
    case HloOpcode::kAnd:
    case HloOpcode::kMinimum:
      return std::min(a, b);
    case HloOpcode::kMaximum:
      return std::max(a, b);
    case HloOpcode::kRemainder:
      return a;
    default:
      return kUnknown;
  }
}

/// Right shifts by one number, whatever the element.
std::uint64_t amount_of_shift(const Computation& computation, InstructionId amount) {
  const HloInstruction* instruction = &computation.at(amount);
  while (instruction->opcode == HloOpcode::kBroadcast) {
    instruction = &computation.at(instruction->operands[0]);
  }
  const bool is_number = instruction->opcode == HloOpcode::kConstant &&
                         instruction->shape.rank() == 0 && is_unsigned(instruction->shape.type);
  return is_number ? largest_of_literal(*instruction) : 0;
}

std::uint64_t largest_of(const Computation& computation, const HloInstruction& instruction,
                         const std::vector<std::uint64_t>& known) {
  const auto of = [&](std::size_t operand) {
    return known[static_cast<std::size_t>(instruction.operands[operand])];
  };
  switch (instruction.opcode) {
    case HloOpcode::kConstant:
      return largest_of_literal(instruction);
    case HloOpcode::kIota: {
      const auto d = static_cast<std::size_t>(instruction.dimensions.at(0));
      const std::int64_t extent = instruction.shape.dimensions[d];
      return static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 1) - 1);
    }
    case HloOpcode::kConvert:
    case HloOpcode::kBroadcast:
    case HloOpcode::kReshape:
    case HloOpcode::kBitcast:
    case HloOpcode::kTranspose:
    case HloOpcode::kCopy:
    case HloOpcode::kSlice:
    case HloOpcode::kReverse:
      return of(0);
    case HloOpcode::kSelect:
      return std::max(of(1), of(2));
    case HloOpcode::kConcatenate: {
      std::uint64_t most = 0;
      for (std::size_t i = 0; i < instruction.operands.size(); ++i) most = std::max(most, of(i));
      return most;
    }
    case HloOpcode::kShiftRightLogical: {
      const std::uint64_t by = amount_of_shift(computation, instruction.operands[1]);
      return by >= 64 ? 0 : of(0) >> by;
    }
    default:
      if (instruction.operands.size() != 2) return kUnknown;
      return largest_of_two(instruction.opcode, of(0), of(1));
  }
}

}  // namespace

std::vector<std::uint64_t> largest_values(const Computation& computation) {
  std::vector<std::uint64_t> known;
  for (const HloInstruction& instruction : computation.instructions) {
    if (instruction.shape.is_tuple() || !is_unsigned(instruction.shape.type)) {
      known.push_back(kUnknown);
      continue;
    }
    const std::uint64_t of_type = largest_of_type(instruction.shape.type);
    known.push_back(std::min(of_type, largest_of(computation, instruction, known)));
  }
  return known;
}

}  // namespace tpu::compiler
