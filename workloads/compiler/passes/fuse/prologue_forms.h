#pragma once

#include <optional>

#include "workloads/compiler/ir/made_side.h"
#include "workloads/compiler/passes/fuse/fusion.h"
#include "workloads/compiler/passes/fuse/fusion_draft.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What may stand in front of a side of a product in its kernel: elementwise operations on arrays
/// of the side's extent, vectors and matrices along its minor dimensions and scalars.
class PrologueForms {
 public:
  PrologueForms(const hlo::Computation& entry, const FusionLimits& limits)
      : entry_(entry), limits_(limits) {}

  /// Of the sides that a draft with a product computes; absent: in a way that no kernel does.
  std::optional<MadeSides> sides(const FusionDraft& draft) const;

 private:
  const hlo::HloInstruction& at(hlo::InstructionId id) const { return entry_.at(id); }
  std::optional<MadeSide> made(hlo::InstructionId side, const FusionDraft& draft) const;
  bool add(MadeSide& made, hlo::InstructionId id, const hlo::Shape& side) const;
  bool add_spread(MadeSide& made, const hlo::HloInstruction& broadcast,
                  const hlo::Shape& side) const;

  const hlo::Computation& entry_;
  const FusionLimits& limits_;
};

}  // namespace tpu::compiler
