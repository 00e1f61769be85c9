#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tpu {

/// Of a part that cores share or wait for (a channel of the HBM, a link, a stage of a host): its
/// cycles by what it did, idle ones by their cause. Each is counted where it passes. Channels and
/// DMAs count from where the account of their core begins, links and hosts from where the last of
/// those that use them does.
struct PartAccount {
  std::string part;
  std::vector<std::pair<std::string, std::uint64_t>> cycles;
  /// Of a channel of the HBM: bytes that pass in stretches of cycles. One lasts until the next
  /// begins, the last until the end.
  std::uint32_t core = 0, channel = 0;
  struct Moved {
    std::uint64_t begin_cycle = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Moved> moved{};
};

inline std::string channel_name(std::uint32_t core, std::size_t channel) {
  return "HBM of core " + std::to_string(core) + ", channel " + std::to_string(channel);
}

}  // namespace tpu
