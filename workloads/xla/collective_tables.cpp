#include "workloads/xla/collective_tables.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

namespace tpu::xla {
namespace {

/// Cores in the order in which JAX numbers the partitions of a 2x2 slice: a ring.
constexpr std::array<std::uint32_t, 8> kRing = {0, 1, 2, 3, 6, 7, 4, 5};

using Group = std::vector<std::int64_t>;

std::uint32_t device_of(const Group& group, std::size_t member) {
  return kRing.at(static_cast<std::size_t>(group[member]));
}

/// All cores where the operation names no groups; empty where a group has a partition too many.
std::vector<Group> groups_of(const hlo::HloInstruction& collective) {
  std::vector<Group> groups = collective.replica_groups;
  if (groups.empty()) {
    groups.emplace_back(kRing.size());
    std::iota(groups[0].begin(), groups[0].end(), 0);
  }
  for (const Group& group : groups) {
    for (const std::int64_t partition : group) {
      if (partition < 0 || partition >= static_cast<std::int64_t>(kRing.size())) return {};
    }
  }
  return groups;
}

/// Rank, next and previous of each partition along one axis of its group.
std::vector<std::uint32_t> gather_table(const std::vector<Group>& groups, const TableUse& use) {
  std::vector<std::uint32_t> table(4 * kRing.size());
  for (const Group& group : groups) {
    const bool is_grid = use.count > 1;
    if (is_grid && group.size() != std::size_t{1} << use.count) return {};
    const std::size_t length = is_grid ? 2 : group.size();
    const std::size_t step = is_grid ? std::size_t{1} << (use.count - 1 - use.number) : 1;
    for (std::size_t member = 0; member < group.size(); ++member) {
      const std::size_t rank = member / step % length;
      const std::size_t first = member - rank * step;
      std::uint32_t* row = &table[4 * static_cast<std::size_t>(group[member])];
      row[0] = static_cast<std::uint32_t>(rank);
      row[1] = device_of(group, first + (rank + 1) % length * step);
      row[2] = device_of(group, first + (rank + length - 1) % length * step);
    }
  }
  return table;
}

/// The number of its group and the rank in it of each partition.
std::vector<std::uint32_t> rank_table(const std::vector<Group>& groups) {
  std::vector<std::uint32_t> table(2 * kRing.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t rank = 0; rank < groups[g].size(); ++rank) {
      std::uint32_t* row = &table[2 * static_cast<std::size_t>(groups[g][rank])];
      row[0] = static_cast<std::uint32_t>(g);
      row[1] = static_cast<std::uint32_t>(rank);
    }
  }
  return table;
}

std::vector<std::uint32_t> device_table(const std::vector<Group>& groups) {
  std::vector<std::uint32_t> table;
  for (const Group& group : groups) {
    for (std::size_t rank = 0; rank < group.size(); ++rank) {
      table.push_back(device_of(group, rank));
    }
  }
  return table;
}

}  // namespace

std::vector<std::uint32_t> devices_of_partitions(std::uint32_t partitions) {
  if (partitions == kRing.size()) return {kRing.begin(), kRing.end()};
  std::vector<std::uint32_t> devices(partitions);
  std::iota(devices.begin(), devices.end(), 0U);
  return devices;
}

std::unordered_map<std::uint32_t, std::vector<TableUse>> table_uses(
    const isa::PackedListing& packed, const AddressUses& uses) {
  std::map<std::uint32_t, std::vector<std::pair<std::uint32_t, std::uint32_t>>> of_call;
  for (const isa::Allocation& allocation : packed.allocations()) {
    const auto found = uses.of_allocation.find(allocation.number);
    if (allocation.tag != kTableTag || found == uses.of_allocation.end()) continue;
    for (const CallOperand& use : found->second) {
      of_call[use.call].emplace_back(use.operand, allocation.number);
    }
  }
  std::unordered_map<std::uint32_t, std::vector<TableUse>> tables;
  for (auto& [call, operands] : of_call) {
    std::sort(operands.begin(), operands.end());
    for (std::uint32_t k = 0; k < operands.size(); ++k) {
      tables[operands[k].second].push_back({call, k, static_cast<std::uint32_t>(operands.size())});
    }
  }
  return tables;
}

std::vector<std::uint32_t> collective_table(const hlo::HloInstruction& collective,
                                            std::uint32_t partitions, std::size_t words,
                                            const TableUse& use) {
  if (partitions != kRing.size()) return {};
  const std::vector<Group> groups = groups_of(collective);
  if (groups.empty()) return {};
  std::vector<std::uint32_t> table;
  if (collective.opcode == hlo::HloOpcode::kAllGather) {
    table = gather_table(groups, use);
  } else if (collective.opcode == hlo::HloOpcode::kAllToAll) {
    table = words == 2 * kRing.size() ? rank_table(groups) : device_table(groups);
  }
  return table.size() == words ? table : std::vector<std::uint32_t>{};
}

}  // namespace tpu::xla
