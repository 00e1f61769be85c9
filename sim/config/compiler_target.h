#pragma once

#include <cstdint>

#include "models/params.h"
#include "workloads/compiler/target.h"

namespace tpu::config {

/// What the compiler has to know of a machine on which `cores` replicas run together.
compiler::Target target_of(const MachineParams& params, std::uint32_t cores);

}  // namespace tpu::config
