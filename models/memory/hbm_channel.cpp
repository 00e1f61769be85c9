#include "models/memory/hbm_channel.h"

#include <algorithm>

namespace tpu {

HbmChannel::HbmChannel(const HbmTiming& timing)
    : timing_(timing),
      next_refresh_(timing.refresh_interval == 0 ? kNever : timing.first_refresh) {}

void HbmPieceQueue::grow() {
  std::vector<HbmPiece> larger(std::max<std::size_t>(8, 2 * ring_.size()));
  for (std::size_t i = 0; i < size_; ++i) larger[i] = ring_[(first_ + i) & (ring_.size() - 1)];
  ring_ = std::move(larger);
  first_ = 0;
}

void HbmChannel::add(HbmDirection direction, const HbmPiece& piece) {
  arrived_[direction] += piece.granules;
  all_ready_[direction] = piece.arrival + timing_.first_data[direction];
  const bool first = queue_[direction].empty();
  queue_[direction].push_back(piece);
  if (!first) return;
  set_ready(direction);
  next_ = std::min(next_, std::max(free_, ready_[direction]));
}

std::uint64_t HbmChannel::earliest(HbmDirection direction, std::uint64_t granules) const {
  const std::uint64_t begin = std::max(free_, next_);
  const std::uint64_t mine = granules - passed_[direction];
  std::uint64_t clocks = mine * timing_.granule;
  const std::uint64_t gaps = timing_.turn[kHbmRead] + timing_.turn[kHbmWrite];
  if (begin + timing_.granule >= std::max(all_ready_[0], all_ready_[1])) {
    // Both directions take turns, the first and the last perhaps incomplete.
    const std::uint64_t drain = timing_.drain_granules;
    const HbmDirection other = direction == kHbmRead ? kHbmWrite : kHbmRead;
    const std::uint64_t turns = std::min(mine, arrived_[other] - passed_[other]) / drain;
    if (turns > 2) clocks += (turns - 2) * (drain * timing_.granule + gaps);
  }
  if (begin > next_refresh_ || begin + clocks - timing_.granule <= next_refresh_) {
    return begin + clocks;
  }
  return begin + clocks + timing_.refresh - std::min(gaps, timing_.refresh);
}

int HbmChannel::step(std::uint64_t limit) {
  const std::uint64_t clock = next_;
  if (clock >= next_refresh_) {
    refresh(clock);
    return -1;
  }
  std::uint64_t barrier = std::min(limit, next_refresh_);
  const bool both = ready_[0] <= clock && ready_[1] <= clock;
  int direction = ready_[0] <= clock ? kHbmRead : kHbmWrite;
  if (!both) {
    barrier = std::min(barrier, ready_[1 - direction]);
  } else if (since_turn_ < timing_.drain_granules) {
    direction = last_;
  } else {
    direction = 1 - last_;
    if (clock == free_ && clock == data_end_[last_]) {
      skip_rounds(barrier);
      if (free_ >= barrier) return -1;
    }
  }
  serve(direction, both, std::max(clock, free_), barrier);
  return direction;
}

/// The next refresh, which is due at `clock`, and those after it that find the channel idle.
void HbmChannel::refresh(std::uint64_t clock) {
  if (free_ <= next_refresh_) {
    next_refresh_ += (clock - next_refresh_) / timing_.refresh_interval * timing_.refresh_interval;
  }
  free_ = std::max(free_, next_refresh_) + timing_.refresh;
  next_refresh_ += timing_.refresh_interval;
}

/// Rounds of drain_granules of each direction, for as long as both first pieces last, nothing is
/// refreshed and the barrier is not reached.
void HbmChannel::skip_rounds(std::uint64_t barrier) {
  if (free_ >= barrier) return;
  const std::uint64_t drain = timing_.drain_granules;
  const std::uint64_t half = drain * timing_.granule;
  const std::uint64_t round = 2 * half + timing_.turn[0] + timing_.turn[1];
  std::uint64_t last = kNever;  // granule of either piece that keeps to the rounds
  for (int d = 0; d < 2; ++d) {
    const HbmPiece& piece = queue_[d].front();
    if (piece.row_miss && served_[d] == 0) return;
    last = std::min(last, piece.granules - served_[d] - 1);
  }
  std::uint64_t rounds = drain == 1 ? last : last / drain;
  if (rounds == 0) return;
  if (rounds * round > barrier - free_) rounds = (barrier - free_) / round;
  if (rounds == 0) return;
  free_ += rounds * round;
  data_end_[last_] = free_;
  data_end_[1 - last_] = free_ - half - timing_.turn[last_];
  for (int d = 0; d < 2; ++d) {
    served_[d] += rounds * drain;
    passed_[d] += rounds * drain;
    ready_[d] = 0;
  }
  since_turn_ = drain;
}

void HbmChannel::serve(int direction, bool both, std::uint64_t clock, std::uint64_t barrier) {
  const HbmPiece& piece = queue_[direction].front();
  std::uint64_t start = clock;
  if (direction != last_) {
    start = std::max(start, data_end_[last_] + timing_.turn[direction]);
    since_turn_ = 0;
    last_ = static_cast<HbmDirection>(direction);
  }
  if (piece.row_miss && served_[direction] == 0) {
    start = std::max(start, data_end_[direction] + timing_.row_miss[direction]);
  }
  std::uint64_t count = piece.granules - served_[direction];
  if (both) count = std::min(count, timing_.drain_granules - since_turn_);
  if (start + (count - 1) * timing_.granule >= barrier) {
    count = start < barrier ? 1 + (barrier - start - 1) / timing_.granule : 1;
  }
  since_turn_ += count;
  ready_[direction] = 0;
  served_[direction] += count;
  passed_[direction] += count;
  free_ = data_end_[direction] = start + count * timing_.granule;
}

}  // namespace tpu
