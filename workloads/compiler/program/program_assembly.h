#pragma once

#include <functional>

#include "isa/program.h"
#include "workloads/compiler/kernels/kernel_sequence.h"
#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Makes the kernel of one instruction of a module's entry; throws WorkloadError when there is none
/// for it at that place. The loop is the one around a sequence that runs in its kernel.
using KernelMaker =
    std::function<LoweredKernel(const hlo::Module&, const hlo::HloInstruction&,
                                const KernelPlace& place, const SequenceLoop& loop)>;

/// Pass: the kernels of the entry's instructions and the top-level program that calls them in
/// order.
///
/// A kernel finds the first granules of its operands in s0, s1, ... (one per array, tuples element
/// by element; 0 for a constant that it takes as an immediate) and those of its results behind
/// them. Equal instructions share a kernel: same opcode, attributes, computation, shapes and
/// layouts. A step that takes a batch starts with its DMA out of the infeed queue. Loops and
/// branches are control flow of the top-level program around the calls of their bodies; a counted
/// loop whose body is one sequence is a kernel.
///
/// Needs: the final schedule and its plan.
/// Leaves: a program without model_flops and the sizes that depend on the module before
/// compilation. Throws WorkloadError that lists every distinct operation without a kernel.
isa::Program assemble_program(const ScheduledModule& scheduled, const Target& target,
                              const KernelMaker& make_kernel);

/// Equal for instructions that one kernel can serve.
std::string kernel_fingerprint(const hlo::Module& module, const hlo::HloInstruction& instruction);

}  // namespace tpu::compiler
