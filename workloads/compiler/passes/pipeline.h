#pragma once

#include "workloads/compiler/compiler.h"
#include "workloads/compiler/passes/hbm_plan.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A module that is ready for its kernels.
struct ScheduledModule {
  hlo::Module module;
  HbmPlan plan;
};

/// Every pass before the kernels are made, in order: flatten_calls, simplify, use_canonical_forms,
/// simplify, assign_layouts, find_bitcasts, combine_all_reduces, fuse, widen, insert_copies,
/// plan_hbm. The module is compiled
/// for target.cores replicas whatever it says itself. Times go into the report when there is one.
ScheduledModule schedule(const hlo::Module& module, const Target& target, CompileReport* report);

}  // namespace tpu::compiler
