#pragma once

#include <cstdint>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The word of a scalar constant as it stands in an array of the type: two equal halves for packed
/// types.
std::uint32_t constant_word(const hlo::HloInstruction& constant, hlo::ElementType type);

}  // namespace tpu::compiler
