#include "models/host/page_cache.h"

#include <algorithm>
#include <cmath>

namespace tpu {

double bytes_made_ahead(const MachineParams& params, std::uint64_t examples,
                        std::uint64_t example_bytes) {
  return (1.0 + params.input.prefetch_batches) * static_cast<double>(examples) *
         static_cast<double>(example_bytes);
}

double PageCache::found_share(double held, bool shuffled) {
  if (held >= 1) return 1;
  if (held <= 0 || !shuffled) return 0;
  return held + (1 - held) * std::log(1 - held);
}

PageCache::PageCache(const MachineParams& params, std::uint64_t file_bytes, std::uint64_t examples,
                     std::uint64_t example_bytes) {
  if (!params.input.page_cache || file_bytes == 0) return;
  const double left = params.host.ram_gib * 1024.0 * 1024 * 1024 -
                      bytes_made_ahead(params, examples, example_bytes) -
                      1.0 * std::min(params.input.shuffle_examples, params.input.images) *
                          static_cast<double>(file_bytes);
  const double files = 1.0 * params.input.images * static_cast<double>(file_bytes);
  held_ = std::clamp(left / files, 0.0, 1.0);
  const double share = found_share(held_, params.input.order == "shuffled");
  found_ = static_cast<std::uint32_t>(std::floor(share * kParts));
}

bool PageCache::finds_next() {
  phase_ += found_;
  if (phase_ < static_cast<std::uint32_t>(kParts)) return false;
  phase_ -= static_cast<std::uint32_t>(kParts);
  return true;
}

}  // namespace tpu
