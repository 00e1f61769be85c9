#pragma once

#include <array>
#include <cstdint>

#include "models/params.h"

namespace tpu {

/// The parameters of HBM2 as distances between commands and data of a pseudo channel, in memory
/// clocks (half the pin rate). Of two entries the first is of reads, the second of writes; names in
/// brackets are those of JESD235.
struct HbmCommandTiming {
  std::uint64_t burst = 0;                        ///< The bus is taken, as is tCCDS.
  std::uint64_t column_to_column_group = 0;       ///< tCCDL.
  std::array<std::uint64_t, 2> row_to_column{};   ///< tRCDRD, tRCDWR.
  std::array<std::uint64_t, 2> column_to_data{};  ///< RL, WL.
  std::uint64_t row_open = 0;                     ///< tRAS.
  std::uint64_t precharge = 0;                    ///< tRP.
  std::uint64_t read_to_precharge = 0;            ///< tRTP.
  std::uint64_t write_recovery = 0;               ///< tWR, from the last data on.
  std::uint64_t row_to_row = 0;                   ///< tRRDS.
  std::uint64_t row_to_row_group = 0;             ///< tRRDL.
  std::uint64_t four_rows = 0;                    ///< tFAW.
  std::uint64_t write_to_read = 0;                ///< tWTRS, from the last data on.
  std::uint64_t write_to_read_group = 0;          ///< tWTRL.
  std::uint64_t bus_turn = 0;                     ///< Between read and write data.
  std::uint64_t refresh_interval = 0;             ///< tREFI, or its part for one bank; 0: none.
  std::uint64_t refresh = 0;                      ///< tRFC or tRFCSB.
  std::uint64_t first_refresh = 0;
  std::uint32_t banks = 0;
  std::uint32_t groups = 0;
  std::uint32_t bursts_per_granule = 0;
  std::uint32_t granules_per_row = 0;
  std::uint32_t drain_bursts = 0;
  std::uint32_t queue_granules = 0;
  bool single_bank_refresh = false;

  /// Throws ConfigurationError where the parameters make no channel.
  HbmCommandTiming(const HbmParams& params, std::uint32_t clock_mhz);

  /// The clock in which a core cycle has begun, and the other way round.
  std::uint64_t clock_of(std::uint64_t cycle) const;
  std::uint64_t cycle_of(std::uint64_t clock) const;

 private:
  std::uint64_t pin_mbps_ = 0;
  std::uint64_t clock_mhz_ = 0;
};

}  // namespace tpu
