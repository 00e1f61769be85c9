#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: an elementwise fusion that makes all parts of a concatenation in whole tiles (gradients of
/// the halves of a gate, rotated halves), which nothing else reads, makes the concatenation: the
/// DMAs of each part step over the others. It is no kernel then.
///
/// Needs: join_small_kernels (arrays that stand in VMEM are joined there).
/// Leaves: concatenations as results of fusions; the same values.
void write_concatenations_in_place(hlo::Module& module);

}  // namespace tpu::compiler
