#include "workloads/compiler/passes/expand/rings.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "sim/base/token_cursor.h"
#include "workloads/compiler/codegen/flag_ranges.h"

namespace tpu::compiler {

using hlo::ComputationId;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

constexpr const char* kRing = "ring=";
constexpr const char* kChannel = "channel_id=";

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
  constexpr std::string_view kName = "source_target_pairs=";
  const std::size_t place = text.find(kName);
  std::vector<std::int64_t> numbers;
  if (place == std::string::npos) return numbers;
  TokenCursor cursor(text, permute.name, TokenCursor::Places::kPartOfIt);
  cursor.move_to(text.data() + place + kName.size());
  cursor.list('{', '}', [&] {
    for (std::int64_t device : cursor.whole_numbers('{', '}', "a device")) {
      numbers.push_back(device);
    }
  });
  return numbers;
}

/// What a collective has in common with those that may share its flags: its groups, or who sends to
/// whom.
std::vector<std::vector<std::int64_t>> grouping_of(const HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kCollectivePermute) return instruction.replica_groups.get();
  return {{}, pairs_of_permute(instruction)};
}

bool is_collective(HloOpcode opcode) {
  return opcode == HloOpcode::kCollectivePermute || has_groups(opcode);
}

/// The number behind a word of the attributes; 0: there is none.
std::uint64_t number_behind(const HloInstruction& instruction, const std::string& word) {
  const std::size_t at = instruction.raw_attributes->rfind(word);
  if (at == std::string::npos) return 0;
  return std::strtoull(instruction.raw_attributes->c_str() + at + word.size(), nullptr, 10);
}

void set_number(HloInstruction& instruction, std::size_t number) {
  std::string& raw = instruction.raw_attributes.edit();
  raw += (raw.empty() ? "" : ", ") + std::string(kRing) + std::to_string(number);
}

/// Computations that run only where a conditional chooses them.
std::set<ComputationId> chosen_computations(const hlo::Module& module) {
  std::set<ComputationId> chosen;
  std::vector<ComputationId> ahead;
  const auto add = [&](const HloInstruction& instruction) {
    for (const ComputationId called : instruction.called) {
      if (chosen.insert(called).second) ahead.push_back(called);
    }
  };
  for (const hlo::Computation& computation : module.computations) {
    for (const HloInstruction& instruction : computation.instructions) {
      if (instruction.opcode == HloOpcode::kConditional) add(instruction);
    }
  }
  while (!ahead.empty()) {
    const hlo::Computation& computation = module.computation(ahead.back());
    ahead.pop_back();
    for (const HloInstruction& instruction : computation.instructions) add(instruction);
  }
  return chosen;
}

/// Collectives of a computation that may become one: of one kind and number, and with as many
/// before them.
using Together = std::map<std::tuple<HloOpcode, std::uint64_t, int>, std::vector<HloInstruction*>>;

Together collectives_of(hlo::Computation& computation) {
  Together together;
  std::vector<int> depth(computation.instructions.size(), 0);
  for (HloInstruction& instruction : computation.instructions) {
    int& mine = depth[static_cast<std::size_t>(instruction.id)];
    for (const hlo::InstructionId operand : instruction.operands) {
      mine = std::max(mine, depth[static_cast<std::size_t>(operand)]);
    }
    if (!is_collective(instruction.opcode)) continue;
    ++mine;
    together[{instruction.opcode, number_behind(instruction, kRing), mine}].push_back(&instruction);
  }
  return together;
}

/// Replicas may take different branches. A collective there meets that of its channel only, so it
/// has a number of its own, as far as there are numbers; those that become one have that of the
/// lowest channel.
void number_channels_of_branches(hlo::Module& module, std::size_t last) {
  std::map<std::tuple<HloOpcode, std::uint64_t, std::uint64_t>, std::size_t> numbers;
  for (const ComputationId chosen : chosen_computations(module)) {
    for (const auto& [kind, collectives] :
         collectives_of(module.computations.at(static_cast<std::size_t>(chosen)))) {
      std::uint64_t channel = 0;
      for (const HloInstruction* collective : collectives) {
        const std::uint64_t own = number_behind(*collective, kChannel);
        channel = channel == 0 ? own : std::min(channel, own);
      }
      const auto& [opcode, ring, depth] = kind;
      if (channel == 0) continue;
      const auto key = std::make_tuple(opcode, ring, channel);
      const std::size_t next = last + numbers.size() + 1;
      if (numbers.count(key) == 0 && next >= kMostRings) continue;
      const std::size_t number = numbers.emplace(key, next).first->second;
      for (HloInstruction* collective : collectives) set_number(*collective, number);
    }
  }
}

}  // namespace

void number_rings(hlo::Module& module) {
  std::map<std::vector<std::vector<std::int64_t>>, std::size_t> numbers;
  for (hlo::Computation& computation : module.computations) {
    for (HloInstruction& instruction : computation.instructions) {
      if (!is_collective(instruction.opcode)) continue;
      const bool permutes = instruction.opcode == HloOpcode::kCollectivePermute;
      if (!permutes && is_everybody_in_order(instruction.replica_groups, module.replicas)) {
        instruction.replica_groups.reset();
        continue;
      }
      set_number(instruction,
                 numbers.emplace(grouping_of(instruction), numbers.size() + 1).first->second);
    }
  }
  number_channels_of_branches(module, numbers.size());
}

Ring ring_of(const HloInstruction& instruction) {
  Ring ring;
  for (const std::vector<std::int64_t>& group : instruction.replica_groups.get()) {
    ring.groups.emplace_back(group.begin(), group.end());
  }
  ring.number = static_cast<std::uint32_t>(number_behind(instruction, kRing));
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
  bool is_even = true, is_known = true;
  std::size_t other = 0;
  for (const std::vector<std::int64_t>& group : groups) {
    if (group.size() != groups[0].size()) {
      is_even = false;
      other = group.size();
    }
    for (std::int64_t replica : group) {
      is_known = is_known && replica >= 0 && replica < replicas && seen.insert(replica).second;
    }
  }
  const bool covers_all = static_cast<std::int64_t>(seen.size()) == replicas;
  if (is_known && covers_all) {
    const bool may_differ = instruction.opcode == HloOpcode::kAllReduce;
    if (is_even || may_differ) return "";
    return "expected groups of equal size (of an all-reduce alone they may differ, for its result "
           "has the shape of its operand whatever its group), found one of " +
           std::to_string(groups[0].size()) + " and one of " + std::to_string(other);
  }
  return "expected groups with each of the " + std::to_string(replicas) +
         " replicas that it is compiled for in one, found " + std::to_string(groups.size()) +
         (groups.size() == 1 ? " group of " : " groups, the first of ") +
         std::to_string(groups[0].size());
}

}  // namespace tpu::compiler
