#pragma once

#include "workloads/compiler/passes/fuse/fusion_draft.h"
#include "workloads/compiler/passes/fuse/sums_in_kernels.h"

namespace tpu::compiler {

/// About what a kernel without a product takes.
struct DraftCycles {
  double moved = 0;   ///< Of its arrays to and from HBM.
  double vector = 0;  ///< Of the vector unit.
  double all() const;
};

/// What is made of a sum that the kernel uses comes in a pass of its own, which computes again what
/// it shares with the passes before.
DraftCycles draft_cycles(const hlo::Computation& entry, const SteppedExtents& extents,
                         const FusionDraft& draft, const SumsInKernels& sums,
                         double hbm_bytes_per_cycle);

}  // namespace tpu::compiler
