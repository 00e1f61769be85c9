#pragma once

#include <optional>

#include "isa/program.h"
#include "workloads/compiler/codegen/block.h"
#include "workloads/compiler/codegen/spill.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Makes a kernel of a draft: gives the values and variables that live in more than one block their
/// registers, schedules the blocks and resolves the branches. Where a block needs more registers
/// than there are, values wait in the space, if one is given. Nothing when that is not enough.
std::optional<isa::Kernel> link(KernelDraft& draft, const Target& target, SpillSpace* space);

}  // namespace tpu::compiler
