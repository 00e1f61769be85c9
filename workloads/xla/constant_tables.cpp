#include "workloads/xla/constant_tables.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "sim/base/error.h"

namespace tpu::xla {
namespace {

constexpr const char* kTag = "constant literal";

bool same_layout(const hlo::Shape& a, const hlo::Shape& b) {
  return hlo::same_extent(a, b) && a.layout.minor_to_major == b.layout.minor_to_major &&
         a.layout.tiles == b.layout.tiles;
}

/// Cores in the order in which JAX numbers the partitions of a 2x2 slice: a ring.
constexpr std::array<std::uint32_t, 8> kRing = {0, 1, 2, 3, 6, 7, 4, 5};

}  // namespace

std::vector<std::uint32_t> collective_table(const hlo::HloInstruction& collective,
                                            std::uint32_t partitions, std::size_t words) {
  std::vector<std::uint32_t> table;
  const bool gather = collective.opcode == hlo::HloOpcode::kAllGather;
  const bool to_all = collective.opcode == hlo::HloOpcode::kAllToAll;
  if ((!gather && !to_all) || partitions != kRing.size()) return table;
  std::vector<std::vector<std::int64_t>> groups = collective.replica_groups;
  if (groups.empty()) {
    groups.emplace_back(kRing.size());
    std::iota(groups[0].begin(), groups[0].end(), 0);
  }
  const std::size_t row = words / partitions;
  table.resize(words);
  std::size_t listed = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::size_t count = groups[g].size();
    for (std::size_t rank = 0; rank < count; ++rank) {
      const auto partition = static_cast<std::size_t>(groups[g][rank]);
      if (partition >= kRing.size()) return {};
      const auto device = [&](std::size_t member) {
        return kRing[static_cast<std::size_t>(groups[g][member % count]) % kRing.size()];
      };
      if (gather && row == 4) {
        table[4 * partition] = static_cast<std::uint32_t>(rank);
        table[4 * partition + 1] = device(rank + 1);
        table[4 * partition + 2] = device(rank + count - 1);
      } else if (to_all && row == 2) {
        table[2 * partition] = static_cast<std::uint32_t>(g);
        table[2 * partition + 1] = static_cast<std::uint32_t>(rank);
      } else if (to_all && row == 1 && listed < words) {
        table[listed++] = device(rank);
      } else {
        return {};
      }
    }
  }
  return table;
}

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
