#pragma once

#include <cstdint>
#include <vector>

#include "isa/program.h"
#include "workloads/compiler/codegen/flag_ranges.h"
#include "workloads/compiler/ir/ring.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Registers that a turn of the loop adds that sums what arrives, at most.
constexpr std::uint32_t kRegistersPerTurn = 8;

/// The chips of the first target.cores cores in the order of the ring. On a rectangle with an even
/// side neighbours in the ring are neighbours in the mesh; otherwise one way of the ring is longer.
/// Throws WorkloadError for a number of cores that fills no whole chips of the slice.
std::vector<std::uint32_t> ring_of_chips(const Target& target);

/// Sums a range of f32 over the replicas, in place: every core ends with the same sums.
///
/// s0 holds the first granule; an all-reduce's range is the same on every core and as long as
/// all_reduce_shape() says; the kernel fills what was not asked for with zeros. All cores form a
/// ring, the cores of a chip side by side. Of each round every core owns a chunk: 2n - 2 hops of
/// reduce-scatter and all-gather pass the chunks around, by remote DMA from VMEM to VMEM; a
/// received chunk is added to the core's own on the way. Half of the streams run one way round the
/// ring, half the other way, so that both directions of each link work.
///
/// A receiver has two slots per stream and gives its sender a credit (a remote sync flag) for each
/// free one, the first two when it enters the kernel: nobody writes into the memory of a core that
/// is still busy with another kernel. The flags belong to this kernel alone
/// (kStreamFlags), since credits may arrive before a core enters it.
///
/// An all-gather (s0: the own block, s1: the blocks of all members in the order of the group) is
/// the second half of that, a reduce-scatter (s0: the blocks for all members, s1: the sum of those
/// for this one) the first, on blocks that follow each other. Members of groups follow each other
/// in the ring as in the group, wherever they are.
isa::Kernel all_reduce_kernel(const AllReduceShape& shape, const Target& target,
                              const Ring& ring = {});

}  // namespace tpu::compiler
