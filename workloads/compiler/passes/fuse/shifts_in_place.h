#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: elementwise kernels read what pads, slices and concatenations of slices move (the rolled
/// arrays of a stencil) where it stands: the arrays come to VMEM whole and are loaded from other
/// places, and nothing writes the moved ones. Where all arrays of such a kernel fit VMEM, every
/// reader of the moved array can do so, and that is estimated to be faster.
///
/// Needs: stored types. Leaves: fusions that need whole arrays (`needs_whole_arrays`), which
/// join_small_kernels makes members of a sequence; the same values.
void read_shifts_in_place(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
