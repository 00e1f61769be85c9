#pragma once

#include <string>

#include "workloads/compiler/passes/pass_table.h"
#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Checks a module between two passes: shapes, types, operands and order as `hlo::verify` does, no
/// cycle through control predecessors, regions and placed slices as their users find them, and the
/// rule of each fact that holds. Throws SimulatorBug with the pass behind which it stands.
void verify_between_passes(const ScheduledModule& scheduled, const Facts& facts,
                           const std::string& pass);

/// Whether every pass is verified: in debug builds, or as the environment's TPUSIM_VERIFY_PASSES
/// says (1 or 0); tests set it.
bool verifies_passes();

/// Whether every instruction is as HLO has it.
bool is_plain_hlo(const hlo::Module& module);

/// The module as HLO that reads back: what only the compiler knows (a loop whose body is a module
/// of its own, a slice placed by the iteration, a bitcast to a part) stands as a custom-call of a
/// name that says it.
hlo::Module as_plain_hlo(const hlo::Module& module);

}  // namespace tpu::compiler
