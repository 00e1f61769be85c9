#pragma once

#include "isa/program.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What a report says of a kernel's instruction: names, category in XLA's words, useful work.
isa::OpInfo op_info(const hlo::Module& module, const hlo::HloInstruction& instruction,
                    const Target& target);

}  // namespace tpu::compiler
