#pragma once

#include <cstdint>
#include <vector>

#include "workloads/compiler/passes/fuse/fusion_draft.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What may stand behind a dot or a convolution in its kernel.
class EpilogueForms {
 public:
  EpilogueForms(const hlo::Module& module, const hlo::Computation& entry)
      : module_(module), entry_(entry) {}

  bool has_batch_in_lanes(hlo::InstructionId product) const;
  bool makes_images(hlo::InstructionId product) const;
  bool fit(const FusionDraft& draft, hlo::InstructionId product) const;
  bool uses_own_sum(const FusionDraft& draft) const;

 private:
  const hlo::HloInstruction& at(hlo::InstructionId id) const { return entry_.at(id); }
  bool is_sum_behind(hlo::InstructionId root, hlo::InstructionId product) const;
  bool may_sum_to(const std::vector<std::int64_t>& kept, hlo::InstructionId product) const;
  bool has_other_lanes(hlo::InstructionId id, hlo::InstructionId product) const;
  bool is_broadcast_behind(hlo::InstructionId id, hlo::InstructionId product) const;

  const hlo::Module& module_;
  const hlo::Computation& entry_;
};

}  // namespace tpu::compiler
