#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: elementwise kernels read what pads, slices and concatenations of slices move (the rolled
/// arrays of a stencil) where it stands, and nothing writes the moved ones. Where all arrays of
/// such a kernel fit VMEM, they come there whole and are loaded from other places; those of others
/// come block by block (streamed_shifts.h). Where every reader of the moved array can do so, and
/// that is estimated to be faster.
///
/// Needs: stored types. Leaves: fusions that read elements elsewhere (`reads_elsewhere`), of
/// which join_small_kernels makes members of a sequence where they fit; the same values.
void read_shifts_in_place(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
