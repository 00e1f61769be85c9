#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "isa/program.h"

namespace tpu::isa {

/// First and end byte of a buffer in the HBM.
std::pair<std::uint64_t, std::uint64_t> byte_range(const Buffer& buffer);

/// Lifetimes of a program's buffers, in their order, where nobody knows who reads a temporary last:
/// it is taken to live from the op that makes it (the one in its name) until another buffer is made
/// in its place. Parameters, constants and the infeed live through the step, an output from the op
/// that makes it on.
std::vector<Lifetime> overwritten_lifetimes(const std::vector<OpInfo>& ops,
                                            const std::vector<Buffer>& buffers);

}  // namespace tpu::isa
