#pragma once

#include "workloads/compiler/cost.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: slices, reversals, pads and concatenations of which one moves what another makes (a roll,
/// a reflected border, shifted windows) are one kernel, a fusion of them, that reads each array
/// once; where its estimate takes less than theirs.
///
/// Needs: fuse, widen, and what joins small kernels. Leaves: fusions of moves; the same values.
void join_moves(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
