#pragma once

#include "workloads/compiler/compiler.h"
#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The passes up to the instructions that become kernels, in the order of `pass_table.h`. The
/// bodies of loops and branches go through the same passes as soon as they are outlined. The module
/// is compiled for target.cores replicas whatever it says itself. Times go into the report when
/// there is one; the observer is told of each pass.
ScheduledModule lower_to_kernels(const hlo::Module& module, const Target& target,
                                 CompileReport* report, const PassObserver& after_pass = {});

/// The same and the places of all arrays in HBM: every pass before the kernels are made. Throws the
/// out-of-memory report.
ScheduledModule schedule(const hlo::Module& module, const Target& target, CompileReport* report,
                         const PassObserver& after_pass = {});

}  // namespace tpu::compiler
