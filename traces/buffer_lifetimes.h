#pragma once

#include <cstdint>
#include <vector>

#include "traces/run_record.h"

namespace tpu::traces {

/// Lifetimes of a program's buffers, in their order, where nobody knows who reads a temporary last:
/// it is taken to live from the op that makes it (the one in its name) until another buffer is made
/// in its place. Parameters, constants and the infeed live through the step, an output from the op
/// that makes it on.
std::vector<Lifetime> overwritten_lifetimes(const std::vector<isa::OpInfo>& ops,
                                            const std::vector<isa::Buffer>& buffers);

/// Bytes of HBM that are in use while each op runs; ranges that buffers share count once.
std::vector<std::uint64_t> hbm_in_use(const RunRecord& record);

/// The most of them: what the memory timeline peaks at. Of a program without ops, its plan.
std::uint64_t hbm_peak_bytes(const RunRecord& record);

}  // namespace tpu::traces
