#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "models/memory/hbm_controller.h"

namespace tpu::test {

/// The slow twin of HbmController: every burst of every pseudo channel, clock by clock. It shares
/// the timing parameters and the address mapping with it and nothing else: granules are queued one
/// by one, and what to do is decided in each clock.
class HbmBurstTwin {
 public:
  HbmBurstTwin(const HbmParams& params, std::uint32_t clock_mhz, std::uint32_t cores_per_chip)
      : params_(params),
        timing_(params, clock_mhz),
        mapping_(params.channels * params.pseudo_channels / cores_per_chip, params.banks,
                 params.row_bytes / 1024),
        channels_(mapping_.channels()) {
    for (Channel& channel : channels_) channel.next_refresh = timing_.first_refresh;
  }

  /// Requests arrive in order of `now`.
  void submit(const HbmRequest& request, std::uint64_t now) {
    const std::uint64_t arrival = timing_.to_memory(now);
    left_.push_back(request.granules);
    data_end_.push_back(arrival);
    for (std::uint64_t i = request.first; i < request.first + request.granules; ++i) {
      std::uint64_t granule = request.address + i;
      if (request.granules_per_run > 0) {
        granule = request.address + i / request.granules_per_run * request.stride +
                  i % request.granules_per_run;
      }
      const int direction = request.write ? 1 : 0;
      Channel& channel = channels_[mapping_.channel(granule)];
      const std::uint64_t row = mapping_.row(granule);
      const bool same_bank = channel.any[direction] && row != channel.row[direction] &&
                             mapping_.bank(row) == mapping_.bank(channel.row[direction]);
      channel.any[direction] = true;
      channel.row[direction] = row;
      channel.waiting[direction].push_back({left_.size() - 1, arrival, same_bank});
    }
  }

  /// The core cycle in which each request is done, in order of submission.
  std::vector<std::uint64_t> run() {
    std::uint64_t left = 0;
    for (const std::uint64_t granules : left_) left += granules;
    for (std::uint64_t clock = 0; left > 0; ++clock) {
      for (Channel& channel : channels_) left -= step(channel, clock);
    }
    std::vector<std::uint64_t> result;
    for (const std::uint64_t end : data_end_) {
      result.push_back(timing_.to_core(end) + params_.latency_cycles);
    }
    return result;
  }

 private:
  struct Granule {
    std::size_t request = 0;
    std::uint64_t arrival = 0;
    bool same_bank = false;
  };
  struct Channel {
    std::array<std::deque<Granule>, 2> waiting;
    std::array<bool, 2> any{};
    std::array<std::uint64_t, 2> row{};
    std::array<std::uint64_t, 2> data_end{};
    std::uint64_t busy_until = 0;
    std::uint64_t next_refresh = 0;
    int last = 0;
    std::uint64_t since_turn = 0;
    int chosen = -1;  ///< Direction of the granule that is under way or about to start.
    std::uint64_t bytes_left = 0;
  };

  bool waits(const Channel& channel, int d, std::uint64_t clock) const {
    return !channel.waiting[d].empty() &&
           channel.waiting[d].front().arrival + timing_.first_data[d] <= clock;
  }

  /// Chooses the next granule; false where none waits.
  bool choose(Channel& channel, std::uint64_t clock) {
    const bool read = waits(channel, 0, clock);
    const bool write = waits(channel, 1, clock);
    if (!read && !write) return false;
    channel.chosen = read ? 0 : 1;
    if (read && write) {
      const bool turn = channel.since_turn >= timing_.drain_granules;
      channel.chosen = turn ? 1 - channel.last : channel.last;
    }
    channel.bytes_left = 1024;
    return true;
  }

  bool may_start(const Channel& channel, std::uint64_t clock) const {
    const int d = channel.chosen;
    if (d != channel.last && clock < channel.data_end[channel.last] + timing_.turn[d]) return false;
    return !channel.waiting[d].front().same_bank ||
           clock >= channel.data_end[d] + timing_.row_miss[d];
  }

  /// One clock of a channel; returns how many granules end with the burst that begins in it.
  std::uint64_t step(Channel& channel, std::uint64_t clock) {
    if (clock < channel.busy_until) return 0;
    if (channel.chosen < 0) {
      if (timing_.refresh_interval > 0 && clock >= channel.next_refresh) {
        channel.busy_until = clock + timing_.refresh;
        channel.next_refresh += timing_.refresh_interval;
        return 0;
      }
      if (!choose(channel, clock)) return 0;
    }
    const int d = channel.chosen;
    if (channel.bytes_left == 1024) {
      if (!may_start(channel, clock)) return 0;
      channel.since_turn = d == channel.last ? channel.since_turn + 1 : 1;
      channel.last = d;
    }
    channel.busy_until = channel.data_end[d] = clock + timing_.burst;
    channel.bytes_left -= params_.channel_bits / params_.pseudo_channels * params_.burst_beats / 8;
    if (channel.bytes_left > 0) return 0;
    const std::size_t request = channel.waiting[d].front().request;
    channel.waiting[d].pop_front();
    channel.chosen = -1;
    data_end_[request] = std::max(data_end_[request], channel.busy_until);
    return 1;
  }

  const HbmParams params_;
  const HbmTiming timing_;
  HbmMapping mapping_;
  std::vector<Channel> channels_;
  std::vector<std::uint64_t> left_;
  std::vector<std::uint64_t> data_end_;
};

/// The cycle in which a contiguous transfer is done that a v3 core's HBM gets in cycle `now` and
/// has for itself.
inline std::uint64_t hbm_done(bool write, std::uint64_t granules, std::uint64_t now,
                              std::uint64_t address = 0) {
  HbmBurstTwin twin(HbmParams(), 940, 2);
  HbmRequest request;
  request.write = write;
  request.address = address;
  request.granules = granules;
  twin.submit(request, now);
  return twin.run()[0];
}

}  // namespace tpu::test
