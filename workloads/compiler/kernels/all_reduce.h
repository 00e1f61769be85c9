#pragma once

#include <cstdint>
#include <vector>

#include "isa/program.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// How an all-reduce cuts its range of HBM: `streams` rings run side by side, each in `rounds`
/// rounds, each round over one chunk per core.
struct AllReduceShape {
  std::uint32_t streams = 4;  ///< Two per direction: one travels while the other is added.
  std::uint32_t rounds = 1;
  std::uint32_t chunk_granules = 4;
  std::uint64_t used_granules = 0;  ///< That were asked for.
  std::uint64_t granules = 0;       ///< Of the whole range: as many or more.
};

/// The cut of a range of at least `granules` over target.cores replicas.
AllReduceShape all_reduce_shape(std::uint64_t granules, const Target& target);

/// The chips of the first target.cores cores in the order of the ring. On a rectangle with an even
/// side neighbours in the ring are neighbours in the mesh; otherwise one way of the ring is longer.
/// Throws WorkloadError for a number of cores that fills no whole chips of the slice.
std::vector<std::uint32_t> ring_of_chips(const Target& target);

/// Sums a range of f32 over the replicas, in place: every core ends with the same sums.
///
/// s0 holds the first granule; the range is the same on every core and as long as
/// all_reduce_shape() says; the kernel fills what was not asked for with zeros. All cores form a
/// ring, the cores of a chip side by side. Of each round every core owns a chunk: 2n - 2 hops of
/// reduce-scatter and all-gather pass the chunks around, by remote DMA from VMEM to VMEM; a
/// received chunk is added to the core's own on the way. Half of the streams run one way round the
/// ring, half the other way, so that both directions of each link work.
///
/// A receiver has two slots per stream and gives its sender a credit (a remote sync flag) for each
/// free one, the first two when it enters the kernel: nobody writes into the memory of a core that
/// is still busy with another kernel. The flags belong to this kernel alone
/// (kAllReduceFlagBegin...), since credits may arrive before a core enters it.
isa::Kernel all_reduce_kernel(const AllReduceShape& shape, const Target& target);

/// Sync flags of the streams: below those that kernels allocate.
constexpr std::uint32_t kAllReduceFlagBegin = 8;

}  // namespace tpu::compiler
