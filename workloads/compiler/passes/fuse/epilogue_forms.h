#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "workloads/compiler/passes/fuse/fusion.h"
#include "workloads/compiler/passes/fuse/fusion_draft.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// VMEM rows of a vector or a matrix that stays in the kernel of a product, about, from above: it
/// comes as it is; a matrix is put in the kernel's order, and a vector along the rows is spread to
/// a register for eight of them.
std::uint64_t resident_rows(const hlo::Shape& array, bool is_along_rows);

/// What may stand behind a dot or a convolution in its kernel.
class EpilogueForms {
 public:
  EpilogueForms(const hlo::Module& module, const hlo::Computation& entry, FusionLimits limits = {})
      : module_(module), entry_(entry), limits_(std::move(limits)) {}

  bool has_batch_in_lanes(hlo::InstructionId product) const;
  bool makes_images(hlo::InstructionId product) const;
  /// Of a draft with a product.
  bool fit(const FusionDraft& draft) const;
  /// What the kernel of the draft's product is expected to take, with these sides; absent: it has
  /// none, or makes nothing of the product's extent, or nobody says.
  std::optional<double> cycles(const FusionDraft& draft, const MadeSides& sides = {}) const;
  bool uses_own_sum(const FusionDraft& draft) const;

 private:
  const hlo::HloInstruction& at(hlo::InstructionId id) const { return entry_.at(id); }
  bool is_sum_behind(hlo::InstructionId root, hlo::InstructionId product) const;
  bool may_sum_to(const std::vector<std::int64_t>& kept, hlo::InstructionId product) const;
  bool has_other_lanes(hlo::InstructionId id, hlo::InstructionId product) const;
  bool is_broadcast_behind(hlo::InstructionId id, hlo::InstructionId product) const;
  bool fit_convolution(const FusionDraft& draft) const;
  bool is_side(hlo::InstructionId id, hlo::InstructionId product) const;
  std::vector<hlo::InstructionId> read_behind(const FusionDraft& draft) const;
  bool is_matrix_behind(hlo::InstructionId id, const FusionDraft& draft) const;
  std::uint64_t rows_behind(const FusionDraft& draft) const;
  std::uint64_t matrix_granules(const FusionDraft& draft) const;

  const hlo::Module& module_;
  const hlo::Computation& entry_;
  const FusionLimits limits_;
};

}  // namespace tpu::compiler
