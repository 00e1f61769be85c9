#include "workloads/compiler/passes/rings.h"

#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "sim/base/error.h"

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

/// Source and target of each pair of a collective-permute, one behind the other.
std::vector<std::int64_t> pairs_of_permute(const HloInstruction& permute) {
  const std::string& text = permute.raw_attributes;
  std::size_t place = text.find("source_target_pairs=");
  std::vector<std::int64_t> numbers;
  for (int depth = 0; place != std::string::npos && place < text.size(); ++place) {
    if (text[place] == '{') ++depth;
    if (text[place] == '}' && --depth == 0) break;
    if (depth > 0 && text[place] >= '0' && text[place] <= '9') {
      char* end = nullptr;
      numbers.push_back(std::strtoll(text.c_str() + place, &end, 10));
      place = static_cast<std::size_t>(end - text.c_str()) - 1;
    }
  }
  return numbers;
}

/// What a collective has in common with those that may share its flags: its groups, or who sends to
/// whom.
std::vector<std::vector<std::int64_t>> grouping_of(const HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kCollectivePermute) return instruction.replica_groups.get();
  return {{}, pairs_of_permute(instruction)};
}

}  // namespace

void number_rings(hlo::Module& module) {
  std::map<std::vector<std::vector<std::int64_t>>, std::size_t> numbers;
  for (hlo::Computation& computation : module.computations) {
    for (HloInstruction& instruction : computation.instructions) {
      const bool permutes = instruction.opcode == HloOpcode::kCollectivePermute;
      if (!permutes && !has_groups(instruction.opcode)) continue;
      if (!permutes && is_everybody_in_order(instruction.replica_groups, module.replicas)) {
        instruction.replica_groups.reset();
        continue;
      }
      const std::size_t number =
          numbers.emplace(grouping_of(instruction), numbers.size() + 1).first->second;
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

std::vector<std::int64_t> sources_of_permute(const HloInstruction& permute, std::int64_t replicas) {
  std::vector<std::int64_t> from(static_cast<std::size_t>(replicas), -1);
  const std::vector<std::int64_t> numbers = pairs_of_permute(permute);
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
    if (numbers[i] >= replicas || numbers[i + 1] >= replicas) {
      throw WorkloadError("expected pairs of the " + std::to_string(replicas) +
                          " replicas that it is compiled for, found " +
                          permute.raw_attributes.get());
    }
    from[static_cast<std::size_t>(numbers[i + 1])] = numbers[i];
  }
  return from;
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
