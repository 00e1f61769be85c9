#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The operation of a computation that combines its two scalars by one elementwise operation, as
/// reducers and combiners of scatters mostly do; kCount for any other computation.
hlo::HloOpcode combining_operation(const hlo::Computation& body);

}  // namespace tpu::compiler
