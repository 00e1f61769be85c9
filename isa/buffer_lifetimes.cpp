#include "isa/buffer_lifetimes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace tpu::isa {
namespace {

/// The op that makes a buffer: "fusion.3{1}" is the second result of "fusion.3". Op 0 where no op
/// has the name.
std::uint32_t maker(const std::map<std::string, std::uint32_t>& ops, const Buffer& buffer) {
  const auto found = ops.find(buffer.name.substr(0, buffer.name.find_first_of("{@")));
  return found != ops.end() ? found->second : 0;
}

/// Ends each temporary where a later one begins to use its memory.
void end_temporaries(const std::vector<Buffer>& buffers, std::vector<Lifetime>& lifetimes) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].role == BufferRole::kTemporary) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return lifetimes[a].first_op < lifetimes[b].first_op;
  });
  std::map<std::uint64_t, std::size_t> live;  ///< By first byte; ranges do not overlap.
  for (const std::size_t next : order) {
    const auto [begin, end] = byte_range(buffers[next]);
    auto at = live.lower_bound(begin);
    if (at != live.begin() && byte_range(buffers[std::prev(at)->second]).second > begin) --at;
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

std::pair<std::uint64_t, std::uint64_t> byte_range(const Buffer& buffer) {
  const std::uint64_t begin = buffer.granule * kHbmGranuleBytes;
  return {begin, begin + buffer.bytes};
}

std::vector<Lifetime> overwritten_lifetimes(const std::vector<OpInfo>& ops,
                                            const std::vector<Buffer>& buffers) {
  std::map<std::string, std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < ops.size(); ++i) numbers.emplace(ops[i].name, i);
  const auto last = static_cast<std::uint32_t>(std::max<std::size_t>(1, ops.size()) - 1);
  std::vector<Lifetime> lifetimes;
  for (const Buffer& buffer : buffers) {
    const bool is_made =
        buffer.role == BufferRole::kTemporary || buffer.role == BufferRole::kOutput;
    lifetimes.push_back({is_made ? maker(numbers, buffer) : 0, last});
  }
  end_temporaries(buffers, lifetimes);
  return lifetimes;
}

}  // namespace tpu::isa
