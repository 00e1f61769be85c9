#include "models/memory/hbm_timing.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "models/memory/hbm_channel.h"
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

/// A bus that has read since it turned turns so much sooner once writes wait, too: channels that
/// read two and three granules before do not go on alike, and a step does not repeat.
TEST(HbmChannel, WhatPassedSinceTheBusTurnedIsPartOfWhatIsToCome) {
  HbmParams params;
  params.refresh_interval_ns = 0;
  params.drain_bursts = 256;
  const HbmTiming timing(params, kCoreMhz);
  ASSERT_GT(timing.drain_granules, 4u);
  const HbmMapping mapping(1, params.banks, 1024);
  constexpr std::uint64_t kLater = 100000;
  std::vector<std::vector<std::uint64_t>> states;
  std::vector<std::uint64_t> write_ends;
  for (const std::uint64_t before : {2u, 3u}) {
    std::array<HbmQueue, 2> queues = {HbmQueue(mapping), HbmQueue(mapping)};
    HbmChannel channel(timing, queues, 0);
    std::uint64_t write_end = 0;
    const auto visit = [&](std::uint32_t request, std::uint64_t, std::uint64_t clock) {
      if (request == 2) write_end = clock;
    };
    const auto submit = [&](HbmDirection direction, std::uint32_t request, std::uint64_t arrival,
                            std::uint64_t granules) {
      queues[direction].begin_request(request, arrival);
      queues[direction].add_run(0, granules);
      queues[direction].end_request();
    };
    submit(kHbmRead, 0, 0, before);
    channel.advance(kLater, visit);
    StepState state(kLater);
    channel.describe(kLater, state);
    states.push_back(state.words());
    // Both may begin in the same clock.
    submit(kHbmRead, 1, kLater + 1000 - timing.first_data[kHbmRead], timing.drain_granules);
    submit(kHbmWrite, 2, kLater + 1000 - timing.first_data[kHbmWrite], timing.drain_granules);
    channel.advance(2 * kLater, visit);
    write_ends.push_back(write_end);
  }
  EXPECT_EQ(write_ends[0], write_ends[1] + timing.granule);
  EXPECT_NE(states[0], states[1]);
}

/// A channel whose refresh fell due behind its last data, and one whose refresh is due in as many
/// clocks as that is past, do not go on alike.
TEST(HbmChannel, WhetherTheRefreshIsOverdueIsPartOfWhatIsToCome) {
  HbmTiming timing(HbmParams(), kCoreMhz);
  const HbmMapping mapping(1, HbmParams().banks, 1024);
  const std::uint64_t begin = timing.first_data[kHbmRead];
  // The granule is on the bus when the refresh falls due.
  const std::uint64_t due = begin + 1, clock = 1000, late = clock - due;
  std::vector<std::vector<std::uint64_t>> states;
  std::vector<std::uint64_t> ends;
  for (const std::uint64_t first_refresh : {due, clock + late}) {
    timing.first_refresh = first_refresh;
    std::array<HbmQueue, 2> queues = {HbmQueue(mapping), HbmQueue(mapping)};
    HbmChannel channel(timing, queues, 0);
    const auto submit = [&](std::uint64_t arrival, std::uint64_t granules) {
      queues[kHbmRead].begin_request(0, arrival);
      queues[kHbmRead].add_run(0, granules);
      queues[kHbmRead].end_request();
    };
    std::uint64_t end = 0;
    const auto visit = [&](std::uint32_t, std::uint64_t, std::uint64_t last) { end = last; };
    submit(0, 1);
    channel.advance(clock, visit);
    EXPECT_EQ(end, begin + timing.granule);
    StepState state(clock);
    channel.describe(clock, state);
    states.push_back(state.words());
    // So many granules that the last one begins behind a refresh that is still to come.
    const std::uint64_t granules = late / timing.granule + 1;
    submit(clock, granules);
    channel.advance(10 * clock, visit);
    ends.push_back(end - begin - granules * timing.granule);
  }
  EXPECT_NE(states[0], states[1]);
  EXPECT_EQ(ends[0], clock);
  EXPECT_EQ(ends[1], clock + timing.refresh);
}

}  // namespace
}  // namespace tpu::hbm_timing_test
