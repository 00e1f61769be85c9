#pragma once

#include <cstdint>
#include <vector>

#include "isa/program.h"
#include "workloads/compiler/codegen/flag_ranges.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// The cores that work together. Every core is in one group, and all groups are as large.
struct Ring {
  std::vector<std::vector<std::uint32_t>> groups;  ///< Empty: all cores in order are one.
  /// Kernels whose groups differ have different numbers below kMostRings, and so credits of their
  /// own: a core that is ahead does not answer for another ring.
  std::uint32_t number = 0;

  std::uint32_t members(const Target& target) const {
    return groups.empty() ? target.cores : static_cast<std::uint32_t>(groups[0].size());
  }
};

/// What a ring does: sums a range in place, collects the blocks of all members, or sums blocks of
/// which each member keeps one.
enum class RingKind : std::uint8_t { kAllReduce, kAllGather, kReduceScatter };

/// How an all-reduce goes over the mesh in place of a ring of all cores (mesh_all_reduce.h): bucket
/// after bucket through VMEM.
struct MeshShape {
  std::uint32_t buckets = 0;  ///< 0: the ring.
  std::uint32_t bucket_granules = 0;
  bool y_first = false;  ///< The dimension along which whole buckets go.
};

/// How an all-reduce cuts its range of HBM: `streams` rings run side by side, each in `rounds`
/// rounds, each round over one chunk per core. For all-gather and reduce-scatter the range is the
/// block of one member.
struct AllReduceShape {
  RingKind kind = RingKind::kAllReduce;
  std::uint32_t streams = 4;  ///< Two per direction: one travels while the other is added.
  std::uint32_t rounds = 1;
  std::uint32_t chunk_granules = 4;
  std::uint64_t used_granules = 0;  ///< That were asked for.
  std::uint64_t granules = 0;       ///< Of the whole range: as many or more.
  MeshShape mesh;
};

/// The cut of a range of at least `granules` over the members of a ring.
AllReduceShape all_reduce_shape(std::uint64_t granules, const Target& target,
                                const Ring& ring = {});
/// The cut of a block of so many granules, of all-gather or reduce-scatter. Chunks of a block that
/// is no multiple of them overlap.
AllReduceShape ring_block_shape(RingKind kind, std::uint64_t granules, const Target& target);

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
