#pragma once

#include <array>
#include <cstdint>

#include "models/params.h"

namespace tpu {

/// Direction of a transfer, as an index.
enum HbmDirection : std::uint8_t { kHbmRead = 0, kHbmWrite = 1 };

/// What the parameters of HBM2 mean for the data bus of a pseudo channel, in memory clocks (half
/// the pin rate). Commands are not simulated one by one: each delay is what separates the data of
/// one access from the data of the next on the bus.
struct HbmTiming {
  std::uint64_t burst = 0;    ///< The bus is taken by a burst.
  std::uint64_t granule = 0;  ///< The bus is taken by a granule of 1 KiB.
  /// An idle channel: from the arrival of a request to its first data; a row is opened.
  std::array<std::uint64_t, 2> first_data{};
  /// The gap before data of this direction after data of the other one.
  std::array<std::uint64_t, 2> turn{};
  /// The gap between data of this direction from two rows of the same bank.
  std::array<std::uint64_t, 2> row_miss{};
  std::uint64_t refresh_interval = 0;  ///< 0: there is no refresh.
  /// The gap that a refresh leaves: rows are closed, refreshed, and one is opened again.
  std::uint64_t refresh = 0;
  std::uint64_t first_refresh = 0;   ///< When the first one is due.
  std::uint64_t drain_granules = 0;  ///< Of one direction while the other one waits.
  std::uint64_t round = 0;           ///< As many of each direction, and both turns.
  /// Clocks of the memory and of the core in the same time.
  std::uint64_t memory_clocks = 0;
  std::uint64_t core_clocks = 0;

  /// Throws ConfigurationError where the parameters leave no bandwidth.
  HbmTiming(const HbmParams& params, std::uint32_t clock_mhz);

  /// Bytes per memory clock of a channel under a stream of one direction, and of both together.
  double single_rate() const;
  double mixed_rate() const;

  std::uint64_t to_memory(std::uint64_t core_cycle) const {
    return convert(core_cycle, memory_clocks, core_clocks);
  }
  std::uint64_t to_core(std::uint64_t memory_clock) const {
    return convert(memory_clock, core_clocks, memory_clocks);
  }

 private:
  /// count * to / from, rounded up, without an overflow in between.
  static std::uint64_t convert(std::uint64_t count, std::uint64_t to, std::uint64_t from) {
    const std::uint64_t whole = count / from;
    return whole * to + ((count - whole * from) * to + from - 1) / from;
  }
};

}  // namespace tpu
