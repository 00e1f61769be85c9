#include "workloads/xla/constant_tables.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "sim/base/error.h"
#include "workloads/xla/op_info.h"

namespace tpu::xla {
namespace {

constexpr const char* kTag = "constant literal";

bool same_layout(const hlo::Shape& a, const hlo::Shape& b) {
  return hlo::same_extent(a, b) && a.layout.minor_to_major == b.layout.minor_to_major &&
         a.layout.tiles == b.layout.tiles;
}

using Candidates = std::vector<const hlo::HloInstruction*>;

/// Adds a constant unless one of the same value is there.
void add(Candidates& found, const hlo::HloInstruction& constant) {
  const bool known = std::any_of(found.begin(), found.end(), [&](const auto* other) {
    return other->literal == constant.literal;
  });
  if (!known && !constant.literal.empty()) found.push_back(&constant);
}

/// The constants of this shape and layout, each value once.
Candidates constants_of(const hlo::Module& hlo, const hlo::Shape& shape) {
  Candidates found;
  for (const hlo::Computation& computation : hlo.computations) {
    for (const hlo::HloInstruction& instruction : computation.instructions) {
      if (instruction.opcode != hlo::HloOpcode::kConstant) continue;
      if (same_layout(instruction.shape, shape)) add(found, instruction);
    }
  }
  return found;
}

/// Follows a value back to the constant whose buffer it is: through tuples, and out of the bodies
/// of loops, branches and calls to what their callers hand over.
class ConstantOrigins {
 public:
  explicit ConstantOrigins(const hlo::Module& hlo) : hlo_(hlo), index_(hlo) {
    for (std::size_t c = 0; c < hlo.computations.size(); ++c) {
      for (const hlo::HloInstruction& instruction : hlo.computations[c].instructions) {
        for (const hlo::ComputationId called : instruction.called) {
          callers_[called] = {static_cast<hlo::ComputationId>(c), instruction.id};
        }
      }
    }
  }

  /// Null where the value of this name is no constant.
  const hlo::HloInstruction* behind(const std::string& name) const {
    InstructionIndex::Place at = index_.find(name);
    std::vector<std::int64_t> path;  // Elements of tuples, the innermost first.
    for (std::size_t steps = 0; at.instruction >= 0 && steps < kMaxSteps; ++steps) {
      const hlo::HloInstruction& instruction = hlo_.computation(at.computation).at(at.instruction);
      if (instruction.opcode == hlo::HloOpcode::kConstant) {
        return path.empty() ? &instruction : nullptr;
      }
      at = before(instruction, at.computation, path);
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t kMaxSteps = 1000;

  InstructionIndex::Place before(const hlo::HloInstruction& instruction,
                                 hlo::ComputationId computation,
                                 std::vector<std::int64_t>& path) const {
    switch (instruction.opcode) {
      case hlo::HloOpcode::kGetTupleElement:
        path.push_back(instruction.tuple_index);
        return {computation, instruction.operands.at(0)};
      case hlo::HloOpcode::kTuple: {
        if (path.empty()) return {};
        const auto element = static_cast<std::size_t>(path.back());
        path.pop_back();
        if (element >= instruction.operands.size()) return {};
        return {computation, instruction.operands[element]};
      }
      case hlo::HloOpcode::kWhile:  // What a loop hands on unchanged.
      case hlo::HloOpcode::kBitcast:
        return {computation, instruction.operands.at(0)};
      case hlo::HloOpcode::kParameter:
        return handed_over(instruction, computation);
      default:
        return {};
    }
  }

  /// The operand of the caller that becomes this parameter.
  InstructionIndex::Place handed_over(const hlo::HloInstruction& parameter,
                                      hlo::ComputationId computation) const {
    const auto caller = callers_.find(computation);
    if (caller == callers_.end()) return {};
    const hlo::HloInstruction& instruction =
        hlo_.computation(caller->second.computation).at(caller->second.instruction);
    auto number = static_cast<std::size_t>(parameter.parameter_number);
    if (instruction.opcode == hlo::HloOpcode::kConditional) {
      const auto branch =
          std::find(instruction.called.begin(), instruction.called.end(), computation);
      number = 1 + static_cast<std::size_t>(branch - instruction.called.begin());
    }
    if (number >= instruction.operands.size()) return {};
    return {caller->second.computation, instruction.operands[number]};
  }

  const hlo::Module& hlo_;
  InstructionIndex index_;
  std::unordered_map<hlo::ComputationId, InstructionIndex::Place> callers_;
};

}  // namespace

std::vector<ConstantLiteral> find_constants(const isa::Listing& top_level,
                                            const isa::PackedListing& packed,
                                            const AddressUses& uses, const hlo::Module& hlo) {
  const ConstantOrigins origins(hlo);
  std::vector<ConstantLiteral> constants;
  for (const isa::Allocation& allocation : packed.allocations()) {
    if (allocation.tag != kTag) continue;
    const hlo::Shape shape = hlo::parse_shape(allocation.shape);
    Candidates found = constants_of(hlo, shape);
    const auto users = uses.of_allocation.find(allocation.number);
    if (found.size() > 1 && users != uses.of_allocation.end()) {
      found.clear();
      for (const CallOperand& use : users->second) {
        const std::vector<std::string>& names = top_level.calls[use.call].operands;
        if (use.operand >= names.size()) continue;
        const hlo::HloInstruction* constant = origins.behind(names[use.operand]);
        if (constant != nullptr && same_layout(constant->shape, shape)) add(found, *constant);
      }
    }
    if (found.size() != 1) {
      throw WorkloadError(packed.file() + ": expected one constant " + allocation.shape +
                          " in the HLO for #allocation" + std::to_string(allocation.number) +
                          ", found " + std::to_string(found.size()));
    }
    ConstantLiteral constant;
    constant.allocation = allocation.number;
    constant.name = found[0]->name;
    constant.shape = shape;
    constant.words = hlo::pack(shape, found[0]->literal);
    constants.push_back(std::move(constant));
  }
  return constants;
}

}  // namespace tpu::xla
