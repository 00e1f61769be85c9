#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The operation of a computation that combines its two scalars by one elementwise operation, as
/// reducers and combiners of scatters mostly do; kCount for any other computation.
hlo::HloOpcode combining_operation(const hlo::Computation& body);

/// What the combiner of a scatter does with a value and its update: one operation of both,
/// kParameter where it takes the update alone; kCount where the scatter kernel, which takes one
/// update after the other, has no form of it.
hlo::HloOpcode scatter_operation(const hlo::Computation& combiner);

/// The scalar constant that a scatter's array has everywhere before the scatter, where it is a
/// broadcast of one; null for others. Behind fusion such a broadcast stands in no buffer: the
/// scatter's kernel fills VMEM with the value.
const hlo::HloInstruction* uniform_start(const hlo::Computation& computation,
                                         const hlo::HloInstruction& scatter);

}  // namespace tpu::compiler
