#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What the combiner of a scatter does with a value and its update: one operation of both,
/// kParameter where it takes the update alone; kCount where the scatter kernel, which takes one
/// update after the other, has no form of it.
hlo::HloOpcode scatter_operation(const hlo::Computation& combiner);

}  // namespace tpu::compiler
