#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Elementwise kernels whose arrays are too large for a sequence of kernels take in the slices,
/// pads and concatenations that they read, and elementwise kernels of which they read elements
/// elsewhere: blocks come with what stands around them. What is read at several distances is
/// computed for each. Where every reader of a value can take it in, and all of them are estimated
/// to be faster than with the kernel that writes it.
void read_streamed_shifts(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
