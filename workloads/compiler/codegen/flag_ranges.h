#pragma once

#include <cstdint>

#include "isa/program.h"

namespace tpu::compiler {

/// Who raises which sync flag of a core. A flag that another core may raise while this one runs any
/// other kernel belongs to one kind of kernel alone; those that a kernel uses for itself are zero
/// when it begins and when it ends. Remote DMAs raise flags below kRemoteFlagEnd only (their
/// descriptor has six bits for it), additions by vsyncadd.remote any.
struct FlagRange {
  std::uint32_t begin = 0, end = 0;
};
constexpr std::uint32_t kRemoteFlagEnd = 64;
constexpr std::uint32_t kMostFlags = 1024;  ///< Of a descriptor's own flag: ten bits.
constexpr std::uint32_t kMostRings = 128;   ///< Groupings of replicas and channels of branches.

/// What arrives of buckets under way: two flags each (bucket_all_reduce.h). Flag 7 is nobody's.
constexpr std::uint32_t kMostBucketsUnderWay = 3;
constexpr FlagRange kBucketArrivalFlags{0, 2 * kMostBucketsUnderWay};
/// Streams of rings: five flags each (all_reduce.h).
constexpr std::uint32_t kMostStreams = 4;
constexpr std::uint32_t kFlagsPerStream = 5;
constexpr FlagRange kStreamFlags{8, 8 + kMostStreams* kFlagsPerStream};
/// Entrances: of all-reduces along the mesh, of exchanges among all cores in order.
constexpr FlagRange kMeshEntranceFlag{28, 29};
constexpr FlagRange kExchangeEntranceFlag{29, 30};
/// What kernels allocate, and those that have VMEM from above.
constexpr FlagRange kKernelFlags{32, 64};
constexpr FlagRange kHighKernelFlags{776, 808};
/// Credits of the rings of other groupings than that of all cores.
constexpr FlagRange kRingCreditFlags{128, 128 + (kMostRings - 1) * kMostStreams};
/// Entrances of exchanges of other groupings, and of all-reduces along the mesh in branches, by
/// their number.
constexpr FlagRange kGroupEntranceFlags{640, 640 + kMostRings};
/// Of buckets: what has left of those under way, two flags each; entrances, in turns.
constexpr FlagRange kBucketSentFlags{768, 768 + 2 * kMostBucketsUnderWay};
constexpr FlagRange kBucketEntranceFlags{774, 776};

constexpr bool come_in_order(FlagRange before, FlagRange behind) {
  return before.begin < before.end && before.end <= behind.begin;
}
static_assert(come_in_order(kBucketArrivalFlags, kStreamFlags) && kBucketArrivalFlags.end <= 7);
static_assert(come_in_order(kStreamFlags, kMeshEntranceFlag));
static_assert(come_in_order(kMeshEntranceFlag, kExchangeEntranceFlag));
static_assert(come_in_order(kExchangeEntranceFlag, kKernelFlags));
static_assert(kKernelFlags.end <= kRemoteFlagEnd);
static_assert(come_in_order(kKernelFlags, kRingCreditFlags));
static_assert(come_in_order(kRingCreditFlags, kGroupEntranceFlags));
static_assert(come_in_order(kGroupEntranceFlags, kBucketSentFlags));
static_assert(come_in_order(kBucketSentFlags, kBucketEntranceFlags));
static_assert(come_in_order(kBucketEntranceFlags, kHighKernelFlags));
static_assert(kHighKernelFlags.end <= kMostFlags);

}  // namespace tpu::compiler
