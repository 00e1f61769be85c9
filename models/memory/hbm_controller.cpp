#include "models/memory/hbm_controller.h"

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"

namespace tpu {
namespace {

constexpr std::uint64_t kTicksPerCycle = 16;
constexpr int kByteShift = 24;

std::uint64_t ceil_divide(std::int64_t amount, std::int64_t rate) {
  return amount <= 0 ? 0 : static_cast<std::uint64_t>((amount + rate - 1) / rate);
}

std::int64_t fixed_rate(double bytes_per_cycle) {
  return std::llround(std::ldexp(bytes_per_cycle, kByteShift) / kTicksPerCycle);
}

}  // namespace

HbmController::HbmController(const HbmParams& params, std::uint32_t clock_mhz,
                             std::uint32_t cores_per_chip)
    : latency_(params.latency_cycles) {
  if (params.refresh_ns >= params.refresh_interval_ns) {
    throw ConfigurationError("hbm.refresh_ns: expected less than hbm.refresh_interval_ns (" +
                             std::to_string(params.refresh_interval_ns) + "), found " +
                             std::to_string(params.refresh_ns));
  }
  const double pins = 1.0 * params.channel_bits * params.channels / cores_per_chip;
  const double pin_rate = params.pin_mbps * pins / 8 / clock_mhz;
  const double refreshed =
      pin_rate * (params.refresh_interval_ns - params.refresh_ns) / params.refresh_interval_ns;
  const double data_clocks = 2.0 * params.drain_bursts * params.burst_beats / 2;
  const double mixed = refreshed * data_clocks / (data_clocks + params.turnaround_clocks);
  single_rate_ = fixed_rate(refreshed);
  mixed_rate_ = fixed_rate(mixed / 2);
  if (mixed_rate_ <= 0) {
    throw ConfigurationError(
        "hbm: expected a bandwidth above zero; channels, channel_bits, pin_mbps, drain_bursts and "
        "burst_beats must all be positive");
  }
}

void HbmController::submit(const HbmRequest& request, std::uint64_t now) {
  TPU_CHECK(request.bytes < (std::uint64_t{1} << 38), "HBM request of " << request.bytes << " B");
  transfer_until(now * kTicksPerCycle);
  if (request.bytes == 0) {
    done_.push_back({request, now + latency_});
    return;
  }
  std::deque<Transfer>& queue = request.write ? writes_ : reads_;
  queue.push_back({request, static_cast<std::int64_t>(request.bytes) << kByteShift});
}

std::optional<std::uint64_t> HbmController::next_event() const {
  if (!done_.empty()) return done_.front().cycle;
  if (reads_.empty() && writes_.empty()) return std::nullopt;
  const std::uint64_t finish = tick_ + ticks_to_next_finish();
  return (finish + kTicksPerCycle - 1) / kTicksPerCycle + latency_;
}

std::vector<HbmRequest> HbmController::advance(std::uint64_t now) {
  transfer_until(now * kTicksPerCycle);
  std::vector<HbmRequest> result;
  while (!done_.empty() && done_.front().cycle <= now) {
    result.push_back(done_.front().request);
    done_.pop_front();
  }
  return result;
}

std::uint64_t HbmController::ticks_to_next_finish() const {
  const bool mixed = !reads_.empty() && !writes_.empty();
  const std::int64_t rate = mixed ? mixed_rate_ : single_rate_;
  std::uint64_t ticks = ~std::uint64_t{0};
  if (!reads_.empty()) ticks = ceil_divide(reads_.front().remaining, rate);
  if (!writes_.empty()) ticks = std::min(ticks, ceil_divide(writes_.front().remaining, rate));
  return ticks;
}

void HbmController::transfer_until(std::uint64_t tick) {
  while (tick_ < tick) {
    if (reads_.empty() && writes_.empty()) {
      tick_ = tick;
      return;
    }
    const bool mixed = !reads_.empty() && !writes_.empty();
    const std::int64_t rate = mixed ? mixed_rate_ : single_rate_;
    const std::uint64_t ticks = std::min(tick - tick_, ticks_to_next_finish());
    tick_ += ticks;
    const std::int64_t amount = rate * static_cast<std::int64_t>(ticks);
    progress(reads_, amount);
    progress(writes_, amount);
  }
}

void HbmController::progress(std::deque<Transfer>& queue, std::int64_t amount) {
  while (!queue.empty()) {
    queue.front().remaining -= amount;
    if (queue.front().remaining > 0) return;
    amount = -queue.front().remaining;
    done_.push_back(
        {queue.front().request, (tick_ + kTicksPerCycle - 1) / kTicksPerCycle + latency_});
    queue.pop_front();
  }
}

}  // namespace tpu
