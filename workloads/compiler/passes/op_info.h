#pragma once

#include "isa/program.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What a report says of a kernel's instruction (hlo::op_info), and what its matrix work grows to
/// in the tiles of the MXU.
isa::OpInfo op_info(const hlo::Module& module, const hlo::HloInstruction& instruction,
                    const Target& target);

}  // namespace tpu::compiler
