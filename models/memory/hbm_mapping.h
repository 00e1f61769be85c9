#pragma once

#include <cstdint>

namespace tpu {

/// Where a granule lies: consecutive granules go to consecutive channels, in an order that turns
/// with the address, so that strides of a power of two reach all channels; the rows of a channel
/// go to consecutive banks in the same way. Assumed: the chip's mapping is not published.
class HbmMapping {
 public:
  HbmMapping(std::uint32_t channels, std::uint32_t banks, std::uint32_t granules_per_row);

  std::uint32_t channels() const { return channels_.base; }
  std::uint32_t channel(std::uint64_t granule) const {
    return channel_of(channels_.divide(granule), granule);
  }
  std::uint64_t row(std::uint64_t granule) const { return row_of(channels_.divide(granule)); }
  std::uint32_t bank(std::uint64_t row) const { return banks_.fold(row); }

  // A block is as many consecutive granules as there are channels, one in each, in one row.
  std::uint64_t block(std::uint64_t granule) const { return channels_.divide(granule); }
  std::uint32_t channel_of(std::uint64_t block, std::uint64_t granule) const {
    const auto in_block = static_cast<std::uint32_t>(granule - block * channels_.base);
    const std::uint32_t turned = in_block + channels_.fold(block);
    return turned < channels_.base ? turned : turned - channels_.base;
  }
  std::uint64_t row_of(std::uint64_t block) const { return per_row_.divide(block); }

 private:
  /// Numbers to a base; powers of two without divisions.
  struct Base {
    std::uint32_t base = 1;
    int bits = -1;  ///< Of a power of two.

    explicit Base(std::uint32_t number);
    std::uint64_t divide(std::uint64_t value) const {
      return bits >= 0 ? value >> bits : value / base;
    }
    /// The sum of what is left of `value` when its last digits are dropped one by one, none at
    /// first; modulo the base, so the sum of its digits.
    std::uint32_t fold(std::uint64_t value) const;
  };

  Base channels_;
  Base banks_;
  Base per_row_;
};

}  // namespace tpu
