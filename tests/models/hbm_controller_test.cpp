#include "models/memory/hbm_controller.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/base/error.h"

namespace tpu {
namespace {

constexpr std::uint32_t kClock = 940;

/// Bytes per core cycle that refresh leaves of the pins of half a v3 chip: 16 channels of 128 bit
/// at 1800 Mb/s, 350 ns of every 3900 ns.
double single_rate() { return 1800.0 * 128 * 16 / 8 / kClock * (3900 - 350) / 3900; }
/// 32 bursts of 4 beats each way take 64 clocks each way and lose 25 clocks.
double mixed_rate() { return single_rate() * 128 / (128 + 25); }

std::uint64_t cycles(double bytes, double rate) {
  return static_cast<std::uint64_t>(std::ceil(bytes / rate));
}

HbmController controller() { return HbmController(HbmParams(), kClock, 2); }

HbmRequest read(std::uint64_t bytes, std::uint64_t token = 0) {
  return {false, bytes, nullptr, token};
}
HbmRequest write(std::uint64_t bytes, std::uint64_t token = 0) {
  return {true, bytes, nullptr, token};
}

/// The cycle in which each of `count` requests is done.
std::vector<std::uint64_t> finish(HbmController& hbm, std::size_t count) {
  std::vector<std::uint64_t> result(count);
  std::uint64_t now = 0;
  std::size_t done = 0;
  while (const std::optional<std::uint64_t> next = hbm.next_event()) {
    EXPECT_GE(*next, now);
    now = *next;
    for (const HbmRequest& request : hbm.advance(now)) {
      result[request.token] = now;
      ++done;
    }
  }
  EXPECT_EQ(done, count);
  return result;
}

TEST(HbmController, ARequestTakesItsTransferAndTheLatency) {
  for (std::uint64_t bytes : {1024u, 65536u, 1048576u}) {
    HbmController hbm = controller();
    hbm.submit(read(bytes), 1000);
    const std::uint64_t expected = 1000 + cycles(static_cast<double>(bytes), single_rate()) + 217;
    EXPECT_TRUE(hbm.advance(expected - 1).empty());
    EXPECT_EQ(hbm.advance(expected).size(), 1u);
    EXPECT_TRUE(hbm.idle());
  }
}

TEST(HbmController, NothingDriftsOverManyRequests) {
  HbmController hbm = controller();
  constexpr std::size_t kCount = 10000;
  for (std::size_t i = 0; i < kCount; ++i) hbm.submit(read(3072, i), 0);
  const std::vector<std::uint64_t> done = finish(hbm, kCount);
  for (std::size_t i : {std::size_t{0}, std::size_t{99}, kCount - 1}) {
    EXPECT_EQ(done[i], cycles(3072.0 * static_cast<double>(i + 1), single_rate()) + 217) << i;
  }
}

TEST(HbmController, ReadsAndWritesTogetherLoseTheTurns) {
  HbmController hbm = controller();
  hbm.submit(read(1 << 20, 0), 0);
  hbm.submit(write(1 << 20, 1), 0);
  const std::vector<std::uint64_t> done = finish(hbm, 2);
  const std::uint64_t expected = cycles(2.0 * (1 << 20), mixed_rate()) + 217;
  EXPECT_NEAR(static_cast<double>(done[0]), static_cast<double>(expected), 1);
  EXPECT_EQ(done[0], done[1]);
}

TEST(HbmController, WhatIsLeftOfOneDirectionHasTheChannelsAlone) {
  HbmController hbm = controller();
  hbm.submit(read(1 << 20, 0), 0);
  hbm.submit(write(1 << 18, 1), 0);
  const std::vector<std::uint64_t> done = finish(hbm, 2);
  const double mixed = 2.0 * (1 << 18) / mixed_rate();
  const double rest = ((1 << 20) - (1 << 18)) / single_rate();
  EXPECT_NEAR(static_cast<double>(done[1]), mixed + 217, 1);
  EXPECT_NEAR(static_cast<double>(done[0]), mixed + rest + 217, 1);
}

TEST(HbmController, ALaterArrivalSlowsWhatIsUnderWay) {
  HbmController hbm = controller();
  hbm.submit(read(1 << 20, 0), 0);
  hbm.submit(write(1 << 20, 1), 500);
  const std::vector<std::uint64_t> done = finish(hbm, 2);
  const double left = (1 << 20) - 500 * single_rate();
  EXPECT_NEAR(static_cast<double>(done[0]), 500 + 2 * left / mixed_rate() + 217, 1);
}

TEST(HbmController, RequestsOfOneDirectionKeepTheirOrder) {
  HbmController hbm = controller();
  hbm.submit(read(100000, 0), 0);
  hbm.submit(read(1024, 1), 0);
  const std::vector<std::uint64_t> done = finish(hbm, 2);
  EXPECT_LT(done[0], done[1]);
}

TEST(HbmController, NothingToTransferTakesTheLatency) {
  HbmController hbm = controller();
  hbm.submit(read(0), 10);
  EXPECT_TRUE(hbm.advance(10 + 216).empty());
  EXPECT_EQ(hbm.advance(10 + 217).size(), 1u);
}

TEST(HbmController, RefusesParametersWithoutBandwidth) {
  HbmParams params;
  params.refresh_ns = params.refresh_interval_ns;
  EXPECT_THROW(HbmController(params, kClock, 2), ConfigurationError);
  params = {};
  params.channels = 0;
  EXPECT_THROW(HbmController(params, kClock, 2), ConfigurationError);
}

}  // namespace
}  // namespace tpu
