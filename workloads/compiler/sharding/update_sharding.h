#pragma once

#include <cstdint>
#include <vector>

#include "workloads/compiler/sharding/partition.h"

namespace tpu::compiler {

/// What weight-update sharding did.
struct UpdateShares {
  std::size_t shared = 0;         ///< Gradients of which each core updates its share.
  std::size_t whole = 0;          ///< That every core still updates as a whole.
  std::int64_t state_bytes = 0;   ///< Of the state that is cut, of all cores together.
  std::int64_t shared_bytes = 0;  ///< Of the gradients that are.
};

/// Pass: weight-update sharding (Xu et al. 2020, arXiv:2004.13336). Where the sum of a gradient
/// over all replicas goes into the update of a weight, element by element, the all-reduce becomes
/// a reduce-scatter: each replica updates its share of the weight, and the new weight is collected
/// by an all-gather. Parameters that nothing else reads (moments of the optimizer), and the results
/// that take their place (aliases), are cut: a replica holds its share of them alone. Sums over
/// whole arrays (norms) are made of shares, and added over the replicas.
///
/// A gradient stays whole where no dimension can be cut into whole tiles of all replicas, where
/// a share is below a tile, or where more than one array of its update is needed whole.
///
/// Needs: a module of one replica, as partition() or the frontend leaves it. `program.parameters`
/// and `results` may be empty; then and for arrays that each replica has by itself ArrayParts has
/// no starts. Throws WorkloadError for modules of several partitions and several replicas.
UpdateShares shard_updates(PartitionedModule& program);

}  // namespace tpu::compiler
