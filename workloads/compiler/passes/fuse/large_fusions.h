#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: a fusion of elementwise operations and sums with several results for which there is no
/// kernel, because what it keeps does not fit VMEM, becomes one fusion for each of its results.
/// What these share is computed again. One with a single result, which reads reductions of its own,
/// becomes one for each of these and one for the rest.
///
/// fuse estimates what a kernel keeps; how a kernel may be cut follows from how all of its arrays
/// lie together, which only the kernel's plan knows.
///
/// Needs: widen (arrays have the types that they are stored in).
void part_large_fusions(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
