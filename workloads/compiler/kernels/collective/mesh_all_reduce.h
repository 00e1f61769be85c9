#pragma once

#include "workloads/compiler/kernels/collective/all_reduce.h"

namespace tpu::compiler {

/// Whether and how an all-reduce over all cores of a slice goes along its dimensions: the cheaper
/// of that and the ring, whose shape is given, by links, hops and HBM; of two that cost about the
/// same the mesh.
MeshShape mesh_shape(const AllReduceShape& ring_shape, const Target& target, const Ring& ring);

/// The cheapest way along the dimensions, whatever a ring costs; no buckets: the slice, or the
/// number of cores that the target has of it, knows none.
MeshShape cheapest_mesh_shape(std::uint64_t granules, const Target& target);

/// Sums a range of f32 over all cores of a slice, in place, along the dimensions of the mesh, two
/// or three.
///
/// Buckets of the range pass through VMEM whole. The cores of a chip exchange halves and each sums
/// one (reduce-scatter over the pair), then the half is reduced and scattered along one dimension,
/// then along the next; then everything is gathered the same way back. While a bucket goes along
/// the dimensions, the next one is exchanged and the one before is returned and stored. Core 0 of a
/// chip begins along x or y and core 1 along the other, so that both work at once; along z, where
/// there is one, both go last, with what the others leave of the half. What a
/// core sums comes to it from both sides of its ring, from each over half of the ring. A line
/// without a wrap-around is a ring too: out over the even chips, back over the odd ones.
///
/// Every part that arrives has a place of its own in VMEM, and nobody begins a bucket before all
/// neighbours are done with the parts of the one before: the sums that they wait for pass through
/// each other. So only the entrance needs credits, where each core tells those that send to it that
/// it is there, and the exchange of halves, which runs ahead. `number`: of the ring (ring.h).
isa::Kernel mesh_all_reduce_kernel(const AllReduceShape& shape, const Target& target,
                                   std::uint32_t number);

}  // namespace tpu::compiler
