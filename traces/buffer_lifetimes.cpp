#include "traces/buffer_lifetimes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "sim/base/error.h"

namespace tpu::traces {
namespace {

/// First and end byte of a buffer.
std::pair<std::uint64_t, std::uint64_t> range_of(const isa::Buffer& buffer) {
  const std::uint64_t begin = buffer.granule * isa::kHbmGranuleBytes;
  return {begin, begin + buffer.bytes};
}

/// The op that makes a buffer: "fusion.3{1}" is the second result of "fusion.3". Op 0 where no op
/// has the name.
std::uint32_t maker(const std::map<std::string, std::uint32_t>& ops, const isa::Buffer& buffer) {
  const auto found = ops.find(buffer.name.substr(0, buffer.name.find_first_of("{@")));
  return found != ops.end() ? found->second : 0;
}

/// Ends each temporary where a later one begins to use its memory.
void end_temporaries(const std::vector<isa::Buffer>& buffers, std::vector<Lifetime>& lifetimes) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].role == isa::BufferRole::kTemporary) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return lifetimes[a].first_op < lifetimes[b].first_op;
  });
  std::map<std::uint64_t, std::size_t> live;  ///< By first byte; ranges do not overlap.
  for (const std::size_t next : order) {
    const auto [begin, end] = range_of(buffers[next]);
    auto at = live.lower_bound(begin);
    if (at != live.begin() && range_of(buffers[std::prev(at)->second]).second > begin) --at;
    while (at != live.end() && at->first < end) {
      Lifetime& old = lifetimes[at->second];
      const std::uint32_t until = lifetimes[next].first_op;
      old.last_op = std::max(old.first_op, until > 0 ? until - 1 : 0);
      at = live.erase(at);
    }
    live.emplace(begin, next);
  }
}

}  // namespace

std::vector<Lifetime> overwritten_lifetimes(const std::vector<isa::OpInfo>& ops,
                                            const std::vector<isa::Buffer>& buffers) {
  std::map<std::string, std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < ops.size(); ++i) numbers.emplace(ops[i].name, i);
  const auto last = static_cast<std::uint32_t>(std::max<std::size_t>(1, ops.size()) - 1);
  std::vector<Lifetime> lifetimes;
  for (const isa::Buffer& buffer : buffers) {
    const bool is_made =
        buffer.role == isa::BufferRole::kTemporary || buffer.role == isa::BufferRole::kOutput;
    lifetimes.push_back({is_made ? maker(numbers, buffer) : 0, last});
  }
  end_temporaries(buffers, lifetimes);
  return lifetimes;
}

std::vector<std::uint64_t> hbm_in_use(const RunRecord& record) {
  const std::vector<Lifetime>& lifetimes = record.lifetimes;
  TPU_CHECK(lifetimes.size() == record.buffers.size(),
            "lifetimes of " << lifetimes.size() << " of " << record.buffers.size() << " buffers");
  std::vector<std::size_t> order(record.buffers.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return range_of(record.buffers[a]) < range_of(record.buffers[b]);
  });
  std::vector<std::uint64_t> in_use(record.ops.size(), 0), covered(record.ops.size(), 0);
  for (const std::size_t i : order) {
    const auto [begin, end] = range_of(record.buffers[i]);
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
