#pragma once

#include "workloads/compiler/compiler.h"
#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Every pass before the kernels are made, in the order in which the folder's README.md lists them.
/// The bodies of loops and branches go through the same passes as soon as they are outlined. The
/// module is compiled for target.cores
/// replicas whatever it says itself. Times go into the report when there is one; after each pass
/// the observer sees the module, or the body of a loop or branch as "body/pass".
ScheduledModule schedule(const hlo::Module& module, const Target& target, CompileReport* report,
                         const PassObserver& after_pass = {});

}  // namespace tpu::compiler
