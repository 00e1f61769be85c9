#pragma once

#include "isa/program.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Writes the core's number among the replicas, chip by chip, as a scalar to the granule in s0.
isa::Kernel replica_id_kernel(const Target& target);

}  // namespace tpu::compiler
