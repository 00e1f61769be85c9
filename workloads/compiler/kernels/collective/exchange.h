#pragma once

#include <cstdint>
#include <vector>

#include "isa/program.h"
#include "workloads/compiler/kernels/collective/all_reduce.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Collectives in which blocks change places and nothing is computed: each core writes its blocks
/// into the HBM of those that they are for, by remote DMA from HBM to HBM, all under way at once;
/// the routers find the way. Before, each tells those that send to it that it is there: nobody
/// writes into memory that another kernel still uses. The flag of that is the exchange's own, since
/// a core that is ahead tells it before the others enter.

/// s0: the blocks for all members of the group, in its order; s1: theirs for this one.
isa::Kernel all_to_all_kernel(std::uint64_t block_granules, const Target& target, const Ring& ring);

/// s0: a block for each member of the group, in its order, the same on all; s1: a copy of this
/// core's. Nothing leaves the core.
isa::Kernel own_block_kernel(std::uint64_t block_granules, const Target& target, const Ring& ring);

/// s0: the range of each core; s1: that of its source. `sources` has one for each core, -1: none,
/// for which zeros come. `number`: as that of a Ring, of this permutation alone.
isa::Kernel permute_kernel(std::uint64_t granules, const std::vector<std::int64_t>& sources,
                           std::uint32_t number, const Target& target);

}  // namespace tpu::compiler
