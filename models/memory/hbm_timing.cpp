#include "models/memory/hbm_timing.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

void check(const HbmParams& params) {
  const auto expect = [](bool good, const std::string& what) {
    if (!good) throw ConfigurationError("hbm." + what);
  };
  const auto found = [](std::uint64_t value) { return ", found " + std::to_string(value); };
  expect(params.pin_mbps >= 2, "pin_mbps: expected at least 2" + found(params.pin_mbps));
  expect(params.burst_beats > 0 && params.burst_beats % 2 == 0,
         "burst_beats: expected an even number above 0" + found(params.burst_beats));
  expect(params.pseudo_channels > 0 && params.channel_bits > 0 &&
             params.channel_bits % params.pseudo_channels == 0,
         "pseudo_channels: expected a divisor of hbm.channel_bits = " +
             std::to_string(params.channel_bits) + found(params.pseudo_channels));
  const std::uint64_t bits =
      std::uint64_t{params.channel_bits} / params.pseudo_channels * params.burst_beats;
  expect(bits % 8 == 0 && isa::kHbmGranuleBytes % (bits / 8) == 0,
         "burst_beats: expected bursts that fill a granule of 1024 bytes, found bursts of " +
             std::to_string(bits) + " bit");
  expect(params.row_bytes > 0 && params.row_bytes % isa::kHbmGranuleBytes == 0,
         "row_bytes: expected a multiple of 1024" + found(params.row_bytes));
  expect(params.banks >= 8 && (params.banks & (params.banks - 1)) == 0,
         "banks: expected a power of two from 8 on" + found(params.banks));
  expect(params.drain_bursts > 0, "drain_bursts: expected at least 1, found 0");
}

}  // namespace

HbmTiming::HbmTiming(const HbmParams& params, std::uint32_t clock_mhz) {
  check(params);
  const std::uint64_t common =
      std::gcd(std::uint64_t{params.pin_mbps}, 2 * std::uint64_t{clock_mhz});
  memory_clocks = params.pin_mbps / common;
  core_clocks = 2 * std::uint64_t{clock_mhz} / common;
  const auto clocks = [&](std::uint64_t ns) { return ceil_divide(ns * params.pin_mbps, 2000); };

  const std::uint64_t burst_bytes =
      std::uint64_t{params.channel_bits} / params.pseudo_channels * params.burst_beats / 8;
  const std::uint64_t bursts = isa::kHbmGranuleBytes / burst_bytes;
  burst = params.burst_beats / 2;
  granule = bursts * burst;
  const std::uint64_t reopen_read = minus(
      clocks(params.read_to_precharge_ns + params.precharge_ns + params.read_activate_ns), burst);
  first_data = {clocks(params.read_activate_ns + params.read_latency_ns),
                clocks(params.write_activate_ns + params.write_latency_ns)};
  turn = {clocks(params.write_to_read_ns + params.read_latency_ns), params.bus_turn_clocks};
  row_miss = {reopen_read, clocks(params.write_recovery_ns + params.precharge_ns +
                                  params.write_activate_ns + params.write_latency_ns)};
  drain_granules = ceil_divide(params.drain_bursts, bursts);
  round = 2 * drain_granules * granule + turn[kHbmRead] + turn[kHbmWrite];
  if (params.refresh_interval_ns == 0) return;
  refresh_interval = clocks(params.refresh_interval_ns);
  first_refresh = clocks(params.first_refresh_ns);
  refresh = clocks(params.refresh_ns) + reopen_read;
  if (refresh >= refresh_interval) {
    throw ConfigurationError(
        "hbm.refresh_ns: expected that a refresh and the reopening of a row take less than "
        "hbm.refresh_interval_ns (" +
        std::to_string(refresh_interval) + " memory clocks), found " + std::to_string(refresh));
  }
}

double HbmTiming::single_rate() const {
  const double refreshed = refresh_interval == 0 ? 0.0 : 1.0 * refresh / refresh_interval;
  return (1 - refreshed) * isa::kHbmGranuleBytes / granule;
}

double HbmTiming::mixed_rate() const {
  const double data = 2.0 * drain_granules * granule;
  return single_rate() * data / (data + turn[kHbmRead] + turn[kHbmWrite]);
}

}  // namespace tpu
