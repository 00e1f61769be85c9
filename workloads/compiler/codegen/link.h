#pragma once

#include "isa/program.h"
#include "workloads/compiler/codegen/block.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Makes a kernel of a draft: gives the values and variables that live in more than one block their
/// registers, schedules the blocks and resolves the branches.
isa::Kernel link(KernelDraft& draft, const Target& target);

}  // namespace tpu::compiler
