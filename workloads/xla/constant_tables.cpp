#include "workloads/xla/constant_tables.h"

#include <algorithm>
#include <set>

#include "sim/base/error.h"

namespace tpu::xla {
namespace {

using isa::Opcode;

constexpr const char* kTag = "constant literal";

bool same_layout(const hlo::Shape& a, const hlo::Shape& b) {
  return hlo::same_extent(a, b) && a.layout.minor_to_major == b.layout.minor_to_major &&
         a.layout.tiles == b.layout.tiles;
}

/// The HLO names under which calls take each allocation: followed through scalar moves and spills,
/// along the text (the top-level program assigns each virtual name once).
std::unordered_map<std::uint32_t, std::set<std::string>> operand_names(
    const isa::Listing& top_level) {
  std::unordered_map<std::uint32_t, std::uint32_t> allocation_of_name;
  std::unordered_map<std::int32_t, std::uint32_t> allocation_of_word;
  std::unordered_map<std::uint32_t, std::uint32_t> allocation_of_instruction;
  for (const isa::HbmReference& reference : top_level.hbm_references) {
    allocation_of_instruction[reference.instruction] = reference.allocation;
  }
  std::unordered_map<std::uint32_t, std::set<std::string>> names;
  const isa::Kernel& kernel = top_level.kernel;
  for (std::uint32_t k = 0; k < kernel.instructions.size(); ++k) {
    const isa::Instruction& instruction = kernel.instructions[k];
    const isa::VirtualNames& virtual_names = kernel.names[k];
    const auto source = allocation_of_name.find(virtual_names.operands[0]);
    if (instruction.opcode == Opcode::kSmov) {
      const auto direct = allocation_of_instruction.find(k);
      if (direct != allocation_of_instruction.end()) {
        allocation_of_name[virtual_names.dest] = direct->second;
      } else if (virtual_names.operands[0] != 0 && source != allocation_of_name.end()) {
        allocation_of_name[virtual_names.dest] = source->second;
      }
    } else if (instruction.opcode == Opcode::kSst && virtual_names.operands[0] != 0 &&
               source != allocation_of_name.end()) {
      allocation_of_word[instruction.address.offset] = source->second;
    } else if (instruction.opcode == Opcode::kSld) {
      const auto word = allocation_of_word.find(instruction.address.offset);
      if (word != allocation_of_word.end() && instruction.address.base[0] == isa::kNoRegister) {
        allocation_of_name[virtual_names.dest] = word->second;
      }
    } else if (instruction.opcode == Opcode::kCall) {
      const isa::ListingCall& call = top_level.calls[instruction.operands[0].immediate];
      for (std::size_t n = 0; n < std::min(call.operands.size(), call.operand_names.size()); ++n) {
        const auto found = allocation_of_name.find(call.operand_names[n].second);
        if (found != allocation_of_name.end()) names[found->second].insert(call.operands[n]);
      }
    }
  }
  return names;
}

}  // namespace

std::vector<ConstantLiteral> find_constants(const isa::Listing& top_level,
                                            const isa::PackedListing& packed,
                                            const hlo::Module& hlo) {
  std::vector<ConstantLiteral> constants;
  std::unordered_map<std::uint32_t, std::set<std::string>> names;
  bool traced = false;
  for (const isa::Allocation& allocation : packed.allocations()) {
    if (allocation.tag != kTag) continue;
    const hlo::Shape shape = hlo::parse_shape(allocation.shape);
    std::vector<const hlo::HloInstruction*> found;
    for (const hlo::Computation& computation : hlo.computations) {
      for (const hlo::HloInstruction& instruction : computation.instructions) {
        if (instruction.opcode != hlo::HloOpcode::kConstant) continue;
        if (!same_layout(instruction.shape, shape) || instruction.literal.empty()) continue;
        const bool known = std::any_of(found.begin(), found.end(), [&](const auto* other) {
          return other->literal == instruction.literal;
        });
        if (!known) found.push_back(&instruction);
      }
    }
    if (found.size() > 1) {
      if (!traced) names = operand_names(top_level);
      traced = true;
      const std::set<std::string>& wanted = names[allocation.number];
      found.clear();
      for (const hlo::Computation& computation : hlo.computations) {
        for (const hlo::HloInstruction& instruction : computation.instructions) {
          if (wanted.count(instruction.name) != 0 && !instruction.literal.empty() &&
              same_layout(instruction.shape, shape)) {
            found.push_back(&instruction);
          }
        }
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
