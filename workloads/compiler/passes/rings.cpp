#include "workloads/compiler/passes/rings.h"

#include <cstdlib>
#include <map>
#include <set>
#include <string>

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

constexpr const char* kRing = "ring=";

bool has_groups(HloOpcode opcode) {
  return opcode == HloOpcode::kAllReduce || opcode == HloOpcode::kAllGather ||
         opcode == HloOpcode::kReduceScatter || opcode == HloOpcode::kAllToAll;
}

bool is_everybody_in_order(const std::vector<std::vector<std::int64_t>>& groups,
                           std::int64_t replicas) {
  if (groups.empty() || (groups.size() == 1 && groups[0].empty())) return true;
  if (groups.size() != 1 || static_cast<std::int64_t>(groups[0].size()) != replicas) return false;
  for (std::size_t i = 0; i < groups[0].size(); ++i) {
    if (groups[0][i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

}  // namespace

void number_rings(hlo::Module& module) {
  std::map<std::vector<std::vector<std::int64_t>>, std::size_t> numbers;
  for (hlo::Computation& computation : module.computations) {
    for (HloInstruction& instruction : computation.instructions) {
      if (!has_groups(instruction.opcode)) continue;
      if (is_everybody_in_order(instruction.replica_groups, module.replicas)) {
        instruction.replica_groups.reset();
        continue;
      }
      const std::size_t number =
          numbers.emplace(instruction.replica_groups.get(), numbers.size() + 1).first->second;
      std::string& raw = instruction.raw_attributes.edit();
      raw += (raw.empty() ? "" : ", ") + std::string(kRing) + std::to_string(number);
    }
  }
}

Ring ring_of(const HloInstruction& instruction) {
  Ring ring;
  for (const std::vector<std::int64_t>& group : instruction.replica_groups.get()) {
    ring.groups.emplace_back(group.begin(), group.end());
  }
  const std::size_t at = instruction.raw_attributes->rfind(kRing);
  if (at != std::string::npos) {
    ring.number = static_cast<std::uint32_t>(
        std::strtoul(instruction.raw_attributes->c_str() + at + 5, nullptr, 10));
  }
  return ring;
}

std::string fault_of_groups(const HloInstruction& instruction, std::int64_t replicas) {
  const std::vector<std::vector<std::int64_t>>& groups = instruction.replica_groups;
  if (groups.empty()) return "";
  std::set<std::int64_t> seen;
  bool is_even = true;
  for (const std::vector<std::int64_t>& group : groups) {
    is_even = is_even && group.size() == groups[0].size();
    for (std::int64_t replica : group) {
      is_even = is_even && replica >= 0 && replica < replicas && seen.insert(replica).second;
    }
  }
  if (is_even && static_cast<std::int64_t>(seen.size()) == replicas) return "";
  return "expected groups of equal size with each of the " + std::to_string(replicas) +
         " replicas that it is compiled for in one, found " + std::to_string(groups.size()) +
         (groups.size() == 1 ? " group of " : " groups, the first of ") +
         std::to_string(groups[0].size());
}

}  // namespace tpu::compiler
