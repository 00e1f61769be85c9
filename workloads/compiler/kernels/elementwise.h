#pragma once

#include "isa/program.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The kernel of an elementwise operation, of a reduction, or of a fusion of them (kinds kLoop and
/// kInput): addresses of the operands, then of the results (the elements of a tuple) in s0, s1, ...
///
/// A result may lie in the memory of an operand of the same shape that is read element by element.
/// Throws WorkloadError with opcode, shapes and layouts for what has no kernel.
isa::Kernel emit_elementwise(const hlo::Module& module, const hlo::Computation& computation,
                             const hlo::HloInstruction& instruction, const Target& target);

}  // namespace tpu::compiler
