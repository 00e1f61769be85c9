#pragma once

#include <cstdint>

#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// An all-reduce of f32 over all cores that goes on while other kernels run, in three kernels:
///
/// - scatter: each core writes the segment of every other core into that core's landing place, by
///   remote DMAs from HBM to HBM that are all under way when the kernel ends. Before, it waits
///   until all others have entered: nobody writes into memory that is still in use.
/// - sum: waits for what the others have sent, adds it to the core's own segment, and sends the
///   sums to where they belong on all others. Those have sent what stood there before, for this
///   core has received it.
/// - gather: waits for the sums of the others.
///
/// A segment takes the way of the routers, so a link carries more than in a ring or along the mesh
/// (all_reduce.h), and the HBM twice as much; both beside kernels that need them or do not.
enum class BucketPhase : std::uint8_t { kScatter, kSum, kGather };

/// How a bucket is cut: a segment for each core.
struct BucketShape {
  std::uint32_t members = 2;
  std::uint64_t used_granules = 0;     ///< That were asked for.
  std::uint32_t segment_granules = 0;  ///< In whole vector registers.
  std::uint32_t chunk_granules = 0;    ///< That are added at once; a segment has them without rest.

  std::uint64_t granules() const { return std::uint64_t{members} * segment_granules; }
  /// Where the segments of the others arrive.
  std::uint64_t landing_granules() const { return granules() - segment_granules; }
};

/// More cores would have more DMAs under way than links to carry them.
constexpr std::uint32_t kMostBucketMembers = 64;

/// The cut of a range of at least `granules`.
BucketShape bucket_shape(std::uint64_t granules, const Target& target);
/// Whether there are buckets among the cores of a target: all of a slice, few enough.
bool has_bucket_kernels(const Target& target);

/// Cycles that a bucket is on the links in one of its two ways, from the fullest link; for a choice
/// among all-reduces.
double bucket_passage_cycles(const BucketShape& shape, const Target& target);
/// Cycles of the HBM for all that a bucket moves: parts sent, landed and added, sums sent and
/// landed.
double bucket_memory_cycles(const BucketShape& shape, const Target& target);

}  // namespace tpu::compiler
