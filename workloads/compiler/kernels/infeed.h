#pragma once

#include <cstdint>

#include "isa/program.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Takes the oldest batch out of the core's infeed queue into HBM, at the granule in s0, and waits
/// for it. The time it waits for the host is the step's infeed time.
isa::Kernel infeed_kernel(std::uint32_t granules, const Target& target);

}  // namespace tpu::compiler
