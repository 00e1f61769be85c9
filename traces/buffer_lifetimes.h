#pragma once

#include <cstdint>
#include <vector>

#include "traces/run_record.h"

namespace tpu::traces {

/// The ops between which a buffer holds data, by number in the record; both included.
struct Lifetime {
  std::uint32_t first_op = 0, last_op = 0;
};

/// Lifetimes of the record's buffers, in their order. Parameters, constants and the infeed live
/// through the step, an output from the op that makes it on. A program does not say who reads a
/// temporary last: it is taken to live from the op that makes it (the one in its name) until
/// another buffer is made in its place.
std::vector<Lifetime> buffer_lifetimes(const RunRecord& record);

/// Bytes of HBM that are in use while each op runs; ranges that buffers share count once.
std::vector<std::uint64_t> hbm_in_use(const RunRecord& record);

}  // namespace tpu::traces
