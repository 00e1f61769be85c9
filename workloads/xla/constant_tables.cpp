#include "workloads/xla/constant_tables.h"

#include <algorithm>
#include <set>

#include "sim/base/error.h"

namespace tpu::xla {
namespace {

constexpr const char* kTag = "constant literal";

bool same_layout(const hlo::Shape& a, const hlo::Shape& b) {
  return hlo::same_extent(a, b) && a.layout.minor_to_major == b.layout.minor_to_major &&
         a.layout.tiles == b.layout.tiles;
}

}  // namespace

std::vector<ConstantLiteral> find_constants(const isa::Listing& top_level,
                                            const isa::PackedListing& packed,
                                            const AddressUses& uses, const hlo::Module& hlo) {
  std::vector<ConstantLiteral> constants;
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
      std::set<std::string> wanted;
      const auto users = uses.of_allocation.find(allocation.number);
      if (users != uses.of_allocation.end()) {
        for (const CallOperand& use : users->second) {
          const std::vector<std::string>& names = top_level.calls[use.call].operands;
          if (use.operand < names.size()) wanted.insert(names[use.operand]);
        }
      }
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
