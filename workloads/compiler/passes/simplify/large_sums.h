#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: reductions of what is computed of smaller arrays alone (distances of all points to some
/// centers: none has both of the longest kept dimensions), whose sums have no room in VMEM, are
/// done for some rows of tiles after the others: of the second longest dimension that is kept, a
/// multiple of eight at a time. The results stand below each other. Uncut, a kernel would have to
/// go through the longest dimension outside of its tiles, whose lanes would be filled by the
/// others.
///
/// Needs: a verified module without call and fusion in the entry; layouts not assigned yet. Behind
/// unroll_short_dimensions, which leaves nothing larger than the result where it can.
/// Leaves: the same values.
void cut_large_sums(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
