#include "models/memory/hbm_mapping.h"

#include <algorithm>

namespace tpu {

HbmMapping::Base::Base(std::uint32_t number) : base(std::max(number, 1u)) {
  if ((base & (base - 1)) != 0) return;
  for (bits = 0; base >> bits > 1;) ++bits;
}

std::uint32_t HbmMapping::Base::fold(std::uint64_t value) const {
  if (base < 2) return 0;
  std::uint64_t sum = 0;
  if (bits >= 0) {
    for (; value > 0; value >>= bits) sum += value;
    return static_cast<std::uint32_t>(sum & (base - 1));
  }
  for (; value > 0; value /= base) sum += value;
  return static_cast<std::uint32_t>(sum % base);
}

HbmMapping::HbmMapping(std::uint32_t channels, std::uint32_t banks, std::uint32_t granules_per_row)
    : channels_(channels), banks_(banks), per_row_(granules_per_row) {}

}  // namespace tpu
