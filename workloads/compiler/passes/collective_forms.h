#pragma once

#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: writes the other collectives in terms of the all-reduce that adds f32 over all replicas,
/// the one that has a kernel.
///
/// - all-gather: everybody adds its part to zeros. reduce-scatter: the sum, of which each takes its
///   part. all-to-all and collective-permute: all parts are gathered, each takes what is its own.
///   all-reduce by maximum or minimum: gathered, then reduced.
/// - 32-bit integers travel as two halves, which fp32 sums exactly; pred as 0 and 1.
/// - replica-id and partition-id become 0 where there is one replica.
///
/// An all-gather moves twice the bytes that one of its own would, the others up to n times as many.
/// Replica groups other than one of all replicas in order are refused.
///
/// Needs: a simplified entry without calls, Module::replicas as it will run; before
/// rewrite_indexed_access and layouts.
/// Leaves: all-reduces by addition, replica-id. Refusals of what is left.
void rewrite_collectives(hlo::Module& module, Refusals& refusals);

}  // namespace tpu::compiler
