#include "traces/buffer_lifetimes.h"

#include <algorithm>

#include "isa/buffer_lifetimes.h"
#include "sim/base/error.h"

namespace tpu::traces {

std::vector<std::uint64_t> hbm_in_use(const RunRecord& record) {
  const std::vector<isa::Lifetime>& lifetimes = record.lifetimes;
  TPU_CHECK(lifetimes.size() == record.buffers.size(),
            "lifetimes of " << lifetimes.size() << " of " << record.buffers.size() << " buffers");
  std::vector<std::size_t> order(record.buffers.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return isa::byte_range(record.buffers[a]) < isa::byte_range(record.buffers[b]);
  });
  std::vector<std::uint64_t> in_use(record.ops.size(), 0), covered(record.ops.size(), 0);
  for (const std::size_t i : order) {
    const auto [begin, end] = isa::byte_range(record.buffers[i]);
    for (std::uint32_t op = lifetimes[i].first_op; op <= lifetimes[i].last_op && op < in_use.size();
         ++op) {
      const std::uint64_t from = std::max(begin, covered[op]);
      if (end <= from) continue;
      in_use[op] += end - from;
      covered[op] = end;
    }
  }
  return in_use;
}

std::uint64_t hbm_peak_bytes(const RunRecord& record) {
  const std::vector<std::uint64_t> in_use = hbm_in_use(record);
  return in_use.empty() ? record.hbm_plan_bytes : *std::max_element(in_use.begin(), in_use.end());
}

}  // namespace tpu::traces
