#pragma once

#include <cstddef>
#include <vector>

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// An array that is to be reduced over all replicas, before fusion.
struct ReducedArray {
  hlo::InstructionId id = -1;
  std::uint64_t granules = 0;
};

/// Arrays that are reduced together.
struct GradientBucket {
  std::vector<std::size_t> arrays;  ///< Their places in the list.
  bool beside_kernels = false;      ///< While other kernels run, else while this core waits.
};

/// Buckets of the arrays of one all-reduce, in the order in which they become known. Their size is
/// that of the target; kBucketsByCost: that of which the estimate is least, with one of all arrays,
/// for which all cores wait, among them.
///
/// The estimate: products take what their arrays or the HBM take for them; a bucket goes over the
/// links when it is known and the one before has gone; what has not gone when the last product ends
/// goes while the cores wait. What a bucket moves in the HBM counts in full: kernels wait for it,
/// those that the arrays bound, too (a bucket of 64 MiB beside products of 2048x4096x4096: 300,000
/// cycles more in two of 1,220,000, about what its bytes take).
std::vector<GradientBucket> gradient_buckets(const hlo::Module& module,
                                             const std::vector<ReducedArray>& arrays,
                                             const Target& target);

}  // namespace tpu::compiler
