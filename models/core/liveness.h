#pragma once

#include <cstdint>
#include <vector>

#include "isa/program.h"
#include "models/core/decoded_kernel.h"
#include "models/core/followed_kernels.h"

namespace tpu {

/// A bit per scalar register (0 to 31) and predicate register (32 to 47).
using ScalarSet = std::uint64_t;

/// What an instruction reads and writes of the scalar registers.
struct ScalarUse {
  ScalarSet reads = 0;
  ScalarSet write = 0;
  bool root = false;     ///< Acts on control, SMEM or the outside: always part of the slice.
  bool guarded = false;  ///< Then the write may not happen.
};
/// False for most instructions that scalar_use() has nothing to say about.
bool may_matter(const BriefInstruction& instruction);
ScalarUse scalar_use(const isa::Instruction& instruction);
/// In a kernel that is followed every scalar instruction matters, and what vector ones read.
ScalarUse scalar_use_followed(const isa::Instruction& instruction);

/// For each kernel and bundle the scalar registers whose values after the bundle reach a root.
std::vector<std::vector<ScalarSet>> live_after_bundles(const isa::Program& program,
                                                       const std::vector<BriefCode>& brief,
                                                       const FollowedKernels& followed);

}  // namespace tpu
