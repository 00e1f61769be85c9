#include "workloads/compiler/passes/expand/integer_widths.h"

#include <algorithm>
#include <cstdint>

#include "workloads/compiler/ir/constant_word.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

constexpr int kAllBits = 32;
/// Operations below the integer that are looked at, one under the other.
constexpr int kMostLevels = 8;

int width_of_number(std::uint64_t number) {
  int width = 0;
  while (width < kAllBits && number >> width != 0) ++width;
  return width;
}

bool is_word(ElementType type) { return type == ElementType::kS32 || type == ElementType::kU32; }

int width_within(const hlo::Computation& computation, hlo::InstructionId id, int levels) {
  const HloInstruction& made = computation.at(id);
  if (made.shape.type == ElementType::kPred) return 1;
  if (!is_word(made.shape.type) || levels == 0) return kAllBits;
  const auto below = [&](std::size_t operand) {
    return width_within(computation, made.operands[operand], levels - 1);
  };
  switch (made.opcode) {
    case HloOpcode::kConstant:
      return made.shape.rank() == 0 ? width_of_number(constant_word(made, made.shape.type))
                                    : kAllBits;
    case HloOpcode::kIota: {
      const auto d = static_cast<std::size_t>(made.dimensions.front());
      const std::int64_t last = std::max<std::int64_t>(made.shape.dimensions[d], 1) - 1;
      return width_of_number(static_cast<std::uint64_t>(last));
    }
    case HloOpcode::kBroadcast:
    case HloOpcode::kReshape:
    case HloOpcode::kTranspose:
    case HloOpcode::kSlice:
    case HloOpcode::kReverse:
    case HloOpcode::kCopy:
    case HloOpcode::kBitcastConvert:
    case HloOpcode::kConvert:
      return below(0);
    case HloOpcode::kSelect:
      return std::max(below(1), below(2));
    case HloOpcode::kOr:
    case HloOpcode::kXor:
      return std::max(below(0), below(1));
    case HloOpcode::kAnd:
      return std::min(below(0), below(1));
    default:
      return kAllBits;
  }
}

}  // namespace

int width_of(const hlo::Computation& computation, hlo::InstructionId integer) {
  return width_within(computation, integer, kMostLevels);
}

}  // namespace tpu::compiler
