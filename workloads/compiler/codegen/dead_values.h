#pragma once

#include "workloads/compiler/codegen/block.h"

namespace tpu::compiler {

/// Removes operations of the scalar unit whose results nobody reads: addresses of loads that the
/// caller starts, for one. What pops a queue stays, and what writes SMEM.
void remove_dead_scalars(KernelDraft& draft);

}  // namespace tpu::compiler
