#pragma once

#include <cstdint>
#include <vector>

#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// The cores that work together. Every core is in one group, and all groups are as large.
struct Ring {
  std::vector<std::vector<std::uint32_t>> groups;  ///< Empty: all cores in order are one.
  /// Kernels whose groups differ have different numbers below kMostRings, and so credits of their
  /// own: a core that is ahead does not answer for another ring. So have channels in branches.
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

/// Cycles that an all-reduce of all cores takes, about, the way that its shape says.
double all_reduce_cycles(const AllReduceShape& shape, const Target& target);

}  // namespace tpu::compiler
