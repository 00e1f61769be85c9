#pragma once

#include "isa/program.h"
#include "workloads/compiler/kernels/kernel_sequence.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The kernel of an instruction of the scheduled entry: by what the instruction is, or by what its
/// fusion is made around; of a sequence as often as its loop runs. Throws WorkloadError naming
/// opcode and shapes when there is none.
LoweredKernel make_kernel(const hlo::Module& module, const hlo::HloInstruction& instruction,
                          const Target& target, const SequenceLoop& loop = {});

/// Other cores reach into the memory of its kernel, or its DMAs go on behind it: nothing of other
/// kernels may be under way while it runs.
bool stands_apart(const hlo::Module& module, const hlo::HloInstruction& instruction);

}  // namespace tpu::compiler
