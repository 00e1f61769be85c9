#pragma once

#include "isa/program.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The kernel of an instruction of the scheduled entry: by what the instruction is, or by what its
/// fusion is made around. Throws WorkloadError naming opcode and shapes when there is none.
isa::Kernel make_kernel(const hlo::Module& module, const hlo::HloInstruction& instruction,
                        const Target& target);

}  // namespace tpu::compiler
