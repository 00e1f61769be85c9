#pragma once

#include <cstdint>

#include "isa/program.h"
#include "workloads/compiler/codegen/flag_ranges.h"
#include "workloads/compiler/ir/bucket_shape.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// s0: the range, the same on every core; s1: the landing place (not of gather). `number` counts
/// the buckets of a step: of kMostBucketsUnderWay that follow each other each has its flags, and
/// one may begin when the one so many before has ended.
isa::Kernel bucket_kernel(BucketPhase phase, const BucketShape& shape, std::uint32_t number,
                          const Target& target);

}  // namespace tpu::compiler
