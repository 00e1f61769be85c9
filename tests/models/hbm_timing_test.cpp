#include "models/memory/hbm_timing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/base/error.h"

namespace tpu::hbm_timing_test {
namespace {

constexpr std::uint32_t kCoreMhz = 940;

bool is_possible(std::uint32_t HbmParams::*field, std::uint32_t value) {
  HbmParams params;
  params.refresh_interval_ns = 0;
  params.*field = value;
  try {
    HbmTiming timing(params, kCoreMhz);
  } catch (const ConfigurationError&) {
    return false;
  }
  return true;
}

TEST(HbmTiming, EachLimitHoldsFromBothSides) {
  EXPECT_TRUE(is_possible(&HbmParams::pin_mbps, 2));
  EXPECT_FALSE(is_possible(&HbmParams::pin_mbps, 1));
  for (const std::uint32_t beats : {2U, 4U, 8U}) {
    EXPECT_TRUE(is_possible(&HbmParams::burst_beats, beats)) << beats;
  }
  for (const std::uint32_t beats : {0U, 1U, 3U, 6U}) {
    EXPECT_FALSE(is_possible(&HbmParams::burst_beats, beats)) << beats;
  }
  for (const std::uint32_t parts : {1U, 2U, 4U}) {
    EXPECT_TRUE(is_possible(&HbmParams::pseudo_channels, parts)) << parts;
  }
  for (const std::uint32_t parts : {0U, 3U}) {
    EXPECT_FALSE(is_possible(&HbmParams::pseudo_channels, parts)) << parts;
  }
  EXPECT_FALSE(is_possible(&HbmParams::channel_bits, 0));
  for (const std::uint32_t bytes : {1024U, 2048U}) {
    EXPECT_TRUE(is_possible(&HbmParams::row_bytes, bytes)) << bytes;
  }
  for (const std::uint32_t bytes : {0U, 1000U, 1025U}) {
    EXPECT_FALSE(is_possible(&HbmParams::row_bytes, bytes)) << bytes;
  }
  for (const std::uint32_t banks : {8U, 16U, 32U}) {
    EXPECT_TRUE(is_possible(&HbmParams::banks, banks)) << banks;
  }
  for (const std::uint32_t banks : {0U, 4U, 7U, 12U}) {
    EXPECT_FALSE(is_possible(&HbmParams::banks, banks)) << banks;
  }
  EXPECT_TRUE(is_possible(&HbmParams::drain_bursts, 1));
  EXPECT_FALSE(is_possible(&HbmParams::drain_bursts, 0));
}

/// A memory clock is two beats of a pin; every time is rounded up to whole clocks. Each parameter
/// has a value of its own.
TEST(HbmTiming, TimesAreThoseOfTheDataSheetInMemoryClocks) {
  HbmParams params;
  params.pin_mbps = 1700;
  params.precharge_ns = 13;
  params.read_activate_ns = 17;
  params.write_activate_ns = 7;
  params.read_latency_ns = 23;
  params.write_latency_ns = 11;
  params.read_to_precharge_ns = 6;
  params.write_recovery_ns = 19;
  params.write_to_read_ns = 9;
  params.bus_turn_clocks = 3;
  params.drain_bursts = 37;
  params.refresh_interval_ns = 4001;
  params.refresh_ns = 353;
  params.first_refresh_ns = 757;
  const HbmTiming timing(params, kCoreMhz);
  const auto clocks = [](std::uint32_t ns) {
    return static_cast<std::uint64_t>(std::ceil(ns * 1700.0 / 2000));
  };
  // Two pseudo channels of 64 bits: bursts of 32 bytes in two clocks, 32 of them a granule.
  EXPECT_EQ(timing.burst, 2u);
  EXPECT_EQ(timing.granule, 64u);
  EXPECT_EQ(timing.drain_granules, 2u);  // 37 bursts reach into a second granule.
  EXPECT_EQ(timing.first_data[0], clocks(17 + 23));
  EXPECT_EQ(timing.first_data[1], clocks(7 + 11));
  EXPECT_EQ(timing.turn[0], clocks(9 + 23));
  EXPECT_EQ(timing.turn[1], 3u);
  EXPECT_EQ(timing.row_miss[0], clocks(6 + 13 + 17) - 2);
  EXPECT_EQ(timing.row_miss[1], clocks(19 + 13 + 7 + 11));
  EXPECT_EQ(timing.refresh_interval, clocks(4001));
  EXPECT_EQ(timing.first_refresh, clocks(757));
  EXPECT_EQ(timing.refresh, clocks(353) + clocks(6 + 13 + 17) - 2);
  // 850 MHz beside 940: 85 to 94.
  EXPECT_EQ(timing.memory_clocks * 94, timing.core_clocks * 85);
  params.refresh_ns = 4001 - 30;
  EXPECT_THROW(HbmTiming(params, kCoreMhz), ConfigurationError);
  // Rows that are reopened while a burst is on the pins are hidden by it.
  params = {};
  params.refresh_interval_ns = 0;
  params.read_to_precharge_ns = params.precharge_ns = params.read_activate_ns = 0;
  EXPECT_EQ(HbmTiming(params, kCoreMhz).row_miss[0], 0u);
}

}  // namespace
}  // namespace tpu::hbm_timing_test
