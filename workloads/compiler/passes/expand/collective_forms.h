#pragma once

#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: writes collectives in terms of the three that have kernels
/// (`kernels/collective/all_reduce.h`): the all-reduce that adds floating values, the all-gather of
/// blocks [1, ...] to [members, ...] and the reduce-scatter of such blocks.
///
/// - all-gather and reduce-scatter along any dimension, of one or several arrays: the dimension of
///   the members is moved to the front; vectors are blocks of whole tiles. bf16 is added as f32.
/// - all-to-all and collective-permute: all parts are gathered, each takes what is its own: n times
///   the bytes that an exchange of their own would move. all-reduce by other operations or of
///   integers: gathered, then reduced.
/// - Among groups of some replicas, of equal size, a replica finds its place in a table.
/// - replica-id and partition-id become 0 where there is one replica.
///
/// Needs: a simplified entry without calls, Module::replicas as it will run, number_rings; before
/// rewrite_indexed_access and layouts.
/// Leaves: all-reduces by addition, all-gathers and reduce-scatters of blocks, replica-id. Refusals
/// of what is left.
void rewrite_collectives(hlo::Module& module, Refusals& refusals);

}  // namespace tpu::compiler
