#include "workloads/compiler/sharding/update_region.h"

#include <algorithm>

#include "sim/base/contains.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

UpdateRegionSearch::UpdateRegionSearch(const hlo::Module& module,
                                       const std::set<InstructionId>& sums)
    : module_(module), entry_(module.entry_computation()), sums_(sums), users_(users_of(entry_)) {
  const HloInstruction& root = entry_.at(entry_.root);
  if (root.opcode != HloOpcode::kTuple) return;
  for (const hlo::Alias& alias : module.aliases) {
    if (!alias.within_output.empty() || !alias.within_parameter.empty()) continue;
    const auto place = static_cast<std::size_t>(alias.output_index);
    if (place < root.operands.size()) {
      result_of_[alias.parameter_number].insert(root.operands[place]);
    }
  }
}

UpdateRegion UpdateRegionSearch::region_of(InstructionId sum, std::size_t cut) const {
  UpdateRegion region;
  region.extents = entry_.at(sum).shape.dimensions;
  region.cut = cut;
  go_forward(sum, region);
  while (go_back(region)) continue;
  for (InstructionId member : region.members) look_at_operands(member, region);
  for (InstructionId member : region.members) look_at_users(member, region);
  return region;
}

const std::vector<InstructionId>& UpdateRegionSearch::users(InstructionId id) const {
  return users_[static_cast<std::size_t>(id)];
}

bool UpdateRegionSearch::has_extents(InstructionId id, const UpdateRegion& region) const {
  const hlo::Shape& shape = entry_.at(id).shape;
  return !shape.is_tuple() && shape.dimensions == region.extents;
}

bool UpdateRegionSearch::is_by_element(InstructionId id, const UpdateRegion& region) const {
  const HloInstruction& instruction = entry_.at(id);
  if (!is_elementwise(instruction.opcode) && instruction.opcode != HloOpcode::kCopy) return false;
  return has_extents(id, region) &&
         std::all_of(instruction.operands.begin(), instruction.operands.end(),
                     [&](InstructionId operand) {
                       const hlo::Shape& shape = entry_.at(operand).shape;
                       return has_extents(operand, region) ||
                              (!shape.is_tuple() && shape.dimensions.empty());
                     });
}

void UpdateRegionSearch::go_forward(InstructionId from, UpdateRegion& region) const {
  std::vector<InstructionId> work{from};
  while (!work.empty()) {
    const InstructionId id = work.back();
    work.pop_back();
    if (!region.members.insert(id).second) continue;
    for (InstructionId user : users(id)) {
      if (is_by_element(user, region)) work.push_back(user);
    }
  }
}

bool UpdateRegionSearch::only_members_use(InstructionId id, const UpdateRegion& region) const {
  return id != entry_.root && !users(id).empty() &&
         std::all_of(users(id).begin(), users(id).end(),
                     [&](InstructionId user) { return region.members.count(user) != 0; });
}

bool UpdateRegionSearch::go_back(UpdateRegion& region) const {
  std::vector<InstructionId> more;
  for (InstructionId member : region.members) {
    if (sums_.count(member) != 0) continue;
    for (InstructionId operand : entry_.at(member).operands) {
      if (region.members.count(operand) != 0 || !has_extents(operand, region)) continue;
      const bool is_known = is_by_element(operand, region) || sums_.count(operand) != 0;
      if (is_known && only_members_use(operand, region)) more.push_back(operand);
    }
  }
  region.members.insert(more.begin(), more.end());
  return !more.empty();
}

void UpdateRegionSearch::look_at_operands(InstructionId member, UpdateRegion& region) const {
  if (sums_.count(member) != 0) return;
  for (InstructionId operand : entry_.at(member).operands) {
    const HloInstruction& given = entry_.at(operand);
    if (given.opcode != HloOpcode::kParameter || !has_extents(operand, region)) continue;
    const auto results = result_of_.find(given.parameter_number);
    const bool is_kept =
        results != result_of_.end() &&
        std::all_of(results->second.begin(), results->second.end(),
                    [&](InstructionId result) { return region.members.count(result) != 0; });
    if (is_kept && only_members_use(operand, region)) region.states.insert(operand);
  }
}

void UpdateRegionSearch::look_at_users(InstructionId member, UpdateRegion& region) const {
  for (InstructionId user : users(member)) {
    if (region.members.count(user) != 0) continue;
    if (user == entry_.root && stands_for_states_alone(member, region)) continue;
    if (is_norm(user, region)) {
      region.norms.insert(user);
    } else {
      region.whole.insert(member);
    }
  }
  if (member == entry_.root) region.whole.insert(member);
}

bool UpdateRegionSearch::stands_for_states_alone(InstructionId member,
                                                 const UpdateRegion& region) const {
  const HloInstruction& root = entry_.at(entry_.root);
  if (root.opcode != HloOpcode::kTuple) return false;
  for (std::size_t i = 0; i < root.operands.size(); ++i) {
    if (root.operands[i] == member && !is_state_result(i, region)) return false;
  }
  return true;
}

bool UpdateRegionSearch::is_state_result(std::size_t place, const UpdateRegion& region) const {
  return std::any_of(module_.aliases.begin(), module_.aliases.end(), [&](const hlo::Alias& alias) {
    if (static_cast<std::size_t>(alias.output_index) != place) return false;
    return std::any_of(region.states.begin(), region.states.end(), [&](InstructionId state) {
      return entry_.at(state).parameter_number == alias.parameter_number;
    });
  });
}

bool UpdateRegionSearch::is_norm(InstructionId id, const UpdateRegion& region) const {
  const HloInstruction& reduce = entry_.at(id);
  if (reduce.opcode != HloOpcode::kReduce || reduce.operands.size() != 2) return false;
  const bool is_floating =
      reduce.shape.type == hlo::ElementType::kF32 || reduce.shape.type == hlo::ElementType::kBf16;
  if (!is_floating) return false;
  const HloInstruction& initial = entry_.at(reduce.operands[1]);
  const bool is_zero =
      initial.opcode == HloOpcode::kConstant && !initial.literal.empty() &&
      std::all_of(initial.literal.begin(), initial.literal.end(), [](int b) { return b == 0; });
  const Computation& reducer = module_.computation(reduce.called.at(0));
  return is_zero && reducer.at(reducer.root).opcode == HloOpcode::kAdd &&
         contains(reduce.dimensions, static_cast<std::int64_t>(region.cut));
}

}  // namespace tpu::compiler
