#pragma once

#include "workloads/compiler/passes/scheduled_module.h"

namespace tpu::compiler {

/// Windows begin with the value that changes nothing, and what they state as initial value comes
/// to their results: neither padding nor the parts of a window have a share of it. Reductions
/// likewise, where their initial value is computed.
/// Needs: operations in words, no layouts; before the passes that rewrite windows and reductions.
void separate_initial_values(hlo::Module& module, Refusals& refusals);

}  // namespace tpu::compiler
