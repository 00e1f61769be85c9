#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: all-reduces that do not wait for each other become one, of all their operands: one kernel
/// call per step that works on one range of HBM. Those of all replicas become several where the
/// target has buckets (bucket_choice.h); which of them go on beside other kernels is marked for
/// split_into_phases(). bf16 operands are reduced as f32.
///
/// Needs: layouts; fusion not done yet.
/// Leaves: all-reduces over all replicas, of f32 arrays (a tuple where they are several), summing;
/// other collectives as they were.
void combine_all_reduces(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
