#include "models/memory/hbm_channel.h"

#include <algorithm>

namespace tpu {

HbmChannel::HbmChannel(const HbmTiming& timing, const std::array<HbmQueue, 2>& queues,
                       std::uint32_t index)
    : timing_(timing),
      queues_(queues),
      index_(index),
      next_refresh_(timing.refresh_interval == 0 ? kNever : timing.first_refresh) {}

std::uint64_t HbmChannel::earliest(HbmDirection direction, std::uint64_t granules) {
  look();
  const std::uint64_t begin = std::max(free_, next_);
  const std::uint64_t mine = granules - way_[direction].passed;
  std::uint64_t clocks = mine * timing_.granule;
  const std::uint64_t gaps = timing_.turn[kHbmRead] + timing_.turn[kHbmWrite];
  const HbmDirection other = direction == kHbmRead ? kHbmWrite : kHbmRead;
  const std::uint64_t waits = queues_[other].arrived(index_) - way_[other].passed;
  const std::uint64_t turns = std::min(mine, waits) / timing_.drain_granules;
  if (turns > 2 &&
      begin + timing_.granule >= std::max(queues_[0].last_arrival() + timing_.first_data[0],
                                          queues_[1].last_arrival() + timing_.first_data[1])) {
    // Both directions take turns, the first and the last perhaps incomplete.
    clocks += (turns - 2) * (timing_.drain_granules * timing_.granule + gaps);
  }
  if (begin > next_refresh_ || begin + clocks - timing_.granule <= next_refresh_) {
    return begin + clocks;
  }
  return begin + clocks + timing_.refresh - std::min(gaps, timing_.refresh);
}

int HbmChannel::step(std::uint64_t barrier) {
  int direction = last_;
  std::uint64_t most = timing_.drain_granules - since_turn_;
  if (since_turn_ >= timing_.drain_granules) {
    direction = 1 - last_;
    most = timing_.drain_granules;
    if (next_ == free_ && next_ == way_[last_].data_end) {
      skip_and_note_rounds(barrier);
      if (free_ >= barrier) return -1;
    }
  }
  serve(direction, most, std::max(next_, free_), barrier);
  return direction;
}

/// The next refresh, which is due at `clock`, and those after it that find the channel idle.
void HbmChannel::refresh(std::uint64_t clock) {
  if (free_ <= next_refresh_) {
    next_refresh_ += (clock - next_refresh_) / timing_.refresh_interval * timing_.refresh_interval;
  }
  count_idle(next_refresh_, clocks_);
  clocks_.refresh += timing_.refresh;
  refreshed_ = true;
  free_ = std::max(free_, next_refresh_) + timing_.refresh;
  next_refresh_ += timing_.refresh_interval;
}

std::uint64_t HbmChannel::pass_rounds(std::uint64_t barrier) {
  const std::uint64_t drain = timing_.drain_granules;
  const std::uint64_t half = drain * timing_.granule;
  const std::uint64_t round = timing_.round;
  std::uint64_t last = kNever;  // granule of either piece that keeps to the rounds
  for (int d = 0; d < 2; ++d) {
    const Way& way = way_[d];
    if (way.misses()) return 0;
    last = std::min(last, way.end - way.passed - 1);
  }
  std::uint64_t rounds = drain == 1 ? last : last / drain;
  if (rounds == 0) return 0;
  if (rounds * round > barrier - free_) rounds = (barrier - free_) / round;
  clocks_.turn += rounds * (round - 2 * half);
  refreshed_ = false;
  last_miss_ = 0;
  free_ += rounds * round;
  way_[last_].data_end = free_;
  way_[1 - last_].data_end = free_ - half - timing_.turn[last_];
  for (int d = 0; d < 2; ++d) {
    way_[d].passed += rounds * drain;
    way_[d].ready = 0;
  }
  since_turn_ = drain;
  return rounds * 2 * half;
}

void HbmChannel::count_idle(std::uint64_t clock, HbmBusClocks& clocks) const {
  if (clock <= free_) return;
  std::uint64_t asked = clock;
  for (int d = 0; d < 2; ++d) {
    if (way_[d].ready != kNever) asked = std::min(asked, way_[d].ready - timing_.first_data[d]);
  }
  asked = std::max(asked, free_);
  clocks.not_asked += asked - free_;
  clocks.row_opens += clock - asked;
}

HbmBusClocks HbmChannel::account(std::uint64_t clock) const {
  HbmBusClocks clocks = bus_clocks(clock);
  clocks.data -= before_account_.data;
  clocks.turn -= before_account_.turn;
  clocks.row_miss -= before_account_.row_miss;
  clocks.refresh -= before_account_.refresh;
  clocks.row_opens -= before_account_.row_opens;
  clocks.not_asked -= before_account_.not_asked;
  return clocks;
}

void HbmChannel::describe(std::uint64_t clock, StepState& state) const {
  std::uint64_t longest_gap = 0;
  for (int d = 0; d < 2; ++d) {
    if (way_[d].ready != kNever) state.leave_open();
    longest_gap = std::max({longest_gap, timing_.turn[d], timing_.row_miss[d]});
  }
  const auto left = [&](std::uint64_t until) { state.add(until > clock ? until - clock : 0); };
  left(free_);
  for (const Way& way : way_) left(way.data_end + longest_gap + 1);
  state.add(last_);
  state.add(std::min(since_turn_, timing_.drain_granules));
  state.add(free_ > clock ? 1 + last_miss_ + (refreshed_ ? kNever / 2 : 0) : 0);
  describe_refresh(clock, state);
}

/// When the next refresh is due; an idle channel has not yet looked at those that passed.
void HbmChannel::describe_refresh(std::uint64_t clock, StepState& state) const {
  if (timing_.refresh_interval == 0) return;
  const bool behind = next_refresh_ <= clock;
  const bool skips = behind && free_ <= next_refresh_;
  state.add((behind ? 1 : 0) + (skips ? 2 : 0));
  if (!behind) {
    state.add(next_refresh_ - clock);
  } else {
    const std::uint64_t late = clock - next_refresh_;
    state.add(skips ? late % timing_.refresh_interval : late);
  }
}

/// What the bus did before `clock`.
HbmBusClocks HbmChannel::bus_clocks(std::uint64_t clock) const {
  HbmBusClocks clocks = clocks_;
  clocks.data = (way_[0].passed + way_[1].passed) * timing_.granule;
  count_idle(clock, clocks);
  if (free_ <= clock) return clocks;
  // What has begun before goes on behind: its last granule, and perhaps the gap before that.
  std::uint64_t beyond = free_ - clock;
  const auto take = [&](std::uint64_t& from, std::uint64_t most) {
    const std::uint64_t taken = std::min(beyond, most);
    from -= taken;
    beyond -= taken;
  };
  if (refreshed_) {
    take(clocks.refresh, timing_.refresh);
  } else {
    take(clocks.data, timing_.granule);
    take(clocks.row_miss, last_miss_);
    take(clocks.turn, clocks.turn);
  }
  return clocks;
}

}  // namespace tpu
