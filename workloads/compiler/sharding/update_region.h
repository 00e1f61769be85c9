#pragma once

#include <map>
#include <set>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The instructions between sums of gradients and the new weights, all over arrays of one extent.
struct UpdateRegion {
  std::vector<std::int64_t> extents;
  std::size_t cut = 0;
  std::set<hlo::InstructionId> members;  ///< Sums among them.
  std::set<hlo::InstructionId> states;   ///< Parameters that the region alone reads.
  std::set<hlo::InstructionId> norms;    ///< Sums over whole members.
  std::set<hlo::InstructionId> whole;    ///< Members that somebody needs whole.
};

/// Finds the region of a sum among those of a module, which must not change meanwhile.
class UpdateRegionSearch {
 public:
  /// `sums`: of gradients over all replicas.
  UpdateRegionSearch(const hlo::Module& module, const std::set<hlo::InstructionId>& sums);

  /// What follows from a sum element by element, and what only that needs.
  UpdateRegion region_of(hlo::InstructionId sum, std::size_t cut) const;

 private:
  using InstructionId = hlo::InstructionId;

  const std::vector<InstructionId>& users(InstructionId id) const;
  bool has_extents(InstructionId id, const UpdateRegion& region) const;
  /// Each element of its result is made of the same elements of its operands, and of scalars.
  bool is_by_element(InstructionId id, const UpdateRegion& region) const;
  void go_forward(InstructionId from, UpdateRegion& region) const;
  bool only_members_use(InstructionId id, const UpdateRegion& region) const;
  /// What only the region needs belongs to it.
  bool go_back(UpdateRegion& region) const;
  void look_at_operands(InstructionId member, UpdateRegion& region) const;
  void look_at_users(InstructionId member, UpdateRegion& region) const;
  /// Among the results it has the places of state that is cut, and no others.
  bool stands_for_states_alone(InstructionId member, const UpdateRegion& region) const;
  bool is_state_result(std::size_t place, const UpdateRegion& region) const;
  /// A sum from zero over the dimension that is cut, and perhaps others.
  bool is_norm(InstructionId id, const UpdateRegion& region) const;

  const hlo::Module& module_;
  const hlo::Computation& entry_;
  const std::set<InstructionId>& sums_;
  const std::vector<std::vector<InstructionId>> users_;
  /// Of a parameter's number the results that take its place.
  std::map<std::int64_t, std::set<InstructionId>> result_of_;
};

}  // namespace tpu::compiler
