#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "workloads/compiler/passes/fuse/fusion_draft.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Which reductions a kernel knows before it ends, so that it can use them, and whether a kernel
/// that does has room.
class SumsInKernels {
 public:
  /// `row_bytes`: of two buffers of eight rows, or of a matrix, of each array.
  SumsInKernels(const hlo::Computation& entry, const SteppedExtents& extents,
                std::uint64_t row_bytes);

  /// True for a reduction of which a kernel that sees whole rows of the operand's minor dimension
  /// can use the result at once.
  bool reduces_lanes_only(hlo::InstructionId root) const {
    return lanes_[static_cast<std::size_t>(root)];
  }
  /// True for a reduction of which a kernel that has whole matrices of the operand's minor
  /// dimensions in its blocks can use the result at once.
  bool reduces_rows_only(hlo::InstructionId root) const {
    return rows_[static_cast<std::size_t>(root)];
  }
  bool is_known_in_kernel(hlo::InstructionId root) const {
    return reduces_lanes_only(root) || reduces_rows_only(root);
  }
  bool is_made_of_column_sum(hlo::InstructionId id) const;
  /// Those that the kernel makes and uses.
  std::set<hlo::InstructionId> used_in(const FusionDraft& draft) const;
  bool fit(const FusionDraft& draft) const {
    return fits_rows(draft) && keeps_few_sums(draft) && spreads_sums_back(draft) &&
           makes_results_of_sums(draft);
  }

 private:
  const hlo::HloInstruction& at(hlo::InstructionId id) const { return entry_.at(id); }
  bool is_along_lanes(const hlo::HloInstruction& reduce) const;
  bool is_along_rows(const hlo::HloInstruction& reduce) const;
  std::uint64_t bytes_of_sum(hlo::InstructionId id) const;
  bool is_column_value(hlo::InstructionId root, const FusionDraft& draft) const;
  /// Results that have an element for each sum along rows, and are made of such sums.
  std::vector<hlo::InstructionId> column_results(const FusionDraft& draft) const;
  bool makes_results_of_sums(const FusionDraft& draft) const;
  bool spreads_sums_back(const FusionDraft& draft) const;
  bool fits_rows(const FusionDraft& draft) const;
  bool keeps_few_sums(const FusionDraft& draft) const;

  const hlo::Computation& entry_;
  const SteppedExtents& extents_;
  std::uint64_t row_bytes_;
  std::vector<bool> lanes_, rows_;  ///< Of each instruction: whether it reduces these only.
};

}  // namespace tpu::compiler
